# METADATA
# title: Eligibility
# description: |
#   Which clusters a workload may run on, and which rule excludes each of the others. Of a cluster in another jurisdiction,
#   nothing else is read.
package lib.workload_placement.eligibility

import data.lib.tolerations
import data.lib.values
import data.lib.workload_placement.customers
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# METADATA
# description: The names of the clusters that no rule excludes; none if the customer is not known.
allowed := names if {
	customers.customer
	names := object.keys(world.clusters) - object.keys(excluded)
} else := set()

# METADATA
# description: |
#   For each excluded cluster the rule that excludes it, in a sentence. If several do, the last of these counts.
excluded := object.union_n([
	_not_selected,
	_too_small,
	_tainted,
	_cordoned,
	_in_public,
	_uncertified,
	_abroad,
	{name: wrong | some name, _ in problems},
])

# METADATA
# description: The explanation of a cluster whose data are wrong.
wrong := "its data are wrong"

_jurisdictions := {name: jurisdiction |
	some name, cluster in world.clusters
	jurisdiction := cluster.jurisdiction
	is_string(jurisdiction)
	jurisdiction != ""
}

# The names of the clusters in jurisdictions that the customer allows.
_at_home := {name | some name, jurisdiction in _jurisdictions; jurisdiction in customers.customer.jurisdictions}

_abroad := {name: sprintf("its jurisdiction is %s, and customer %q allows %s", [jurisdiction, customers.name, list]) |
	list := values.listed(customers.customer.jurisdictions)
	some name, jurisdiction in _jurisdictions
	not jurisdiction in customers.customer.jurisdictions
}

_uncertified := {name: sprintf("it lacks what customer %q requires: %s", [customers.name, values.listed(lacking)]) |
	some name in _at_home
	certifications := object.get(world.clusters[name], "certifications", [])
	lacking := {required | some required in customers.customer.certifications; not required in certifications}
	count(lacking) > 0
}

_in_public := {name: "it is a public cloud, which is only for workloads of criticality low" |
	not request.is_uncritical
	some name in _at_home
	world.clusters[name].location == "public"
}

_cordoned := {name: "it is cordoned" | some name in _at_home; world.clusters[name].cordoned == true}

_tainted := {name: sprintf("its taint %s is not tolerated", [tolerations.text(untolerated[0])]) |
	some name in _at_home
	untolerated := [taint |
		some taint in world.clusters[name].taints
		taint.effect in {"NoExecute", "NoSchedule"}
		not tolerations.covered(taint, object.get(request.pod_spec, "tolerations", []))
	]
	count(untolerated) > 0
}

_too_small := {name: shortages[0] |
	some name in _at_home
	shortages := _shortages(object.get(world.clusters[name], "capacity", {}))
	count(shortages) > 0
}

_not_selected := {name: sprintf("the workload's cluster-selector excludes it: %s", [values.listed(unmet)]) |
	request.has_selector
	some name in _at_home
	unmet := _unmet(world.clusters[name])
	count(unmet) > 0
}
