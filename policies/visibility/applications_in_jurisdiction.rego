# METADATA
# title: A customer's applications in a jurisdiction
# description: |
#   Which workloads of a customer run in the clusters of a jurisdiction, with the pods that none of them made. `source`
#   says how that is known: by an object of the cluster (and which other object made that), by the annotation of a manifest,
#   or, if that has none, by a decision.
# schemas:
#   - input:
#       type: object
#       properties:
#         customer: {type: string, description: the name of the customer}
#         jurisdiction: {type: string, description: the jurisdiction, as clusters have it}
#       required: [customer, jurisdiction]
#   - data.placement: schema.placement_data
# custom:
#   columns: [cluster, kind, namespace, name, replicas, source]
package visibility.applications_in_jurisdiction

import data.lib.applications
import data.lib.workload_placement.world as placement

# METADATA
# description: A row for each workload and cluster.
rows contains row if {
	some cluster in _clusters
	some running in applications.of_customer(input.customer, cluster)
	[_, namespace, name] := running.workload
	row := {
		"cluster": cluster,
		"kind": applications.kind(running.workload),
		"namespace": namespace,
		"name": name,
		"replicas": _replicas(cluster, running.workload),
		"source": _source(cluster, running),
	}
}

_clusters := {name | some name, cluster in placement.clusters; cluster.jurisdiction == input.jurisdiction}

_source(cluster, running) := sprintf("%s of %s", [running.source, controller]) if {
	running.source == "object"
	controller := applications.unlisted_controller(cluster, running.workload)
} else := running.source

_replicas(cluster, workload) := number if {
	number := applications.replicas(cluster, workload)
} else := null

# METADATA
# description: Why the question cannot be answered.
problems contains sprintf("customer %q is not known: it is not in placement.customers", [input.customer]) if {
	not data.placement.customers[input.customer]
}

problems contains sprintf("no cluster is in jurisdiction %q: placement.clusters has %s", [
	input.jurisdiction,
	concat(", ", sort({cluster.jurisdiction | some cluster in placement.clusters})),
]) if count(_clusters) == 0

# METADATA
# description: What the answer does not rest upon.
notes contains applications.note_about(cluster) if some cluster in _clusters

notes contains sprintf("cluster %s has other objects of customer %s: %s", [cluster, input.customer, list]) if {
	some cluster in (_clusters & applications.observed)
	others := applications.others_of(input.customer, cluster)
	count(others) > 0
	list := concat(", ", sort([sprintf("%s (%d)", [kind, number]) | some kind, number in others]))
}
