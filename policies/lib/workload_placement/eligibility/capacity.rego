# Whether a cluster has the capacity for all replicas.
package lib.workload_placement.eligibility

import data.lib.quantities
import data.lib.workload_placement.request

# What a cluster with this capacity lacks, in sentences: each cluster can have to take all replicas.
_shortages(capacity) := [sentence |
	some resource, needed in request.demand
	quantity := _listed(capacity, resource)
	quantity != null
	amount := quantities.nano(quantity)
	amount < needed
	sentence := sprintf(
		"its capacity of %s is %s, but the workload requests %s (replicas: %d)",
		[resource, quantities.text(amount), quantities.text(needed), request.replicas],
	)
]

# Whether it is a capacity with a quantity of each resource that the workload requests.
_is_capacity(capacity) if {
	is_object(capacity)
	every resource, _ in request.demand { _is_quantity(_listed(capacity, resource)) }
}

# What a cluster lists of a resource. It has nothing of an extended resource, such as a GPU, that it does not list, and
# enough of any other one: null stands for enough.
_listed(capacity, resource) := object.get(capacity, resource, 0) if {
	contains(resource, "/")
} else := object.get(capacity, resource, null)

_is_quantity(null)

_is_quantity(quantity) if {
	quantity != null
	quantities.nano(quantity) >= 0
}
