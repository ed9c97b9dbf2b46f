# Why the weights that a workload asks for contradict what it says of the spread. Whoever carries the decision out may round
# in another way than Webster's method, such as Karmada before 1.16.
package lib.workload_placement.division

import data.lib.webster
import data.lib.workload_placement.request

spread_problems contains problem if {
	not request.is_whole
	asked := count(request.requested)
	asked < request.least_clusters
	problem := sprintf("min-clusters is %d, but the workload asks for %d", [request.least_clusters, asked])
}

# Each share counts rounded up. Webster's method can give a large one still more.
spread_problems contains problem if {
	_is_divided
	most := request.most_pods
	by_webster := webster.divided(request.pods, request.requested)
	some name, share in _requested_shares
	replicas := max([ceil(share), by_webster[name]])
	replicas > most
	problem := sprintf(
		"cluster %q would run %d replicas by its weight, and max-replicas-per-cluster allows %d",
		[name, replicas, most],
	)
}

# Enough clusters have to get a replica under any rounding.
spread_problems contains problem if {
	_is_divided
	request.least_clusters <= count(request.requested)
	request.least_clusters <= request.replicas
	not _reach_enough
	problem := sprintf(
		"min-clusters is %d, but the weights give only %d of %d clusters a share of a whole replica: make them more equal",
		[request.least_clusters, count(_whole_shares), count(request.requested)],
	)
}

_reach_enough if count(_whole_shares) >= request.least_clusters

# A cluster with a whole share gets at most one replica of the rest, and the others get what is left. Webster's method can
# give it more, but only before a cluster whose share is less than a third, a fifth ... of its own.
_reach_enough if {
	partly := [share | some share in _whole_shares; share > floor(share)]
	rest := request.pods - sum([floor(share) | some share in _requested_shares])
	count(_whole_shares) + rest >= request.least_clusters + count(partly)
	sorted := sort([share | some share in _requested_shares])
	last := count(sorted) - request.least_clusters
	larger := array.slice(sorted, last + 1, count(sorted))
	sum([floor(((share / sorted[last]) + 1) / 2) | some share in larger]) < request.pods
}

_whole_shares := [share | some share in _requested_shares; share >= 1]

# What the weights give each cluster. Rounded, because the sum of weights such as 0.1 is not exact.
_requested_shares := {name: share |
	total := sum([weight | some weight in request.requested])
	some name, weight in request.requested
	share := round(((request.pods * weight) / total) * 1000000000) / 1000000000
}
