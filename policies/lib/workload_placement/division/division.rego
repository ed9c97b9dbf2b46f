# METADATA
# title: Division
# description: |
#   How the replicas of a workload are divided among eligible clusters: by the weights that it asks for, or so that all
#   together cost least.
package lib.workload_placement.division

import data.lib.workload_placement.costs
import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request

# METADATA
# description: |
#   The clusters with their weights, whether there are errors or not. A workload that asks for clusters gets these. If nothing
#   that it needs has a price, it gets all eligible ones with a weight of 1.
weights := {name: {"weight": weight} | some name, weight in request.requested} if {
	request.requested
} else := {name: {"weight": number} | some name, number in _cheapest} if {
	costs.is_known
} else := {name: {"weight": 1} | some name in eligibility.allowed}

# METADATA
# description: |
#   The clusters where the workload would cost less than in the dearest one that it gets, but not enough less to move there.
hardly_cheaper := {name |
	count(running) > 0
	not request.requested
	dearest := max([costs.by_cluster[name] | some name in object.keys(weights)])
	some name, cost in costs.by_cluster
	not weights[name]
	cost < dearest
}

# METADATA
# description: What an hour of the workload costs, divided by these weights; undefined if that is not known.
cost := round((sum(shares) / request.pods) * 1000000000000) / 1000000000000 if {
	costs.is_known
	shares := [share | some name, number in _divided; share := costs.by_cluster[name] * number]
	count(weights) > 0
	count(shares) == count(weights)
}

# The replicas of each cluster by the largest remainder, for the cost. fairlead.placement.replica_division divides in the same
# way what is printed (docs/placement.md).
_divided := {name: number |
	some name, share in _shares
	number := floor(share) + count(_larger & {name})
}

_larger := {name | some [_, name] in array.slice(sort([[floor(share) - share, name] | some name, share in _shares]), 0, _rest)}

_rest := request.pods - sum([floor(share) | some share in _shares])

_shares := {name: share |
	total := sum([preference.weight | some preference in weights])
	some name, preference in weights
	share := (request.pods * preference.weight) / total
}
