# How the replicas have to be spread: over at least so many clusters, and at most so many in one. Workloads say it
# themselves, or the settings do for all that do not ask for clusters.
package lib.workload_placement

# Whether anything says how they have to be spread.
_may_be_spread if _settings != {}

_may_be_spread if _stated["min-clusters"] != null

_may_be_spread if _stated["max-replicas-per-cluster"] != null

# A setting is for workloads of any size, so it does not want more clusters than there are replicas.
_least_clusters := _stated_clusters if {
	_stated_clusters
} else := min([number, _pods]) if {
	number := _clusters_of(_settings.minClusters)
} else := 1

_most_replicas := _stated_most if {
	_stated_most
} else := number if {
	number := _replicas_of(_settings.maxReplicasPerCluster)
} else := _pods

_stated_most := _replicas_of(_stated["max-replicas-per-cluster"])

_spread_problems contains sprintf("min-clusters is %s: it is a whole number from 1 to %d", [shown(value), _most_requested]) if {
	value := _stated["min-clusters"]
	not _clusters_of(value)
}

_spread_problems contains problem if {
	value := _stated["max-replicas-per-cluster"]
	not _replicas_of(value)
	problem := sprintf("max-replicas-per-cluster is %s: it is a whole number from 1, or a percentage such as 50%%", [shown(value)])
}

_spread_problems contains sprintf("min-clusters is %d, but there are only %d replicas", [_stated_clusters, _pods]) if {
	_stated_clusters > _pods
}

_spread_problems contains sprintf("it has to run on at least %d clusters, and may run only on %s", [_least_clusters, _listed(_standing_well)]) if {
	not requested
	count(_standing_well) > 0
	count(_standing_well) < _least_clusters
}

_spread_problems contains problem if {
	not requested
	room := _most_replicas * count(_standing_well)
	room > 0
	room < _pods
	problem := sprintf(
		"at most %d replicas may run in one cluster, so %d allowed clusters take only %d of %d",
		[_most_replicas, count(_standing_well), room, _pods],
	)
}

_spread_problems contains sprintf("min-clusters is %d, but the workload asks for %d", [_stated_clusters, count(requested)]) if {
	count(requested) < _stated_clusters
}

# How the rest of a division is given is not known here, so that each share is rounded up.
_spread_problems contains problem if {
	_stated_most
	total := sum([weight | some weight in requested])
	some name, weight in requested
	share := ceil((_pods * weight) / total)
	share > _stated_most
	problem := sprintf("cluster %q would run %d replicas by its weight, and max-replicas-per-cluster allows %d", [name, share, _stated_most])
}

# Nor is it known here, so that enough clusters have to get a replica whoever gets the rest.
_spread_problems contains problem if {
	_stated_clusters <= count(requested)
	_stated_clusters <= replicas
	not _reach_enough
	problem := sprintf(
		"min-clusters is %d, but the weights give only %d of %d clusters a share of a whole replica: make them more equal",
		[_stated_clusters, count(_whole_shares), count(requested)],
	)
}

_reach_enough if count(_whole_shares) >= _stated_clusters

# Of the rest, a cluster with a whole share gets one replica at most, and the others get what is left. By Webster's method
# it can get more, but only before a cluster whose share is less than a third, a fifth ... of its own.
_reach_enough if {
	partly := [share | some share in _whole_shares; share > floor(share)]
	rest := _pods - sum([floor(share) | some share in _asked_shares])
	count(_whole_shares) + rest >= _stated_clusters + count(partly)
	sorted := sort(_asked_shares)
	last := count(sorted) - _stated_clusters
	larger := array.slice(sorted, last + 1, count(sorted))
	sum([floor(((share / sorted[last]) + 1) / 2) | some share in larger]) < _pods
}

_whole_shares := [share | some share in _asked_shares; share >= 1]

# What the weights give each cluster. Rounded, because the sum of weights such as 0.1 is not exact.
_asked_shares := [share |
	total := sum([weight | some weight in requested])
	some weight in requested
	share := round(((_pods * weight) / total) * 1000000000) / 1000000000
]
