package lib.workload_placement.costs

import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# METADATA
# description: No price is higher.
highest_price := 1000000000

# METADATA
# description: Whether it is a price.
is_price(price) if {
	is_number(price)
	price >= 0
	price <= highest_price
}

# METADATA
# description: What is wrong with the prices of eligible clusters, as sets of sentences by the name of the cluster.
problems[name] contains "has a price that is no object of numbers from 0 to 1000000000" if some name in _malformed

problems[name] contains sprintf("has no price of %s, as others have: set one, 0 if it is free", [resource]) if {
	some resource, _ in _paid
	priced := {name | some name in eligibility.allowed; _ = world.clusters[name].price[resource]}
	some name in (eligibility.allowed - (priced | _malformed))
}

_malformed contains name if {
	some name in eligibility.allowed
	not is_object(object.get(world.clusters[name], "price", {}))
}

_malformed contains name if {
	some name in eligibility.allowed
	some resource in _read
	price := world.clusters[name].price[resource]
	not is_price(price)
}

# The prices of cpu and memory are read for each workload, so that wrong ones do not go unnoticed.
_read := {"cpu", "memory"} | object.keys(request.requests)
