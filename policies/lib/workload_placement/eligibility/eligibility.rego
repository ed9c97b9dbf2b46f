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
# description: The clusters that no rule excludes, by name; none if the customer is not known.
clusters := object.remove(_at_home, object.keys(excluded))

# METADATA
# description: The names of these clusters.
allowed := object.keys(clusters)

# METADATA
# description: |
#   The names of the clusters where the law and the contract of the customer let its data be, whatever else the workload
#   needs or says.
lawful := (object.keys(_at_home) - object.keys(_uncertified)) - object.keys(problems)

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

# The clusters in jurisdictions that the customer allows. An empty text is not a jurisdiction.
_at_home := {name: cluster |
	jurisdictions := customers.customer.jurisdictions - {""}
	some name, cluster in world.clusters
	cluster.jurisdiction in jurisdictions
}

_elsewhere := object.keys(world.clusters) - object.keys(_at_home)

# The jurisdictions of all other clusters.
_other_jurisdictions := {name: jurisdiction |
	some name in _elsewhere
	jurisdiction := world.clusters[name].jurisdiction
	is_string(jurisdiction)
	jurisdiction != ""
}

_abroad := {name: sprintf("its jurisdiction is %s, and customer %q allows %s", [jurisdiction, customers.name, list]) |
	list := values.listed(customers.customer.jurisdictions)
	some name, jurisdiction in _other_jurisdictions
}

_uncertified := {name: sprintf("it lacks what customer %q requires: %s", [customers.name, values.listed(lacking)]) |
	some name, lacking in _lacking
}

_lacking[name] contains required if {
	some required in customers.customer.certifications
	certified := {name | some name, cluster in _at_home; required in cluster.certifications}
	some name in (object.keys(_at_home) - certified)
}

_in_public := {name: "it is a public cloud, which is only for workloads of criticality low" |
	not request.is_uncritical
	some name, cluster in _at_home
	cluster.location == "public"
}

_cordoned := {name: "it is cordoned" | some name, cluster in _at_home; cluster.cordoned == true}

_tainted := {name: sprintf("its taint %s is not tolerated", [tolerations.text(untolerated[0])]) |
	some name, cluster in _at_home
	untolerated := [taint |
		some taint in cluster.taints
		taint.effect in {"NoExecute", "NoSchedule"}
		not tolerations.covered(taint, object.get(request.pod_spec, "tolerations", []))
	]
}

_too_small := {name: _shortages(object.get(cluster, "capacity", {}))[0] | some name, cluster in _at_home}

_not_selected := {name: sprintf("the workload's cluster-selector excludes it: %s", [values.listed(unmet)]) |
	request.has_selector
	some name, cluster in _at_home
	unmet := _unmet(cluster)
	count(unmet) > 0
}
