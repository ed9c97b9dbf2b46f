# How many pods are divided among clusters, and numbers that say how.
package lib.workload_placement

# A workload that is scaled to zero gets the clusters that it needs later.
_pods := replicas if {
	replicas != 0
} else := _stated_clusters if {
	_stated_clusters
} else := 1

# Over how many clusters the workload says that it has to be spread, at least.
_stated_clusters := _clusters_of(_stated["min-clusters"])

# A number of clusters; undefined for what is none.
_clusters_of(value) := number if {
	number := _whole(value)
	number <= _most_requested
}

# A number of replicas, or a percentage of them, rounded up; undefined for what is neither.
_replicas_of(value) := _whole(value)

_replicas_of(value) := ceil((_pods * to_number(trim_suffix(value, "%"))) / 100) if regex.match(`^([1-9][0-9]?|100)%$`, value)

_whole(value) := to_number(text) if {
	text := sprintf("%v", [value])
	regex.match(`^[1-9][0-9]{0,6}$`, text)
}
