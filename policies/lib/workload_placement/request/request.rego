# METADATA
# title: What a workload asks for
# description: |
#   What a workload says about its placement by annotations and labels, and what its pods need. Mistakes in it are sets of
#   sentences.
# schemas:
#   - input: schema.placement
package lib.workload_placement.request

# METADATA
# description: The keys of annotations, or else labels, by which a workload says something about its placement.
stated_keys := {
	"criticality",
	"customer",
	"max-replicas-per-cluster",
	"min-clusters",
	"move-volumes",
	"replica-set-preferences",
	"traffic",
}

# METADATA
# description: The keys of annotations that no label stands for.
annotation_keys := {"federation.alpha.kubernetes.io/cluster-selector", "federation.kubernetes.io/replica-set-preferences"}

# METADATA
# description: What the workload says, by `stated_keys`. An annotation counts before a label.
stated := object.union(_stated_in("labels"), _stated_in("annotations"))

_stated_in(field) := {key: value |
	some key, value in object.filter(input.resource.metadata[field], stated_keys)
	value != null
}

# METADATA
# description: The namespace of the workload. Without one, API servers take the namespace default.
default namespace := "default"

namespace := input.resource.metadata.namespace

# METADATA
# description: The name of the workload in `placement.applications`.
application := sprintf("%s/%s", [namespace, input.resource.metadata.name])

# METADATA
# description: Where the workload runs by the last decision, as its annotation says it; undefined without one.
last_decision := input.resource.metadata.annotations["federation.kubernetes.io/replica-set-preferences"]

# METADATA
# description: Whether public clouds are good enough.
is_uncritical if stated.criticality == "low"
