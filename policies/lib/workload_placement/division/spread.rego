# Over how many clusters replicas have to be spread, and how many one cluster may have.
package lib.workload_placement.division

import data.lib.values
import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# How the replicas have to be spread: over at least so many clusters, and at most so many in one. Workloads say it
# themselves, or the settings do for all that do not ask for clusters. A setting is for workloads of any size, so it does not
# want more clusters than there are replicas.
_least_clusters := number if {
	number := request.least_clusters
} else := min([number, request.parts]) if {
	number := values.whole(world.settings.minClusters)
} else := 1

_most_replicas := 1 if {
	request.is_whole
} else := number if {
	number := request.most_pods
} else := number if {
	number := values.part_of(request.parts, world.settings.maxReplicasPerCluster)
} else := request.parts

# METADATA
# description: Why the replicas cannot be spread as they have to be.
spread_problems contains sprintf("min-clusters is %s: it is a whole number from 1 to 1000", [values.shown(value)]) if {
	value := request.stated["min-clusters"]
	not request.least_clusters
}

spread_problems contains problem if {
	value := request.stated["max-replicas-per-cluster"]
	not request.most_pods
	problem := sprintf(
		"max-replicas-per-cluster is %s: it is a whole number from 1, or a percentage such as 50%%",
		[values.shown(value)],
	)
}

spread_problems contains problem if {
	not request.is_whole
	request.least_clusters > request.parts
	problem := sprintf("min-clusters is %d, but there are only %d replicas", [request.least_clusters, request.parts])
}

spread_problems contains problem if {
	request.is_whole
	request.least_clusters > 1
	problem := sprintf("min-clusters is %d, but such a workload is kept whole, in one cluster", [request.least_clusters])
}

spread_problems contains problem if {
	request.is_whole
	request.replicas > request.most_pods
	problem := sprintf(
		"one cluster runs all %d replicas of such a workload, and max-replicas-per-cluster allows %d",
		[request.replicas, request.most_pods],
	)
}

spread_problems contains problem if {
	not request.requested
	count(eligibility.allowed) > 0
	count(eligibility.allowed) < _least_clusters
	problem := sprintf(
		"it has to run on at least %d clusters, and may run only on %s",
		[_least_clusters, values.listed(eligibility.allowed)],
	)
}

spread_problems contains problem if {
	not request.requested
	room := _most_replicas * count(eligibility.allowed)
	room > 0
	room < request.parts
	problem := sprintf(
		"at most %d replicas may run in one cluster, so %d allowed clusters take only %d of %d",
		[_most_replicas, count(eligibility.allowed), room, request.parts],
	)
}
