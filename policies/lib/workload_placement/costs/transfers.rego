package lib.workload_placement.costs

import data.lib.values
import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# METADATA
# description: The applications that the workload sends data to, and that run nowhere by the data, as sentences.
traffic_problems contains problem if {
	some name, _ in request.traffic.applications
	not _clusters_of(name)
	problem := sprintf("application %q is not known to run in a cluster: it is not in placement.applications", [name])
}

# METADATA
# description: The transfers from a cluster, as `FROM to TO`, of which the price is missing or wrong.
unpriced_transfers(from) := {sprintf("%s to %s", [from, to]) |
	some destination in _destinations
	not from in destination.clusters
	some to in destination.clusters
	not is_price(object.get(world.transfers, [from, to], null))
}

# The GiB an hour of each destination, with the clusters where it can be reached.
_destinations := array.concat(
	[{"gib": gib, "clusters": {name}} | some name, gib in request.traffic.clusters],
	[{"gib": gib, "clusters": names} | some name, gib in request.traffic.applications; names := _clusters_of(name)],
)

# Undefined for an application that runs nowhere.
_clusters_of(application) := names if {
	names := object.keys(values.weights(world.applications[application].clusters))
	count(names) > 0
}

# What an hour of the traffic from a cluster to each destination costs. Traffic goes to the nearest cluster of an
# application, by price. Undefined if a price is missing or wrong.
_transfers(from) := [cost |
	some destination in _destinations
	not from in destination.clusters
	cost := destination.gib * min([world.transfers[from][to] | some to in destination.clusters])
] if {
	not from in _without_prices
}

_without_prices := {from |
	some destination in _destinations
	some from in (eligibility.allowed - destination.clusters)
	some to in destination.clusters
	not is_price(object.get(world.transfers, [from, to], null))
}
