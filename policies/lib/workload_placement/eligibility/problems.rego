package lib.workload_placement.eligibility

import data.lib.values
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# METADATA
# description: What is wrong with the data of clusters that a decision reads, as sets of sentences by the name of the cluster.
problems[name] contains "is no object" if {
	some name, cluster in world.clusters
	not is_object(cluster)
}

problems[name] contains "has no jurisdiction: set one" if {
	some name, cluster in world.clusters
	is_object(cluster)
	not _jurisdictions[name]
}

problems[name] contains "has no location on-prem or public: set one" if {
	some name in _at_home
	not object.get(world.clusters[name], "location", "") in {"on-prem", "public"}
}

problems[name] contains "has certifications that are no list of texts" if {
	some name in _at_home
	not values.texts(object.get(world.clusters[name], "certifications", []))
}

problems[name] contains "has cordoned that is neither true nor false" if {
	some name in _at_home
	not is_boolean(object.get(world.clusters[name], "cordoned", false))
}

problems[name] contains "has malformed taints: write a list of {key, value, effect}" if {
	some name in _at_home
	not _are_taints(object.get(world.clusters[name], "taints", []))
}

problems[name] contains "has a capacity that is no object of quantities" if {
	some name in _at_home
	not _is_capacity(object.get(world.clusters[name], "capacity", {}))
}

problems[name] contains "has labels that are no object of texts" if {
	request.has_selector
	some name in _at_home
	not _are_labels(object.get(world.clusters[name], "labels", {}))
}

_are_taints(taints) if {
	is_array(taints)
	every taint in taints {
		is_string(taint.key)
		taint.effect in {"NoExecute", "NoSchedule", "PreferNoSchedule"}
		is_string(object.get(taint, "value", ""))
	}
}

_are_labels(labels) if {
	is_object(labels)
	every value in labels { is_string(value) }
}
