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
#   transfer is missing has no cost. Empty if nothing that the workload needs has a price.
by_cluster := {name: cost |
	is_known
	some name in eligibility.allowed
	transfers := _transfers(name)
	products := [product | some resource, amount in _paid; product := world.clusters[name].price[resource] * amount]
	cost := sum(array.concat(products, transfers))
}

# METADATA
# description: What the resources alone cost in a cluster.
of_resources(name) := sum([product | some resource, amount in _paid; product := world.clusters[name].price[resource] * amount])

# METADATA
# description: Whether anything that the workload needs has a price.
is_known if count(_paid) + count(_destinations) > 0

# What the workload pays for, in the unit of the price.
_paid := {resource: amount |
	some resource, nano in request.requests
	_is_priced(resource)
	amount := (nano / _nano_of(resource)) * request.pods
}

# A resource that no cluster of the data has a price of is free.
_is_priced(resource) if {
	some cluster in world.clusters
	is_price(cluster.price[resource])
}

_nano_of(resource) := 1073741824000000000 if _is_in_bytes(resource)

else := 1000000000

_is_in_bytes(resource) if resource in {"memory", "ephemeral-storage", "storage"}

_is_in_bytes(resource) if startswith(resource, "hugepages-")
