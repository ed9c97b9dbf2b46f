# METADATA
# title: Questions about placement
# description: |
#   Decisions about many workloads at once. Those of which placement reads the same share one decision: OPA evaluates a
#   function once for equal arguments. What placement does not read, such as images and most names, is left out first.
package lib.placement_questions

import data.lib.workload_placement.costs
import data.lib.workload_placement.customers
import data.lib.workload_placement.decision as placement
import data.lib.workload_placement.division
import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# METADATA
# description: |
#   The answer to what `question` gives, without its explanation. Customers with equal data share it: only sentences name
#   the customer.
outcome(asked) := result if {
	result := _part("outcome", _on_behalf(asked))
	result.errors == {}
} else := _part("outcome", asked)

# The question as the first of the customers with equal data would ask it. Undefined for a question that is not short.
_on_behalf(question) := object.union(question, {"resource": {"metadata": {"annotations": {"customer": first}}}}) if {
	not question.namespaces
	first := _first_of_equals[question.resource.metadata.annotations.customer]
}

_first_of_equals := {name: min(_names_of[record]) | some name, record in world.customers}

# The names of customers by their data.
_names_of[record] contains name if some name, record in world.customers

# METADATA
# description: |
#   All of the decision about the workload: its `answer`, as a list that is empty without one; the `costs` of the workload in
#   each cluster; `cost`, what the decision costs, which is null if it is not known; how it is divided, in `replicas` and
#   `fields` of each cluster; `customer`, a list that is empty if nobody names one; and `lawful`, the clusters where data of
#   that customer may be.
decision(resource, namespaces) := _part("decision", question(resource, namespaces))

# METADATA
# description: The decision about what `question` gives, with `cost`, what it costs; null if that is not known.
priced(asked) := _part("priced", asked)

# The customer is part of a short question, so that namespaces do not matter. Each value of data that `with` replaces
# costs a copy of those that are replaced already, and each `with` makes OPA evaluate all rules again.
_part(name, asked) := part if {
	not asked.namespaces
	part := _parts[name] with input as {"resource": asked.resource}
} else := part if {
	part := _parts[name] with input as {"resource": asked.resource}
		with data.kubernetes.namespaces as asked.namespaces
}

# Without its explanation, an answer takes a tenth less time.
_parts.outcome := {key: value | some key in ["annotations", "errors"]; value := data.k8s.placement[key]}

_parts.priced := {"answer": [answer | answer := data.k8s.placement], "costs": costs.by_cluster, "cost": _cost}

_parts.decision := object.union(_parts.priced, {
	"customer": [name | name := customers.name],
	"fields": division.fields,
	"lawful": eligibility.lawful,
	"replicas": division.replicas,
})

default _cost := null

_cost := placement.cost

# METADATA
# description: |
#   The name of the customer of a workload in the namespace, of which `stated` has the annotations and labels with the key
#   `customer`; undefined if nobody names one.
owner(stated, namespace, namespaces) := name if {
	name := stated.annotations.customer
	name != null
} else := name if {
	name := stated.labels.customer
	name != null
} else := _owner_of_namespace(namespace, namespaces)

# Placement is asked once about all workloads of a namespace that say nothing.
_owner_of_namespace(namespace, namespaces) := name if {
	name := customers.name with input as {"resource": {"metadata": {"namespace": namespace}}}
		with data.kubernetes.namespaces as namespaces
}

# METADATA
# description: |
#   What placement reads of the workload. Of one that it may call wrong, it reads all. Of the data of placement, only
#   `applications` matter. Where other data are replaced by `with`, ask for the question outside of that: each `with` about
#   namespaces inside of it would copy them.
question(resource, namespaces) := {"resource": {
	"kind": resource.kind,
	"metadata": object.union(metadata, names),
	"spec": spec,
}} if {
	is_object(resource.metadata)
	spec := _spec(resource.spec)
	_is_divisible(resource)
	annotations := object.get(resource.metadata, "annotations", {})
	is_object(annotations)
	labels := object.get(resource.metadata, "labels", {})
	is_object(labels)
	namespace := object.get(resource.metadata, "namespace", "default")
	is_string(namespace)

	# What it says by annotations, or else by labels.
	said := object.union(_filtered(labels, request.stated_keys), _filtered(annotations, _keys_of_annotations))
	customer := owner({"annotations": said}, namespace, object.filter(namespaces, [namespace]))
	metadata := {"annotations": object.union(said, {"customer": customer})}
	names := _names(namespace, object.get(resource.metadata, "name", null))
} else := {"resource": resource, "namespaces": namespaces}

# Kinds of others may have such a name, and of the rest of Kubernetes' own there are few.
_is_divisible(resource) if {
	resource.kind in {"Deployment", "Job", "ReplicaSet", "StatefulSet"}
	object.get(resource, "apiVersion", "apps/v1") in {"apps/v1", "batch/v1"}
}

_keys_of_annotations := request.stated_keys | request.annotation_keys

# Null is as good as nothing.
_filtered(fields, keys) := {key: value |
	some key, value in object.filter(fields, keys)
	value != null
}

# The names of a workload count if data say where it runs.
_names(namespace, name) := {"namespace": namespace, "name": name} if {
	world.applications[sprintf("%s/%s", [namespace, name])]
} else := {}

# Of workloads with equal specs, OPA evaluates this once. Undefined without the spec of a pod.
_spec(spec) := object.union(
	object.filter(spec, ["completionMode", "completions", "parallelism", "replicas", "volumeClaimTemplates"]),
	{"template": {"spec": _pod_spec(spec.template.spec)}},
) if {
	is_object(spec)
	is_object(spec.template)
	is_object(spec.template.spec)
}

_pod_spec(spec) := object.union_n([
	object.filter(spec, ["overhead", "resources", "tolerations"]),
	{list: _containers(spec[list]) | some list in ["containers", "initContainers"]},
	{"volumes": [{"persistentVolumeClaim": {}} | some volume in spec.volumes; is_object(volume.persistentVolumeClaim)]},
])

_containers(containers) := [_container(container) | some container in containers] if {
	is_array(containers)
} else := containers

_container(container) := object.filter(container, ["resources", "restartPolicy"]) if {
	is_object(container)
} else := container
