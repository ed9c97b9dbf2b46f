# Where the workload runs now: by the last decision, which it carries as an annotation, or else by data. What cannot be read
# there is no error, because the next decision replaces it.
package lib.workload_placement

# The weights of the clusters where it runs, if it may stay there, and of all others together.
_running := {name: weight | some name, weight in _last_weights; name in _standing_well}

# How many of its replicas run in each of them, at most.
_running_replicas := {name: ceil((_pods * weight) / _last_sum) | some name, weight in _running}

_last_sum := sum([weight | some weight in _last_weights])

_last_weights := {name: weight |
	some name, weight in _weights_in(_last)
	_is_weight(weight)
}

_last := preferences.clusters if {
	preferences := _unmarshalled(input.resource.metadata.annotations["federation.kubernetes.io/replica-set-preferences"])
} else := _source.applications[_application].clusters

# The name of the workload in `placement.applications`.
_application := sprintf("%s/%s", [_namespace_name, input.resource.metadata.name])
