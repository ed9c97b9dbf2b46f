# The replicas of each cluster if the workload asks for no clusters: so that all together cost least.
package lib.workload_placement.division

import data.lib.workload_placement.costs
import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# The replicas of each cluster, so that all together cost least. To take the cheapest offers is best, because in each
# cluster the first replicas are the cheapest: docs/placement.md says why.
_cheapest := {name: number |
	some name in {offer.name | some offer in _offers}
	number := count(_obliged & {name}) + sum([taken.number | some taken in _taken; taken.name == name])
	number > 0
}

_ranked := sort([[cost, name] | some name, cost in costs.by_cluster])

# More clusters than these never run the workload, other than those where it runs already: they have room for all replicas.
_most_used := min([max([_least_clusters, ceil(request.parts / _most_replicas)]), count(eligibility.allowed)])

# Each offer is a cluster with the cost of all replicas there, and how many replicas there may be. A replica that runs in a
# cluster counts as cheaper there by the share that a move has to save. The best offers come first; of equal costs, those for
# replicas that run there.
_offers := [{"name": name, "moves": moves, "room": room} |
	some [_, moves, name, room] in sort(array.concat(
		[[costs.by_cluster[name] * (1 - world.move_threshold), 0, name, number] | some name, number in _staying],
		[[costs.by_cluster[name], 1, name, room] |
			some name in _to_move_to
			room := _most_replicas - object.get(_staying, name, 0)
			room > 0
		],
	))
]

_to_move_to := {name | some [_, name] in array.slice(_ranked, 0, _most_used)} | object.keys(_staying)

_staying := {name: min([number, _most_replicas]) | some name, number in running; costs.by_cluster[name] >= 0}

# The clusters that get one replica, so that there are enough of them.
_obliged := {name | some name in array.slice([offer.name | some offer in _offers; _is_first(offer)], 0, _least_clusters)}

# Whether the offer is the better one of its cluster.
_is_first(offer) if offer.moves == 0

_is_first(offer) if not _staying[offer.name]

# The other replicas go to the best offers, until all have a place.
_taken := [{"name": offer.name, "number": number} |
	some index, offer in _offers
	before := sum(array.slice(_rooms, 0, index))
	number := min([_rooms[index], (request.parts - count(_obliged)) - before])
	number > 0
]

_rooms := [room | some offer in _offers; room := offer.room - count([1 | _is_first(offer); offer.name in _obliged])]

# METADATA
# description: The prices of transfers that are missing from clusters which can be among the cheapest.
transfer_problems contains problem if {
	costs.is_known
	not request.requested
	missing := sort([pair |
		some name in (eligibility.allowed - object.keys(costs.by_cluster))
		_may_be_used(name)
		some pair in costs.unpriced_transfers(name)
	])
	count(missing) > 0
	pairs := concat(", ", array.slice(missing, 0, 3))
	problem := sprintf("no price from 0 to %d of transfers from %s: set placement.transfer", [costs.highest_price, pairs])
}

# Without the price of a transfer, a cluster costs at least what its resources do.
_may_be_used(name) if running[name]

_may_be_used(name) if not _is_dearer(name)

_is_dearer(name) if costs.of_resources(name) > _ranked[_most_used - 1][0]
