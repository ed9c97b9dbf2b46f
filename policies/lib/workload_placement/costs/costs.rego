# METADATA
# title: Costs
# description: |
#   What an hour of a workload costs in each eligible cluster: the resources that its pods request, and the traffic that they
#   send to other clusters.
package lib.workload_placement.costs

import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# METADATA
# description: |
#   What an hour of all replicas would cost in each eligible cluster, by its name. A cluster from which the price of a
#   transfer is missing has no cost. Empty if nothing that the workload needs has a price. Costs are doubles: OPA adds at 64
#   bits, where equal costs differ in their last digits.
by_cluster := {name: cost |
	is_known
	some name in (eligibility.allowed - _without_prices)
	cost := to_number(sprintf("%v", [sum([part | some costs in _parts; part := costs[name]])]))
}

# METADATA
# description: What the resources alone cost in a cluster.
of_resources(name) := sum([part | some costs in _of_resources; part := costs[name]])

# What costs are made of: for each resource and each destination, what it costs by the name of the cluster.
_parts := array.concat(_of_resources, _of_transfers)

_of_resources := [costs |
	some resource, amount in _paid
	costs := {name: cost | some name, price in _stated[resource]; cost := price * amount}
]

# METADATA
# description: Whether anything that the workload needs has a price.
is_known if count(_paid) + count(_destinations) > 0

# What the workload pays for, in the unit of the price.
_paid := {resource: amount |
	some resource, nano in request.requests
	_is_priced(resource)
	amount := (nano / _nano_of(resource)) * request.pods
}

# A resource is free if no cluster of the data has a price of it.
_is_priced(resource) if {
	some cluster in world.clusters
	is_price(cluster.price[resource])
}

_nano_of(resource) := 1073741824000000000 if _is_in_bytes(resource)

else := 1000000000

_is_in_bytes(resource) if resource in {"memory", "ephemeral-storage", "storage"}

_is_in_bytes(resource) if startswith(resource, "hugepages-")
