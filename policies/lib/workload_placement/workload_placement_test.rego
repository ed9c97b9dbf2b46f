package lib.workload_placement_test

import data.lib.workload_placement as placement

_cluster(jurisdiction, changes) := object.union(
	{
		"jurisdiction": jurisdiction,
		"location": "on-prem",
		"certifications": ["iso27001", "pci"],
		"cordoned": false,
		"price": {"cpu": 0.03, "memory": 0},
		"capacity": {"cpu": "8", "memory": "32Gi"},
	},
	changes,
)

_clusters := {
	"berlin": _cluster("de", {}),
	"munich": _cluster("de", {"certifications": ["iso27001"]}),
	"paris": _cluster("fr", {}),
	"public-de": _cluster("de", {"location": "public"}),
	"ohio": _cluster("us", {}),
}

_customers := {
	"acme": {"jurisdictions": ["de", "fr"], "certifications": ["pci"]},
	"plain": {"jurisdictions": ["de"]},
	"nowhere": {"jurisdictions": [], "certifications": ["none"]},
}

_world := {"clusters": _clusters, "customers": _customers}

_workload(says) := {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": says}}

# The answer about a workload with these annotations.
_answer(says, world) := _decided(_workload(says), world)

_decided(resource, world) := answer if {
	answer := {
		"weights": placement.weights,
		"errors": placement.errors,
		"explanation": placement.explanation,
	} with input as {"resource": resource}
		with data.placement as world
}

# The same with other data of one cluster.
_with_cluster(name, cluster) := object.union(_world, {"clusters": {name: cluster}})

test_every_rule_explains_itself if {
	_answer({"customer": "acme"}, _world) == {
		"weights": {"berlin": {"weight": 1}, "paris": {"weight": 1}},
		"errors": {},
		"explanation": {
			"berlin": "allowed",
			"munich": `it lacks what customer "acme" requires: pci`,
			"paris": "allowed",
			"public-de": "it is a public cloud, which is only for workloads of criticality low",
			"ohio": `its jurisdiction is us, and customer "acme" allows de, fr`,
		},
	}
}

test_low_criticality_allows_public_clouds if {
	_answer({"customer": "acme", "criticality": "low"}, _world).explanation["public-de"] == "allowed"
	every criticality in ["high", "Low", "", null, true, ["low"]] {
		startswith(_answer({"customer": "acme", "criticality": criticality}, _world).explanation["public-de"], "it is a public cloud")
	}
}

test_customers_without_certifications_require_none if {
	object.keys(_answer({"customer": "plain"}, _world).weights) == {"berlin", "munich"}
}

test_cordoned_clusters if {
	answer := _answer({"customer": "plain"}, _with_cluster("berlin", {"cordoned": true}))
	object.keys(answer.weights) == {"munich"}
	answer.explanation.berlin == "it is cordoned"
}

test_clusters_without_optional_data if {
	answer := _answer({"customer": "plain"}, _with_cluster("bonn", {"jurisdiction": "de", "location": "on-prem"}))
	object.keys(answer.weights) == {"berlin", "bonn", "munich"}
	answer.errors == {}
}

test_the_first_rule_explains if {
	world := _with_cluster("ohio", {"location": "public", "cordoned": true, "certifications": []})
	startswith(_answer({"customer": "acme"}, world).explanation.ohio, "its jurisdiction")
	startswith(_answer({"customer": "acme"}, _with_cluster("munich", {"cordoned": true})).explanation.munich, "it lacks")
	startswith(_answer({"customer": "acme"}, _with_cluster("public-de", {"cordoned": true})).explanation["public-de"], "it is a public cloud")
}

test_cordoned_clusters_with_wrong_data if {
	every wrong in [{"taints": false}, {"taints": null}, {"certifications": "pci"}, {"capacity": []}, {"cordoned": null}, {"cordoned": "true"}] {
		answer := _answer({"customer": "plain"}, _with_cluster("berlin", object.union({"cordoned": true}, wrong)))
		answer.explanation.berlin == "its data are wrong"
		object.keys(answer.errors) == {"clusters"}
	}
}

test_tainted_clusters_are_excluded_by_the_first_rule if {
	taint := {"key": "dedicated", "effect": "NoSchedule"}
	every sentence, changes in {
		"it lacks what customer \"acme\" requires: pci": {"certifications": [], "location": "public", "cordoned": true},
		"it is a public cloud, which is only for workloads of criticality low": {"location": "public", "cordoned": true},
		"it is cordoned": {"cordoned": true, "capacity": {"cpu": "0"}},
		"its taint dedicated:NoSchedule is not tolerated": {"capacity": {"cpu": "0"}},
	} {
		world := _with_cluster("berlin", object.union(changes, {"taints": [taint]}))
		_answer({"customer": "acme"}, world).explanation.berlin == sentence
	}
}

test_taints_that_are_false_are_wrong if {
	answer := _answer({"customer": "plain"}, _with_cluster("berlin", {"taints": false}))
	answer.errors.clusters == {`cluster "berlin" has taints that are none: write a list of key, value and effect`}
}

test_taints_need_tolerations if {
	world := _with_cluster("berlin", {"taints": [
		{"key": "soft", "effect": "PreferNoSchedule"},
		{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
	]})
	_answer({"customer": "plain"}, world).explanation.berlin == "its taint dedicated=gpu:NoSchedule is not tolerated"
	every toleration in [
		{"operator": "Exists"},
		{"key": "dedicated", "operator": "Exists"},
		{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
	] {
		_tolerating([toleration], world).explanation.berlin == "allowed"
	}
	every toleration in [
		{"key": "dedicated", "value": "fpga"},
		{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
		"dedicated",
		null,
	] {
		_tolerating([toleration], world).explanation.berlin != "allowed"
	}
}

_tolerating(tolerations, world) := _decided(
	object.union(_workload({"customer": "plain"}), {"spec": {"template": {"spec": {"tolerations": tolerations}}}}),
	world,
)

test_nothing_left if {
	answer := _answer({"customer": "nowhere"}, _world)
	answer.weights == {}
	answer.errors == {"no cluster": {
		`1 of 5: its jurisdiction is fr, and customer "nowhere" allows none`,
		`1 of 5: its jurisdiction is us, and customer "nowhere" allows none`,
		`3 of 5: its jurisdiction is de, and customer "nowhere" allows none`,
	}}
}

test_no_clusters if {
	_answer({"customer": "acme"}, {"clusters": {}, "customers": _customers}) == {
		"weights": {},
		"errors": {"no cluster": {"there are no clusters"}},
		"explanation": {},
	}
}

test_no_data if {
	every world in [null, [], 1, "x", {}, {"customers": _customers}] {
		answer := _answer({"customer": "acme"}, world)
		answer.weights == {}
		answer.explanation == {}
		answer.errors.data == {"OPA has no clusters: bring data.placement.clusters"}
	}
	every wrong in [[], ["berlin"], "berlin", 1, null, false] {
		answer := _answer({"customer": "acme"}, {"clusters": wrong, "customers": _customers})
		answer.weights == {}
		answer.errors.data == {"placement.clusters is no object of clusters by their names"}
	}
}

test_data_of_a_config_map if {
	answer := placement.weights with input as {"resource": _workload({"customer": "plain"})}
		with data.fairlead.placement as _world
	object.keys(answer) == {"berlin", "munich"}
}

test_data_have_one_source if {
	answer := placement.weights with input as {"resource": _workload({"customer": "plain"})}
		with data.fairlead.placement as _world
		with data.placement as {"clusters": _clusters}
	answer == {}
}
