# What is wrong with the data of clusters that a decision reads. Those of one cluster are enough to end the decision,
# because nobody can tell what was meant. Each problem is looked for only where something is known to be wrong.
package lib.workload_placement

_cluster_problems contains sprintf("cluster %q %s", [name, problem]) if {
	customer
	some name in _suspicious
	some problem in _problems_of(name, clusters[name])
}

_suspicious := (object.keys(_of_wrong) | _badly_priced) | _badly_labelled

_problems_of(_, cluster) := {problem | some problem in _problems_of_object(cluster)} if {
	is_object(cluster)
} else := {"is no object"}

_problems_of_object(cluster) := union({
	{"has no jurisdiction: set one" | not _is_named(object.get(cluster, "jurisdiction", ""))},
	{"has no location on-prem or public: set one" | not object.get(cluster, "location", "") in {"on-prem", "public"}},
	{"has certifications that are no list of texts" | not _texts(object.get(cluster, "certifications", []))},
	{"has cordoned that is neither true nor false" | not is_boolean(object.get(cluster, "cordoned", false))},
	{"has taints that are none: write a list of key, value and effect" | not _are_taints(object.get(cluster, "taints", []))},
	{"has labels that are no object of texts" | not _are_labels(object.get(cluster, "labels", {}))},
	{"has a capacity that is no object of quantities" | not _is_capacity(object.get(cluster, "capacity", {}))},
	{"has a price that is no object of numbers from 0 to 1000000000" | not _is_price(object.get(cluster, "price", {}))},
})

_is_capacity(capacity) if {
	is_object(capacity)
	every quantity in capacity { _is_quantity(quantity) }
}

_is_price(price) if {
	is_object(price)
	every number in price {
		is_number(number)
		number >= 0
		number <= _highest_price
	}
}

# All prices are compared at once, which costs least. Types have an order, too: what is no number is below 0 or above all
# numbers. A price without that of cpu may be something else than an object.
_badly_priced := {name |
	some name in _perhaps_badly_priced
	not _is_price(object.get(clusters[name], "price", {}))
}

_perhaps_badly_priced := _standing_well - {name | some name in _standing_well; clusters[name].price.cpu} if {
	prices := [price | some name in _standing_well; price := clusters[name].price[_]]
	min(array.concat([0], prices)) >= 0
	max(array.concat([0], prices)) <= _highest_price
} else := _standing_well

_highest_price := 1000000000
