# Whether a cluster has room for all replicas of the workload: each can have to take all of them.
package lib.workload_placement

import data.lib.quantities

# What a cluster with this capacity lacks, in a sentence; empty if it has room. Undefined for what is no capacity.
_of_capacity(capacity) := concat("", array.slice(shortages, 0, 1)) if {
	is_object(capacity)
	lacking := [sentence |
		some resource, _ in demand
		sentence := _of_quantity(resource, object.get(capacity, resource, _unlisted(resource)))
	]
	count(lacking) == count(demand)
	shortages := [sentence | some sentence in lacking; sentence != ""]
}

# What it lacks with so much of a resource; empty if this is enough. Undefined for what is no quantity.
_of_quantity(_, null) := ""

_of_quantity(resource, quantity) := _of_amount(resource, quantities.nano(quantity)) if quantity != null

_of_amount(resource, amount) := "" if {
	amount >= demand[resource]
} else := sentence if {
	amount >= 0
	sentence := sprintf("its capacity of %s is %s, but the workload requests %s (replicas: %d)", [
		resource,
		quantities.text(amount),
		quantities.text(demand[resource]),
		replicas,
	])
}

# A cluster that does not say how much it has of an extended resource, such as a GPU, has none of it. Of others it has
# enough.
_unlisted(resource) := 0 if contains(resource, "/")

else := null
