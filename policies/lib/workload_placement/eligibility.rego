# Which clusters the customer's workload may run on, and the rules that exclude the others.
#
# A decision may look at hundreds of clusters. So the rules about them are functions of single values, which OPA evaluates
# once for equal values, and no function takes a whole cluster, because OPA would compare it with all others. Most
# clusters are in other jurisdictions, so that these are put aside first.
package lib.workload_placement

import data.lib.tolerations

# METADATA
# description: All clusters, by name.
clusters := data.placement.clusters if _data_are_direct

clusters := data.fairlead.placement.clusters if not _data_are_direct

# The names of the clusters that no rule excludes, but perhaps the workload's own request.
_standing_well := {name | some name, "allowed" in _standings}

# For each cluster `allowed`, or the rule that excludes it, but for the workload's own request.
_standings := object.union_n([_by_rules, _not_selected, {name: wrong | some name in _badly_labelled}]) if {
	_has_selector
} else := _by_rules

# The same without the workload's selector.
_by_rules := object.union_n([_by_jurisdiction, _of_complete, _of_incomplete, _of_wrong])

_not_selected := {name: sprintf("the workload's cluster-selector excludes it: %s", [_listed(requirements)]) |
	some name, "allowed" in _by_rules
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
	some name, "allowed" in _by_rules
	not _are_labels(object.get(clusters[name], "labels", {}))
}

# Empty for those in a jurisdiction of the customer's.
_by_jurisdiction := {name: sentence |
	some name, cluster in clusters
	sentence := _of_jurisdiction(cluster.jurisdiction)
}

_at_home := {name | some name, "" in _by_jurisdiction}

_of_complete := {name: standing |
	some name in _at_home
	cluster := clusters[name]
	standing := _standing(
		_of_certifications(cluster.certifications),
		cluster.location,
		cluster.cordoned,
		object.get(cluster, "taints", []),
		_of_capacity(cluster.capacity),
	)
}

_of_incomplete := {name: standing |
	some name in (_at_home - object.keys(_of_complete))
	cluster := clusters[name]
	standing := _standing(
		_of_certifications(object.get(cluster, "certifications", [])),
		cluster.location,
		object.get(cluster, "cordoned", false),
		object.get(cluster, "taints", []),
		_of_capacity(object.get(cluster, "capacity", {})),
	)
}

_of_wrong := {name: wrong | some name in (_of_no_jurisdiction | ((_at_home - object.keys(_of_complete)) - object.keys(_of_incomplete)))}

_of_no_jurisdiction := object.keys(clusters) - object.keys(_by_jurisdiction)

# Undefined for what is no jurisdiction.
_of_jurisdiction(jurisdiction) := "" if {
	jurisdiction in customer.jurisdictions
	_is_named(jurisdiction)
} else := sprintf("its jurisdiction is %s, and customer %q allows %s", [
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
