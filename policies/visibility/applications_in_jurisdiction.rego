# METADATA
# title: A customer's applications in a jurisdiction
# description: |
#   Which workloads of a customer run in the clusters of a jurisdiction. `source` says how that is known: by an object of
#   the cluster, by the annotation of a manifest, or, if that has none, by a decision.
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
	[resources, namespace, name] := running.workload
	row := {
		"cluster": cluster,
		"kind": applications.kinds[resources],
		"namespace": namespace,
		"name": name,
		"replicas": _replicas(cluster, running.workload),
		"source": running.source,
	}
}

_clusters := {name | some name, cluster in placement.clusters; cluster.jurisdiction == input.jurisdiction}

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
]) if {
	count(_clusters) == 0
}

# METADATA
# description: What the answer does not rest upon.
notes contains sprintf("no objects of cluster %s were given: what runs there is what manifests say, or placement decides", [cluster]) if {
	some cluster in (_clusters - applications.observed)
}
