# What is wrong with the data of clusters that a decision reads. Those of one cluster are enough to end the decision,
# because nobody can tell what was meant. Each problem is looked for only where something is known to be wrong.
package lib.workload_placement

_cluster_problems contains sprintf("cluster %q %s", [name, problem]) if {
	customer
	some name in _suspicious
	some problem in _problems_of(name, clusters[name])
}

_suspicious := union({
	object.keys(_of_wrong),
	_badly_labelled,
	_badly_priced,
	{name | some names in _unpriced; some name in names},
})

_problems_of(name, cluster) := _problems_of_object(name, cluster) if {
	is_object(cluster)
} else := {"is no object"}

_problems_of_object(name, cluster) := union({
	{"has no jurisdiction: set one" | not _is_named(object.get(cluster, "jurisdiction", ""))},
	{"has no location on-prem or public: set one" | not object.get(cluster, "location", "") in {"on-prem", "public"}},
	{"has certifications that are no list of texts" | not _texts(object.get(cluster, "certifications", []))},
	{"has cordoned that is neither true nor false" | not is_boolean(object.get(cluster, "cordoned", false))},
	{"has taints that are none: write a list of key, value and effect" | not _are_taints(object.get(cluster, "taints", []))},
	{"has labels that are no object of texts" | not _are_labels(object.get(cluster, "labels", {}))},
	{"has a capacity that is no object of quantities" | not _is_capacity(object.get(cluster, "capacity", {}))},
	{"has a price that is no object of numbers from 0 to 1000000000" | name in _badly_priced},
	{problem |
		some resource, names in _unpriced
		name in names
		problem := sprintf("has no price of %s, as others have: set one, 0 if it is free", [resource])
	},
})

_is_capacity(capacity) if {
	is_object(capacity)
	every quantity in capacity { _is_quantity(quantity) }
}
