# Whether the pods of a workload may be in several clusters.
package lib.workload_placement.request

# METADATA
# description: |
#   The kind of the workload, if it is one of Kubernetes' own; empty for one that others define, such as a Job of Volcano.
kind := object.get(input.resource, "kind", "Deployment") if {
	_group in {"", "apps", "batch"}
} else := ""

_group := group if {
	[group, _] := split(input.resource.apiVersion, "/")
} else := ""

_divisible := {"Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"}

# METADATA
# description: |
#   Whether each cluster of the workload has all of it: it has a pod on each node, or none at all.
is_copied if kind == "DaemonSet"

is_copied if {
	not kind in _divisible
	not _has_pods
}

_has_pods if pod_spec.containers

# METADATA
# description: |
#   Whether one cluster runs all pods, because several would do the same work twice, or because nobody can tell how the
#   pods of such a kind are divided.
is_whole if {
	not kind in _divisible
	not is_copied
}

is_whole if {
	kind == "Job"
	input.resource.spec.completionMode == "Indexed"
}

# METADATA
# description: How many parts of the workload may be in different clusters.
parts := 1 if is_whole

else := pods
