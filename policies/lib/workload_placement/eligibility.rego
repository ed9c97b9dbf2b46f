# Which clusters the customer's workload may run on, and the rules that exclude the others.
#
# A decision may look at hundreds of clusters. So most of them pass by few comparisons, and only the others are judged rule
# by rule. The rules are functions of single values, which OPA evaluates once for equal values, and no function takes a whole
# cluster, because OPA would compare it with all others. Clusters in other jurisdictions are put aside first.
package lib.workload_placement

import data.lib.tolerations

# The names of the clusters that no rule excludes, but perhaps the workload's own request.
_standing_well := (_passing - object.keys(_not_selected)) - _badly_labelled if {
	_has_selector
} else := _passing

# The same without the workload's selector.
_passing := _sound | {name | some name, "allowed" in _judged_by_rules}

_not_selected := {name: sprintf("the workload's cluster-selector excludes it: %s", [_listed(requirements)]) |
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

# Those that no rule excludes, without anything that has to be looked at closely.
_sound := {name |
	some name in _at_home
	cluster := clusters[name]
	cluster.location in _locations
	cluster.cordoned == false
	not cluster.taints
	_of_certifications(cluster.certifications) == ""
	_of_capacity(cluster.capacity) == ""
}

_locations := {"on-prem", "public"} if {
	_is_uncritical
} else := {"on-prem"}

_at_home := {name | some name, cluster in clusters; cluster.jurisdiction in _lawful}

_lawful := {jurisdiction | some jurisdiction in customer.jurisdictions; jurisdiction != ""}

# For all others `allowed`, or the rule that excludes the cluster, but for the workload's own request.
_excluded := object.union_n([_abroad, _judged_by_rules, _of_wrong, _not_selected, {name: wrong | some name in _badly_labelled}])

_abroad := {name: sentence |
	some name in (object.keys(clusters) - _at_home)
	sentence := _of_jurisdiction(clusters[name].jurisdiction)
}

_judged_by_rules := {name: standing |
	some name in (_at_home - _sound)
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
	some name in (object.keys(clusters) - union({_sound, object.keys(_abroad), object.keys(_judged_by_rules)}))
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
} else := "it is a public cloud, which is only for workloads of criticality low" if {
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

_is_uncritical if stated("criticality") == "low"

_are_taints(taints) if {
	is_array(taints)
	every taint in taints {
		is_string(taint.key)
		taint.effect in {"NoExecute", "NoSchedule", "PreferNoSchedule"}
		is_string(object.get(taint, "value", ""))
	}
}
