# Where the workload sends data: GiB an hour to applications, of which data say where they run, or to clusters, as JSON in
# the annotation `traffic`, or as it is.
package lib.workload_placement

_most_destinations := 100

_traffic_written := _stated.traffic

_traffic := _unmarshalled(_traffic_written)

# The GiB an hour of each destination, with the clusters where it can be reached.
_destinations := array.concat(
	[{"gib": gib, "clusters": {name}} | some name, gib in _traffic.clusters],
	[{"gib": gib, "clusters": names} | some name, gib in _traffic.applications; names := _clusters_of_application(name)],
) if {
	count(_flows) <= _most_destinations
} else := []

_flows := [name | some flows in _traffic; some name, _ in flows] if _is_traffic

# A helper, because traffic may be false or null.
_has_traffic if some _ in [_traffic]

_is_traffic if {
	object.keys(_traffic) - {"applications", "clusters"} == set()
	every flows in _traffic {
		is_object(flows)
		every gib in flows { _is_flow(gib) }
	}
}

_is_flow(gib) if {
	_is_short(gib)
	is_price(gib)
}

# Undefined for one that runs nowhere.
_clusters_of_application(name) := names if {
	names := object.keys(_weights_in(_source.applications[name].clusters))
	count(names) > 0
}

# What an hour of the traffic from a cluster to each destination costs. Traffic goes to the nearest cluster of an application, by
# price. Undefined if a price is missing or none.
_transferring(from) := costs if {
	costs := [cost |
		some destination in _destinations
		cost := destination.gib * _price_of_transfer(from, destination.clusters)
	]
	count(costs) == count(_destinations)
}

# Undefined if a price that counts is missing or none: values of all types have an order, so that the least and the
# greatest tell of all of them.
_price_of_transfer(from, to) := 0 if {
	from in to
} else := lowest if {
	prices := [_transfers[from][name] | some name in to]
	count(prices) == count(to)
	lowest := min(prices)
	lowest >= 0
	max(prices) <= highest_price
}

# The clusters to which the price of a transfer is missing or none, where it counts.
_unpriced_transfers(from) := {name |
	some destination in _destinations
	not from in destination.clusters
	some name in destination.clusters
	not is_price(object.get(_transfers, [from, name], null))
}

_transfers := _source.transfer if {
	is_object(_source.transfer)
} else := {}

_traffic_problems contains sprintf("%s is no JSON", [shown(_traffic_written)]) if {
	is_string(_traffic_written)
	not _has_traffic
}

_traffic_problems contains problem if {
	_has_traffic
	not _is_traffic
	problem := sprintf(
		"%s is not {\"applications\": {NAME: GIB}, \"clusters\": {NAME: GIB}}, with GiB an hour from 0 to %d",
		[shown(_traffic), highest_price],
	)
}

_traffic_problems contains sprintf("it names %d destinations: at most %d", [count(_flows), _most_destinations]) if {
	count(_flows) > _most_destinations
}

_traffic_problems contains _repetition if {
	count(_flows) <= _most_destinations
	count(_traffic_texts(_traffic_keys + 1)) > _traffic_keys
}

_traffic_problems contains problem if {
	count(_flows) <= _most_destinations
	some name, _ in _traffic.applications
	not _clusters_of_application(name)
	problem := sprintf("application %q is not known to run in a cluster: it is not in placement.applications", [name])
}

# Of a key that stands in a text twice, a parser keeps the last. In traffic of the right shape, all texts are keys.
_traffic_texts(most) := regex.find_n(_text_in_json, _traffic_written, most) if is_string(_traffic_written)

# How many texts there should be.
_traffic_keys := count(_traffic) + count(_flows)

default _repetition := "it has a key twice"

_repetition := sprintf("it has a key twice: %s", [_listed({shown(key) | some key in keys})]) if {
	keys := _repeated_keys
}

# An application and a cluster may have one name.
_repeated_keys := keys if {
	keys := _repeated_texts - (object.keys(_traffic) | {name | _traffic.applications[name]; _traffic.clusters[name]})
	count(keys) > 0
} else := _repeated_texts

# Almost always, so many texts are enough to name some key; undefined if they are not.
_repeated_texts := _repeated_in(sort([json.unmarshal(text) | some text in _traffic_texts(_most_requested)]))
