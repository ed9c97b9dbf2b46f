# What the workload's traffic from each cluster to others costs.
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
	not _transfer_prices[to][from]
}

# The GiB an hour of each destination, with the clusters where it can be reached.
_destinations := array.concat(
	[{"gib": gib, "clusters": {name}} | some name, gib in request.traffic.clusters],
	[{"gib": gib, "clusters": names} | some name, gib in request.traffic.applications; names := _clusters_of(name)],
)

# The clusters of an application. Undefined if it runs nowhere.
_clusters_of(application) := names if {
	names := object.keys(values.weights(world.applications[application].clusters))
	count(names) > 0
}

# The prices of transfers to each cluster where traffic goes, by the cluster that they are from.
_transfer_prices := {to: prices |
	some destination in _destinations
	some to in destination.clusters
	prices := _prices_of({from: price | some from, outgoing in world.transfers; price := outgoing[to]})
}

# For each destination, what an hour of the traffic to it costs, by the eligible cluster that it leaves. Traffic goes to the
# nearest cluster of an application, by price. Clusters from which a price is missing or wrong are left out.
_of_transfers := [costs |
	some destination in _destinations
	prices_to := [prices | some to in destination.clusters; prices := _transfer_prices[to]]
	priced := intersection({object.keys(prices) | some prices in prices_to})
	costs := {from: cost |
		some from in ((eligibility.allowed & priced) - destination.clusters)
		cost := destination.gib * min([prices[from] | some prices in prices_to])
	}
]

# The eligible clusters from which the price of a transfer is missing or wrong.
_without_prices := {from |
	some index, destination in _destinations
	some from in ((eligibility.allowed - destination.clusters) - object.keys(_of_transfers[index]))
}
