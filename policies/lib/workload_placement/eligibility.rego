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

# Those that are neither cordoned nor tainted, by their location.
_open_in := {location: names |
	some location in ["on-prem", "public"]
	names := _located(location) - (_marked("cordoned") | _marked("taints"))
}

_located(location) := {name |
	known := clusters
	some name in _at_home
	known[name].location == location
}

# Those that have any value but false in the field.
_marked(field) := {name | known := clusters; some name in _at_home; _ = known[name][field]} - {name |
	known := clusters
	some name in _at_home
	known[name][field] == false
}

_open := _open_in["on-prem"] | _open_in.public

# Those with certifications that have to be judged: all, if some are no lists of texts.
_uncertified := _open - _certified if {
	_are_texts(_certification_lists)
} else := _open

_certification_lists := {list | known := clusters; some name in _open; list := known[name].certifications}

_are_texts(lists) if {
	every list in lists { is_array(list) }
	every text in {text | some list in lists; some text in list} { is_string(text) }
}

# Those that have all that the customer requires.
_certified := _open - union({lacking |
	some required in customer.certifications
	lacking := _open - {name | known := clusters; some name in _open; known[name].certifications[_] == required}
})

_certifications_of := {name: certifications |
	known := clusters
	some name in _uncertified
	certifications := known[name].certifications
}

_by_certifications := {certifications: names |
	some certifications in {certifications | some certifications in _certifications_of}
	names := {name | some name; _certifications_of[name] == certifications}
}

_capacity_of := {name: capacity | known := clusters; some name in _open; capacity := known[name].capacity}

_by_capacity := {capacity: names |
	some capacity in {capacity | some capacity in _capacity_of}
	names := {name | some name; _capacity_of[name] == capacity}
}

# Pairs of what clusters lack, empty for nothing, and the names of these clusters. Wrong data are in none.
_lacking_certifications := {
	["", _open - _uncertified],
	[_of_certifications([]), _uncertified - object.keys(_certifications_of)],
} | {[_of_certifications(certifications), names] | some certifications, names in _by_certifications}

_lacking_capacity := {["", _open]} if {
	_are_roomy
} else := {[_of_capacity({}), _open - object.keys(_capacity_of)]} | {[_of_capacity(capacity), names] | some capacity, names in _by_capacity}

# Whether all of them have enough of all that is requested. To read the quantities takes less time than whole capacities.
_are_roomy if {
	count(demand) > 0
	every resource, needed in demand {
		listed := _capacities(resource)
		count(listed) == count(_open)
		different := {quantity | some quantity in listed}
		amounts := [amount | some quantity in different; amount := quantities.nano(quantity)]
		count(amounts) == count(different)
		min(amounts) >= needed
	}
}

_capacities(resource) := [quantity | known := clusters; some name in _open; quantity := known[name].capacity[resource]]

# The open clusters of which all data are right.
_plain := _named_in(_lacking_certifications) & _named_in(_lacking_capacity)

_named_in(pairs) := union({names | some [_, names] in pairs})

# The first rule that excludes each of them: the last of several objects counts.
_excluded_plain := object.union_n([
	_lacking_by_name(_lacking_capacity),
	{name: _in_public | not _is_uncritical; some name in (_open_in.public & _plain)},
	_lacking_by_name(_lacking_certifications),
])

_lacking_by_name(pairs) := {name: lacking |
	some [lacking, names] in pairs
	lacking != ""
	some name in (names & _plain)
}

# For each cluster the rule that excludes it, but for the workload's own request, or `allowed`, in several objects.
_exclusions := [_abroad, _excluded_plain, _judged_by_rules, _of_wrong, _not_selected, {name: wrong | some name in _badly_labelled}]

_abroad := {name: sentence |
	some jurisdiction, names in _in_jurisdiction
	not jurisdiction in customer.jurisdictions
	sentence := _of_jurisdiction(jurisdiction)
	some name in names
}

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

_of_wrong := {name: wrong |
	some name in (_names - union({_plain, object.keys(_abroad), object.keys(_judged_by_rules)}))
}

# Undefined for what is no jurisdiction.
_of_jurisdiction(jurisdiction) := sprintf("its jurisdiction is %s, and customer %q allows %s", [
	jurisdiction,
	customer_name,
	_listed(customer.jurisdictions),
]) if {
	_is_named(jurisdiction)
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
} else := "it is cordoned" if {
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

_is_uncritical if stated("criticality") == "low"

_are_taints(taints) if {
	is_array(taints)
	every taint in taints {
		is_string(taint.key)
		taint.effect in {"NoExecute", "NoSchedule", "PreferNoSchedule"}
		is_string(object.get(taint, "value", ""))
	}
}
