# How replicas are divided among the clusters: this rule alone gives weights.
package lib.workload_placement

_weights := {name: {"weight": weight} | some name, weight in requested} if {
	requested
} else := {name: {"weight": 1} | some name in _standing_well}
