# The traffic that a workload says it sends.
package lib.workload_placement.request

import data.lib.values

_most_destinations := 100

_most_gib := 1000000000

_traffic_written := stated.traffic

_traffic := values.unmarshalled(_traffic_written)

# METADATA
# description: |
#   The GiB that the workload sends in an hour, `{"applications": {NAME: GIB}, "clusters": {NAME: GIB}}`, each of which may be
#   missing; empty if it says nothing or cannot be read.
traffic := _traffic if {
	_is_traffic
	count(_flows) <= _most_destinations
} else := {}

_flows := [name | some flows in _traffic; some name, _ in flows] if _is_traffic

# A helper, because traffic may be false or null.
_has_traffic if type_name(_traffic) != ""

_is_traffic if {
	object.keys(_traffic) - {"applications", "clusters"} == set()
	every flows in _traffic {
		is_object(flows)
		every gib in flows { _is_flow(gib) }
	}
}

_is_flow(gib) if {
	values.is_short(gib)
	gib >= 0
	gib <= _most_gib
}

# METADATA
# description: Why the traffic cannot be read.
traffic_problems contains sprintf("%s is no JSON", [values.shown(_traffic_written)]) if {
	is_string(_traffic_written)
	not _has_traffic
}

traffic_problems contains problem if {
	_has_traffic
	not _is_traffic
	problem := sprintf(
		"%s is not {\"applications\": {NAME: GIB}, \"clusters\": {NAME: GIB}}, with GiB an hour from 0 to %d",
		[values.shown(_traffic), _most_gib],
	)
}

traffic_problems contains sprintf("it names %d destinations: at most %d", [count(_flows), _most_destinations]) if {
	count(_flows) > _most_destinations
}

# If a text has a key twice, a parser keeps the last one. In traffic of the right shape, all texts are keys.
traffic_problems contains trim_suffix(sprintf("it has a key twice: %s", [keys]), ": ") if {
	count(_flows) <= _most_destinations
	is_string(_traffic_written)
	keys_read := count(_traffic) + count(_flows)
	count(values.texts_in(_traffic_written, keys_read + 1)) > keys_read
	keys := concat(", ", sort([values.shown(key) | some key in _repeated_keys]))
}

# An application and a cluster may share a name. So many texts nearly always have a repeated key to name.
_repeated_keys := other if {
	other := _repeated_texts - (object.keys(_traffic) | {name | _traffic.applications[name]; _traffic.clusters[name]})
	count(other) > 0
} else := _repeated_texts

_repeated_texts := values.repeated(values.texts_in(_traffic_written, _most_clusters))
