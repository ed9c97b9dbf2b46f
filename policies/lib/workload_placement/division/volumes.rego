# Where the volumes of a workload are that runs already: what they hold does not move to another cluster.
package lib.workload_placement.division

import data.lib.values
import data.lib.webster
import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request

# METADATA
# description: |
#   The weights that a workload with volumes has where it runs, and keeps as long as it asks for nothing else, and may stay.
kept := _last_weights if {
	_has_volumes
	not request.requested
	object.keys(_last_weights) - eligibility.allowed == set()
	_is_spread_enough
}

_has_volumes if {
	request.has_claims
	not request.may_leave_volumes
	count(_last_weights) > 0
}

# Whether what runs is as the workload wants it to be spread.
_is_spread_enough if {
	counts := [number | some number in _before; number > 0]
	count(counts) >= _least_wished
	max(counts) <= _most_wished
}

default _least_wished := 1

_least_wished := request.least_clusters

_most_wished := number if {
	number := request.most_pods
} else := request.parts

_before := webster.divided(request.parts, _last_weights)

# METADATA
# description: Why the workload cannot be decided on without a word on its volumes.
volume_problems contains problem if {
	_has_volumes
	after := webster.divided(request.parts, _chosen)
	left := {name | some name, number in _before; number > object.get(after, name, 0)}
	count(left) > 0
	entered := {name | some name, number in after; number > object.get(_before, name, 0)}
	count(entered) > 0
	problem := sprintf(
		"it has volumes in %s, and what they hold would not move along to %s: accept that by move-volumes: accept",
		[values.listed(left), values.listed(entered)],
	)
}
