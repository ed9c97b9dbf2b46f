# Which clusters the workload asks for, with which weights: a list of names, or `{"clusters": {name: {"weight": 2}}}`, as
# JSON in an annotation, or as it is.
package lib.workload_placement

# METADATA
# description: The weights of the clusters that the workload asks for, by name; undefined if it asks for none or wrongly.
requested := _weights_in(_choices) if {
	_written != null
	count(_preference_problems) == 0
}

# The weights in a list of clusters, or in an object of them.
_weights_in(choices) := {name: 1 | some name in choices} if is_array(choices)

_weights_in(choices) := {name: preference.weight | some name, preference in choices} if is_object(choices)

_written := _stated["replica-set-preferences"]

# Undefined if there are none, or they cannot be read.
_preferences := _unmarshalled(_written)

# A list, or the clusters by name. Both are undefined for any other shape.
_choices := _preferences if is_array(_preferences)

_choices := _preferences.clusters if {
	object.keys(_preferences) == {"clusters"}
	is_object(_preferences.clusters)
}

_preference_problems contains sprintf("it has %d characters: at most %d", [count(_written), _longest]) if {
	is_string(_written)
	count(_written) > _longest
}

_preference_problems contains sprintf("%s is no JSON", [shown(_written)]) if {
	is_string(_written)
	count(_written) <= _longest
	not _is_readable
}

_preference_problems contains problem if {
	_is_readable
	not _has_choices
	problem := sprintf(
		"%s is neither a list of clusters nor {\"clusters\": {NAME: {\"weight\": NUMBER}}}",
		[shown(_preferences)],
	)
}

_preference_problems contains "it names no cluster: name one, or remove it" if count(_choices) == 0

_preference_problems contains sprintf("it names %d clusters: at most %d", [count(_choices), _most_requested]) if {
	count(_choices) > _most_requested
}

_preference_problems contains sprintf("%s is no name of a cluster", [shown(name)]) if {
	_are_few
	is_array(_choices)
	some name in _choices
	not is_string(name)
}

_preference_problems contains sprintf("it names a cluster twice: %s", [_listed({shown(key) | some key in _repeated})]) if {
	_are_few
	count(_repeated) > 0
}

_preference_problems contains sprintf("cluster %q has %s: write {\"weight\": NUMBER}", [name, shown(preference)]) if {
	_are_few
	is_object(_choices)
	some name, preference in _choices
	not _has_weight(preference)
}

_preference_problems contains problem if {
	_are_few
	is_object(_choices)
	some name, preference in _choices
	_has_weight(preference)
	not _is_weight(preference.weight)
	problem := sprintf("the weight of cluster %q is %s: write a number above 0, from 0.000001 to 1000000", [name, shown(preference.weight)])
}

# Helpers, because preferences may be false or null.
_is_readable if some _ in [_preferences]

_has_choices if some _ in [_choices]

_are_few if count(_choices) <= _most_requested

_has_weight(preference) if object.keys(preference) == {"weight"}

_is_weight(weight) if {
	is_number(weight)
	_is_short(weight)
	weight >= 0.000001
	weight <= 1000000
}

# All names as they are written, sorted.
_named := sort(_choices) if is_array(_choices)

# Of a key that stands in a text twice, a parser keeps the last. In preferences of the right shape, all texts are keys.
# One more text than there should be is enough to find the second one of two.
_named := sort([json.unmarshal(text) | some text in texts]) if {
	is_object(_choices)
	is_string(_written)
	texts := regex.find_n(_text_in_json, _written, (2 * count(_choices)) + 2)
	count(texts) > (2 * count(_choices)) + 1
}

_repeated := _twice if is_array(_choices)

# Each cluster has a weight, so that this key stands there as often as there are clusters.
_repeated := _twice if {
	is_object(_choices)
	_twice == {"weight"}
} else := _twice - {"weight"} if is_object(_choices)

_twice := _repeated_in(_named)
