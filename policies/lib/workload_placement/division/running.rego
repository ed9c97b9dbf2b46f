# Where the workload runs now, so that it stays there unless a move saves enough.
package lib.workload_placement.division

import data.lib.values
import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# METADATA
# description: |
#   How many replicas of the workload run now in each cluster where it may stay, at most: by the last decision, or else by the
#   data. What cannot be read there is left out without an error, because the next decision replaces it.
running := {name: replicas |
	total := sum([weight | some weight in _last_weights])
	some name, weight in _last_weights
	name in eligibility.allowed
	replicas := ceil((request.parts * weight) / total)
}

_last_weights := {name: weight |
	some name, weight in values.weights(_last)
	values.is_weight(weight)
}

_last := choices if {
	choices := values.choices(values.unmarshalled(request.last_decision))
} else := world.applications[request.application].clusters
