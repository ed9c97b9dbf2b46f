# The clusters and weights that a workload asks for.
package lib.workload_placement.request

import data.lib.values

# METADATA
# description: |
#   The weights of the clusters that the workload asks for, by name; undefined if it asks for none or wrongly. It writes a
#   list of names, `{"clusters": [NAME]}`, or `{"clusters": {NAME: {"weight": NUMBER}}}`, as JSON or as it is.
requested := values.weights(_choices) if { # regal ignore:rule-name-repeats-package
	_written != null
	count(preference_problems) == 0
}

_written := stated["replica-set-preferences"]

# Undefined if the workload has no preferences, or they cannot be read.
_preferences := values.unmarshalled(_written)

# A list, or the clusters by name.
_choices := values.choices(_preferences)

# METADATA
# description: Why the clusters that the workload asks for cannot be read.
preference_problems contains sprintf("it has %d characters: at most %d", [count(_written), values.longest]) if {
	is_string(_written)
	count(_written) > values.longest
}

preference_problems contains sprintf("%s is no JSON", [values.shown(_written)]) if {
	is_string(_written)
	count(_written) <= values.longest
	not _is_readable
}

preference_problems contains problem if {
	_is_readable
	not _has_choices
	problem := sprintf(
		"%s is neither a list of clusters nor {\"clusters\": {NAME: {\"weight\": NUMBER}}}",
		[values.shown(_preferences)],
	)
}

preference_problems contains "it names no cluster: name one, or remove it" if count(_choices) == 0

preference_problems contains sprintf("it names %d clusters: at most %d", [count(_choices), _most_clusters]) if {
	count(_choices) > _most_clusters
}

preference_problems contains sprintf("%s is no name of a cluster", [values.shown(name)]) if {
	_are_few
	is_array(_choices)
	some name in _choices
	not is_string(name)
}

preference_problems contains sprintf("it names a cluster twice: %s", [values.listed(keys)]) if {
	_are_few
	count(_repeated) > 0
	keys := {values.shown(key) | some key in _repeated}
}

preference_problems contains sprintf("cluster %q has %s: write {\"weight\": NUMBER}", [name, values.shown(preference)]) if {
	_are_few
	is_object(_choices)
	some name, preference in _choices
	not _has_weight(preference)
}

preference_problems contains problem if {
	_are_few
	is_object(_choices)
	some name, preference in _choices
	_has_weight(preference)
	not values.is_weight(preference.weight)
	problem := sprintf(
		"the weight of cluster %q is %s: write a number above 0, from 0.000001 to 1000000",
		[name, values.shown(preference.weight)],
	)
}

# Helpers, because preferences may be false or null.
_is_readable if type_name(_preferences) != ""

_has_choices if type_name(_choices) != ""

_are_few if count(_choices) <= _most_clusters

_are_of_the_right_shape if {
	is_array(_choices)
	every name in _choices { is_string(name) }
}

_are_of_the_right_shape if {
	is_object(_choices)
	every preference in _choices {
		_has_weight(preference)
		is_number(preference.weight)
	}
}

_has_weight(preference) if object.keys(preference) == {"weight"}

_repeated := {"clusters"} if {
	is_array(_choices)
	_are_of_the_right_shape
	is_object(_preferences)
	is_string(_written)
	count(values.texts_in(_written, count(_choices) + 2)) > count(_choices) + 1
} else := values.repeated(sort(_choices)) if is_array(_choices)

# If a text has a key twice, a parser keeps the last one. In preferences of the right shape, all texts are keys:
# `clusters`, each name, and `weight` for each name. One more text than that is enough to find the second one of two.
_repeated := keys - _once if {
	is_object(_choices)
	_are_of_the_right_shape
	is_string(_written)
	texts := values.texts_in(_written, (2 * count(_choices)) + 2)
	count(texts) > (2 * count(_choices)) + 1
	keys := values.repeated(texts)
	_once := {"weight" | keys != {"weight"}}
}
