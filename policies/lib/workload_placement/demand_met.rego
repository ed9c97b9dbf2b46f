# Whether a cluster has room for all replicas of the workload: each can have to take all of them.
package lib.workload_placement

import data.lib.quantities

# What a cluster with this capacity lacks, in a sentence; empty if it has room. Undefined for what is no capacity.
_of_capacity(capacity) := concat("", array.slice(_shortages(capacity), 0, 1)) if {
	is_object(capacity)
	every resource, _ in demand { _is_quantity(object.get(capacity, resource, 0)) }
}

_shortages(capacity) := [sentence |
	some resource, amount in demand
	quantity := object.get(capacity, resource, _unlisted(resource))
	quantity != null
	quantities.nano(quantity) < amount
	sentence := sprintf("its capacity of %s is %s, but the workload requests %s (replicas: %d)", [
		resource,
		quantities.text(quantities.nano(quantity)),
		quantities.text(amount),
		replicas,
	])
]

# A cluster that does not say how much it has of an extended resource, such as a GPU, has none of it. Of others it has
# enough.
_unlisted(resource) := 0 if contains(resource, "/")

else := null
