# What the resources of an eligible cluster cost, and what is wrong with the prices in the data.
package lib.workload_placement.costs

import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request

# METADATA
# description: The highest price that is allowed.
highest_price := 1000000000

# METADATA
# description: Whether it is a price.
is_price(value) if count(_prices_of([value])) == 1

# The prices among what is stated, by their keys. Values of other types are less or greater than all numbers.
_prices_of(stated) := {key: value | some key, value in stated; value >= 0; value <= highest_price}

# METADATA
# description: What is wrong with the prices of eligible clusters, as sets of sentences by the name of the cluster.
problems[name] contains "has a price that is no object of numbers from 0 to 1000000000" if some name in _malformed

problems[name] contains sprintf("has no price of %s, as others have: set one, 0 if it is free", [resource]) if {
	some resource, _ in _paid
	some name in (eligibility.allowed - (object.keys(_stated[resource]) | _malformed))
}

_malformed contains name if {
	some name in (eligibility.allowed - object.keys(_stated.cpu))
	not is_object(object.get(eligibility.clusters[name], "price", {}))
}

_malformed contains name if {
	some stated in _stated
	some name in (object.keys(stated) - object.keys(_prices_of(stated)))
}

# What eligible clusters say of the price of each resource, by their names. The prices of cpu and memory are read for each
# workload, so that wrong ones do not go unnoticed.
_stated := {resource: stated |
	some resource in ({"cpu", "memory"} | object.keys(request.requests))
	stated := {name: value | some name, cluster in eligibility.clusters; value := cluster.price[resource]}
}
