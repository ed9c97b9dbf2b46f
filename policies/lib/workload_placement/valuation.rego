# What the workload would cost in each cluster, and in which clusters it can be cheapest. To multiply prices takes OPA
# microseconds, so this is done only for the clusters that may be chosen; comparisons put the others aside first.
package lib.workload_placement

# METADATA
# description: |
#   What the workload would cost in an hour in each cluster that no rule excludes, if all of its replicas ran there; empty if
#   nothing that it needs has a price.
costs := _costs_in(_standing_well) if {
	_has_costs
} else := {}

_has_costs if count(_paid) + count(_destinations) > 0

# Those of these clusters; without those of which the price of a transfer is missing. All in one call take a third less time
# than each in one of its own, and one sum takes less time than several.
_costs_in(names) := {name: cost |
	known := clusters
	paid := _paid
	some name in names
	cost := sum([product | some resource, amount in paid; product := known[name].price[resource] * amount])
} if {
	count(_destinations) == 0
} else := {name: cost |
	known := clusters
	paid := _paid
	some name in names
	transferring := _transferring(name)
	cost := sum(array.concat(
		[product | some resource, amount in paid; product := known[name].price[resource] * amount],
		transferring,
	))
}

# More clusters than these never run the workload, other than those where it runs already: with so many, there are enough
# of them, and they have room for all replicas.
_most_used := min([max([_least_clusters, ceil(_pods / _most_replicas)]), count(_standing_well)])

# The costs of the clusters that can be among the cheapest, and of those where the workload runs.
_candidates := costs if {
	_is_valued_everywhere
} else := object.union(
	object.filter(_probed_costs, _not_dearer | object.keys(_running)),
	_costs_in((_not_dearer | object.keys(_running)) - (_probed | _near)),
)

# With few clusters, to value all of them takes less time than to find those that can be among the cheapest. Where it
# already runs, explanations name only the latter.
_is_valued_everywhere if {
	count(_standing_well) <= _few
	count(_running) == 0
	count(costs) == count(_standing_well)
}

_few := 12

# The clusters that have the lowest costs, and perhaps some more. So many clusters as are used cost no more than `_bound`. A
# cluster with a price above `_highest` costs more than this, even if it had the lowest ones of all else.
_not_dearer := _first_not_dearer - _dearer if {
	_highest_of_first
} else := _standing_well

_first_not_dearer := {entry[1] | some entry in array.slice(_ranked, 0, _most_not_dearer)}

_dearer := {name |
	known := clusters
	some name in _first_not_dearer
	some resource, highest in _highest
	known[name].price[resource] > highest
}

# The clusters by the price of `_first`, from the lowest on.
_ranked := _by_price if {
	_first == _usually_priced
} else := sort([[price, name] | known := clusters; some name in _standing_well; price := known[name].price[_first]])

# Steps of the length of `_block` tell in few comparisons where the prices are too high.
_most_not_dearer := _block * count([number |
	some number in numbers.range_step(0, count(_ranked) - 1, _block)
	_ranked[number][0] <= _highest_of_first
])

_block := 16

_highest_of_first := _highest[_first]

# Rounded up, because a comparison with a number of more than 15 digits takes OPA 50 allocations.
_highest := {resource: highest |
	bound := _bound
	some resource, amount in _paid
	others := [cost | some other, units in _paid; other != resource; cost := min(_prices[other]) * units]
	highest := ceil(((bound - sum(others)) / amount) * 1000000000000) / 1000000000000
}

# By the costs of some clusters that are likely to be cheap. The last digits of products are rounded.
_bound := sort([cost | some cost in _probed_costs])[_most_used - 1] * 1.000000001

_probed_costs := _costs_in(_probed | _near)

_probed := {entry[1] | some entry in array.slice(_ranked, 0, _most_used + 4)}

_with_low_prices := {entry[1] | some entry in array.slice(_ranked, 0, _most_used)}

_near := {name | some destination in _destinations; some name in destination.clusters; name in _standing_well}

_first := "cpu" if {
	_paid.cpu
} else := min(object.keys(_paid))

_transfer_problems contains sprintf("no price from 0 to %d of transfers from %s: set placement.transfer", [highest_price, shown_list]) if {
	count(_destinations) > 0
	_has_costs
	not requested
	not _is_valued_everywhere
	valued := object.union(_probed_costs, _candidates)
	pairs := sort({pair |
		some from in ((((_with_low_prices | _near) | _not_dearer) | object.keys(_running)) - object.keys(valued))
		some to in _unpriced_transfers(from)
		pair := concat(" to ", [from, to])
	})
	count(pairs) > 0
	shown_list := concat(", ", array.slice(pairs, 0, 3))
}
