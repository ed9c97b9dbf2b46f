# METADATA
# title: Division
# description: |
#   How the replicas of a workload are divided among eligible clusters: by the weights that it asks for, or so that all
#   together cost least.
package lib.workload_placement.division

import data.lib.webster
import data.lib.workload_placement.costs
import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request

# METADATA
# description: |
#   The clusters with their weights, whether there are errors or not. A workload with volumes keeps those that it has. One that
#   asks for clusters gets these. If nothing that it needs has a price, it gets all eligible ones with a weight of 1.
weights := {name: {"weight": weight} | some name, weight in _chosen}

_chosen := _one_of(_choices) if {
	request.is_whole
} else := _choices

_choices := kept if {
	kept
} else := request.requested if {
	request.requested
} else := _cheapest if {
	costs.is_known
} else := {name: 1 | some name in eligibility.allowed}

# The cluster for a workload that is kept whole: one where it runs already comes first, then the one with the largest weight.
_one_of(candidates) := {name: candidates[name] |
	ranked := sort([[0 - count(object.keys(running) & {name}), 0 - weight, name] | some name, weight in candidates])
	some [_, _, name] in array.slice(ranked, 0, 1)
}

# METADATA
# description: |
#   The clusters where the workload would cost less than in the dearest one that it gets, but not enough less to move there.
hardly_cheaper := {name |
	count(running) > 0
	not request.requested
	dearest := max([cost | some name, cost in costs.by_cluster; _chosen[name]])
	some name, cost in costs.by_cluster
	not _chosen[name]
	cost < dearest
}

# METADATA
# description: |
#   What an hour of the workload costs, divided by these weights; undefined if that is not known, as for a DaemonSet.
cost := round((sum(shares) / request.parts) * 1000000000000) / 1000000000000 if {
	costs.is_known
	not request.is_copied
	count(_chosen) > 0
	shares := [share | some name, number in webster.divided(request.parts, _chosen); share := costs.by_cluster[name] * number]
	count(shares) == count(_chosen)
}

# METADATA
# description: |
#   How many pods each cluster runs, whether there are errors or not; 1 for each cluster of a workload that is copied.
replicas := {name: 1 | some name, _ in _chosen} if {
	request.is_copied
} else := {name: request.replicas | some name, _ in _chosen} if {
	request.is_whole
} else := webster.divided(request.replicas, _chosen)

# METADATA
# description: |
#   The fields of the workload's spec that say how many pods each cluster runs, by its name; none for what is not divided.
fields := {name: {} | some name, _ in replicas} if {
	not _is_divided
} else := {name: _of_job(name, number) | some name, number in replicas} if {
	request.kind == "Job"
} else := {name: {"replicas": number} | some name, number in replicas}

_is_divided if {
	not request.is_whole
	not request.is_copied
}

_of_job(name, number) := {"completions": completed, "parallelism": number} if {
	completed := completions[name]
} else := {"parallelism": number}

# METADATA
# description: |
#   How many pods of a Job have to succeed in each cluster; undefined for other workloads, and for a Job that does not say how
#   many in all.
completions := webster.divided(request.completions, _working) if {
	request.completions > 0
	not request.is_whole
}

# The clusters with pods; all, while the Job runs none.
_working := running_pods if {
	running_pods := {name: number | some name, number in replicas; number > 0}
	count(running_pods) > 0
} else := _chosen
