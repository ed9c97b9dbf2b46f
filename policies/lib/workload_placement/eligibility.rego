# Which clusters the customer's workload may run on, and the rules that exclude the others.
#
# A decision may look at hundreds of clusters, so nothing is judged cluster by cluster if it can be judged for all that have
# the same value. Only clusters with data that few have, such as taints, are judged one by one. No function takes a whole
# cluster, because OPA would compare it with all others. Clusters in other jurisdictions are put aside first.
#
# Loops read `known[name].field`, where `known` is a local variable: to find the rule `clusters` again for each cluster takes
# OPA three allocations more. A comparison with a value takes four less than an expression that is only a reference.
package lib.workload_placement

import data.lib.quantities
import data.lib.tolerations

# The names of the clusters that no rule excludes, but perhaps the workload's own request.
_standing_well := (_passing - object.keys(_not_selected)) - _badly_labelled if {
	_has_selector
} else := _passing

# The same without the workload's selector.
_passing := (_plain - object.keys(_excluded_plain)) | {name | some name, "allowed" in _judged_by_rules}

_not_selected := {name: sprintf("the workload's cluster-selector excludes it: %s", [_listed(requirements)]) |
	_has_selector
	some name in _passing
	cluster := clusters[name]
	own := {key: cluster[key] | some key in _label_fields}
	labels := object.union(object.get(cluster, "labels", {}), own)
	requirements := {requirement.text |
		some requirement in _requirements
		not _meets(requirement.operator, requirement.values, object.get(labels, requirement.key, null))
	}
	count(requirements) > 0
}

# Labels are read for a selector alone.
_badly_labelled := {name |
	_has_selector
	some name in _passing
	not _are_labels(object.get(clusters[name], "labels", {}))
}

_jurisdiction_of := {name: jurisdiction |
	known := clusters
	some name
	jurisdiction := known[name].jurisdiction
}

_in_jurisdiction := {jurisdiction: names |
	some jurisdiction in {jurisdiction | some jurisdiction in _jurisdiction_of}
	names := {name | some name; _jurisdiction_of[name] == jurisdiction}
}

# The names of all clusters. If all have a jurisdiction, they need not be read again.
_names := object.keys(_jurisdiction_of) if {
	is_object(clusters)
	count(_jurisdiction_of) == count(clusters)
} else := object.keys(clusters)

_at_home := union({_in_jurisdiction[jurisdiction] | some jurisdiction in customer.jurisdictions; jurisdiction != ""})

# The clusters at home of which few data have to be read: what they say of their location and cordon is right, and they say
# nothing of taints. No JSON is a set, so that this default tells whether there are taints.
_open := _not_cordoned | _cordoned

_not_cordoned := {name |
	known := clusters
	some name in _at_home
	cluster := known[name]
	cluster.location in {"on-prem", "public"}
	object.get(cluster, "cordoned", false) == false
	object.get(cluster, "taints", set()) == set()
}

_cordoned := {name |
	known := clusters
	some name in (_at_home - _not_cordoned)
	cluster := known[name]
	cluster.cordoned == true
	cluster.location in {"on-prem", "public"}
	object.get(cluster, "taints", set()) == set()
}

_certifications_of := {name: certifications | known := clusters; some name in _open; certifications := known[name].certifications}

# Each list once, because many clusters have equal ones.
_lists_of_certifications := {certifications | some certifications in _certifications_of}

# Those that have to be judged: all, if some are no lists of texts.
_insufficient_lists := {certifications |
	some certifications in _lists_of_certifications
	some required in customer.certifications
	not required in certifications
} if {
	lists := _lists_of_certifications | {[]}
	is_array(max(lists))
	is_array(min(lists))
	_are_strings([text | some list in lists; some text in list])
} else := _lists_of_certifications

# The clusters with certifications that have to be judged.
_uncertified := _without_certifications if {
	count(_insufficient_lists) == 0
} else := _without_certifications | {name | some name, certifications in _certifications_of; certifications in _insufficient_lists}

_without_certifications := set() if {
	count(_certifications_of) == count(_open)
} else := _open - object.keys(_certifications_of)

_by_certifications := {certifications: names |
	some certifications in _insufficient_lists
	names := {name | some name; _certifications_of[name] == certifications}
}

_capacity_of := {name: capacity | known := clusters; some name in _open; capacity := known[name].capacity}

_by_capacity := {capacity: names |
	some capacity in {capacity | some capacity in _capacity_of}
	names := {name | some name; _capacity_of[name] == capacity}
}

# Pairs of what clusters lack, empty for nothing, and the names of these clusters. Wrong data are in none.
_lacking_certifications := {["", _open]} if {
	count(_uncertified) == 0
} else := {
	["", _open - _uncertified],
	[_of_certifications([]), _without_certifications],
} | {[_of_certifications(certifications), names] | some certifications, names in _by_certifications}

_lacking_capacity := {["", _open]} if {
	_are_roomy
} else := {[_of_capacity({}), _open - object.keys(_capacity_of)]} | {[_of_capacity(capacity), names] | some capacity, names in _by_capacity}

# Whether all of them have enough of all that is requested. To read the quantities takes less time than whole capacities.
_are_roomy if {
	count(demand) > 0
	known := clusters
	every resource, needed in demand {
		listed := [quantity | some name in _open; quantity := known[name].capacity[resource]]
		count(listed) == count(_open)
		quantities.least({quantity | some quantity in listed}) >= needed
	}
}

# To ask this first saves 110 allocations, because nearly always nothing lacks.
_nothing_lacks if {
	count(_uncertified) == 0
	_are_roomy
}

# The open clusters of which all data are right.
_plain := _open if {
	_nothing_lacks
} else := _named_in(_lacking_certifications) & _named_in(_lacking_capacity)

_named_in(pairs) := union({names | some [_, names] in pairs})

# The first rule that excludes each of them: the last of several objects counts.
_excluded_plain := _excluded_by_place if {
	_nothing_lacks
} else := object.union_n([
	_lacking_by_name(_lacking_capacity),
	_excluded_by_place,
	_lacking_by_name(_lacking_certifications),
])

_excluded_by_place := object.union(
	{name: _in_cordon | some name in (_cordoned & _plain)},
	{name: _in_public | not _is_uncritical; known := clusters; some name in _plain; known[name].location == "public"},
)

_lacking_by_name(pairs) := {name: lacking |
	some [lacking, names] in pairs
	lacking != ""
	some name in (names & _plain)
}

# For each cluster the rule that excludes it, but for the workload's own request, or `allowed`, in several objects.
_exclusions := [_abroad, _excluded_plain, _judged_by_rules, _of_wrong, _not_selected, {name: wrong | some name in _badly_labelled}]

_abroad := {name: sentence |
	where_allowed := _where_allowed
	some jurisdiction in _foreign
	sentence := concat("", ["its jurisdiction is ", jurisdiction, where_allowed])
	some name in _in_jurisdiction[jurisdiction]
}

# The jurisdictions that the customer does not allow.
_foreign := {jurisdiction |
	some jurisdiction in (object.keys(_in_jurisdiction) - customer.jurisdictions)
	is_string(jurisdiction)
	jurisdiction != ""
}

_where_allowed := sprintf(", and customer %q allows %s", [customer_name, _listed(customer.jurisdictions)])

_judged_by_rules := {name: standing |
	some name in (_at_home - _plain)
	cluster := clusters[name]
	standing := _standing(
		_of_certifications(object.get(cluster, "certifications", [])),
		cluster.location,
		object.get(cluster, "cordoned", false),
		object.get(cluster, "taints", []),
		_of_capacity(object.get(cluster, "capacity", {})),
	)
}

# To count all others first takes a third of the time of naming them: no cluster is in two of them. Their explanations are
# not asked for, because those who leave them out ask for errors.
_of_wrong := {} if {
	is_object(clusters)
	abroad := [count(_in_jurisdiction[jurisdiction]) | some jurisdiction in _foreign]
	count(clusters) == sum(array.concat([count(_plain), count(_judged_by_rules)], abroad))
} else := {name: wrong |
	some name in (_names - union({_plain, object.keys(_abroad), object.keys(_judged_by_rules)}))
}

_is_named(jurisdiction) if {
	is_string(jurisdiction)
	jurisdiction != ""
}

# Empty if nothing lacks; undefined for what are no certifications.
_of_certifications(certifications) := _lacking(customer.certifications - _texts(certifications))

_lacking(names) := sprintf("it lacks what customer %q requires: %s", [customer_name, _listed(names)]) if {
	count(names) > 0
} else := ""

# The rules after that about jurisdictions, in their order. Undefined for data that are wrong.
_standing(lacking, location, cordoned, taints, short) := _judged(lacking, location, cordoned, taints, short) if {
	location in {"on-prem", "public"}
	is_boolean(cordoned)
	_are_taints(taints)
}

_judged(lacking, location, cordoned, taints, short) := lacking if {
	lacking != ""
} else := _in_public if {
	location == "public"
	not _is_uncritical
} else := _in_cordon if {
	cordoned
} else := sprintf("its taint %s is not tolerated", [tolerations.text(untolerated[0])]) if {
	untolerated := [taint |
		some taint in taints
		taint.effect in {"NoExecute", "NoSchedule"}
		not tolerations.covered(taint, object.get(pod_spec, "tolerations", []))
	]
	count(untolerated) > 0
} else := short if {
	short != ""
} else := "allowed"

_in_public := "it is a public cloud, which is only for workloads of criticality low"

_in_cordon := "it is cordoned"

_is_uncritical if _stated.criticality == "low"

_are_taints(taints) if {
	is_array(taints)
	every taint in taints {
		is_string(taint.key)
		taint.effect in {"NoExecute", "NoSchedule", "PreferNoSchedule"}
		is_string(object.get(taint, "value", ""))
	}
}
