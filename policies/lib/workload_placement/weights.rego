# How replicas are divided among the clusters: this file alone gives weights.
package lib.workload_placement

_weights := {name: {"weight": weight} | some name, weight in requested} if {
	requested
} else := {name: {"weight": number} | some name, number in _cheapest_division} if {
	_has_costs
} else := {name: {"weight": 1} | some name in _standing_well}

# The replicas of each cluster, so that all together cost least. A replica that runs in a cluster counts as cheaper there by
# the share that a move has to save. To take the cheapest offers is best, because in each cluster the first replicas are the
# cheapest: docs/placement.md says why.
_cheapest_division := {cheapest: _pods} if {
	# Most workloads need one cluster, and this takes 250 allocations less.
	_most_used == 1
	count(_running) == 0
	cheapest := min([[cost, name] | some name, cost in _candidates])[1]
} else := {name: number |
	some name in _used
	number := count(_obliged & {name}) + sum([taken | some offer in _taken; offer[0] == name; taken := offer[1]])
	number > 0
}

_used := {offer[2] | some offer in _offers}

# Each offer is the cost of all replicas there, 0 for those that run there and 1 for others, the cluster, and how many
# replicas there may be. The first by this order is the best.
_offers := array.concat(_offers_to_stay, [[_candidates[name], 1, name, room] |
	some name in (_cheapest | object.keys(_running))
	room := _most_replicas - object.get(_staying, name, 0)
	room > 0
])

_offers_to_stay := [[_candidates[name] * (1 - _move_threshold), 0, name, number] | some name, number in _staying]

_staying := {name: min([number, _most_replicas]) | some name, number in _running_replicas}

_cheapest := {entry[1] | some entry in array.slice(sort([[cost, name] | some name, cost in _candidates]), 0, _most_used)}

# The clusters that get one replica, so that there are enough of them.
_obliged := {offer[2] | some offer in array.slice(sort([offer | some offer in _offers; _is_first(offer)]), 0, _least_clusters)}

_is_first(offer) if offer[1] == 0

_is_first(offer) if not _staying[offer[2]]

# What else is taken, by cluster: the best offers, until all replicas have a place.
_taken := [[offer[2], taken] |
	some index, offer in _others
	before := sum(array.slice(_numbers, 0, index))
	taken := min([offer[3], (_pods - count(_obliged)) - before])
	taken > 0
]

_others := sort([[offer[0], offer[1], offer[2], offer[3] - _obligation(offer)] | some offer in _offers])

_numbers := [offer[3] | some offer in _others]

_obligation(offer) := 1 if {
	offer[2] in _obliged
	_is_first(offer)
} else := 0
