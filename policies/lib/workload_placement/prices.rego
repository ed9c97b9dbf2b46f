# What the clusters charge for what the workload requests. OPA compares numbers in a tenth of the time that it takes to
# multiply them, so that nothing is multiplied here.
package lib.workload_placement

# The prices of each resource in the clusters where the workload may run, in no order. Those of cpu and memory are read for
# each workload, so that wrong ones do not go unnoticed.
_prices := {resource: prices |
	some resource in ({"cpu", "memory"} | object.keys(_requests))
	prices := _prices_of(resource)
}

_prices_of(resource) := [entry[0] | some entry in _by_price] if {
	resource == _usually_priced
} else := [price | known := clusters; some name in _standing_well; price := known[name].price[resource]]

# The prices of one resource with the names of the clusters, from the lowest on.
_by_price := sort([[price, name] | known := clusters; first := _usually_priced; some name in _standing_well; price := known[name].price[first]])

_usually_priced := "cpu" if {
	_requests.cpu
} else := min(object.keys(_requests))

# What the workload pays for, in the unit of the price. A resource that no cluster of the data has a price of is free.
_paid := {resource: amount |
	some resource, nano in _requests
	count(_prices[resource]) > 0
	amount := (nano / _nano_of(resource)) * _pods
}

_nano_of(resource) := _nano_gib if _is_in_bytes(resource)

else := 1000000000

_nano_gib := 1073741824000000000

_is_in_bytes(resource) if resource in {"memory", "ephemeral-storage", "storage"}

_is_in_bytes(resource) if startswith(resource, "hugepages-")

# METADATA
# description: No price is higher.
highest_price := 1000000000

# METADATA
# description: |
#   Whether it is a price. What is between two numbers is a number, too, because values of all types have an order.
is_price(price) if {
	price >= 0
	price <= highest_price
}

# The resources whose prices are missing somewhere, or wrong. Values of all types have an order, so that the least and the
# greatest tell of all of them.
_suspect_resources := {resource |
	some resource in (object.keys(_prices) - _well_priced)
	_is_suspect(_prices[resource])
}

_well_priced := {resource |
	some resource, prices in _prices
	count(prices) == count(_standing_well)
	min(prices) >= 0
	max(prices) <= highest_price
}

_is_suspect(prices) if not is_price(min(prices))

_is_suspect(prices) if not is_price(max(prices))

_is_suspect(prices) if {
	count(prices) < count(_standing_well)
	_some_price_is_set
}

# Clusters that a rule excludes count as well: without the price of an allowed one, they tell that it is missing.
_some_price_is_set if {
	known := clusters
	some name
	known[name].price != null
}

# Wrong prices are looked for only where something is wrong with them.
_badly_priced contains name if {
	some resource in _suspect_resources
	some name in _standing_well
	not _are_all_prices(object.get(clusters[name], "price", {}), resource)
}

# The clusters without a price that the workload would pay, and others have, by the resource.
_unpriced[resource] contains name if {
	some resource in _suspect_resources
	_requests[resource]
	_is_priced_elsewhere(resource)
	some name in (_standing_well - _badly_priced)
	not _has_price(name, resource)
}

_is_priced_elsewhere(resource) if {
	number := count(_prices[resource])
	number > 0
	number < count(_standing_well)
}

# Only if no cluster where the workload may run has a price, those that a rule excludes tell whether it is free.
_is_priced_elsewhere(resource) if {
	count(_prices[resource]) == 0
	known := clusters
	some name
	is_price(known[name].price[resource])
}

_are_all_prices(price, resource) if {
	is_object(price)
	is_price(object.get(price, resource, 0))
}

_has_price(name, resource) if some _ in [clusters[name].price[resource]]
