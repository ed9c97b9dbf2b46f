package lib.workload_placement.eligibility_test

import data.lib.workload_placement.scenes_test as scenes

test_low_criticality_allows_public_clouds if {
	scenes.answer({"customer": "acme", "criticality": "low"}, scenes.world).explanation["public-de"] == "allowed"
	every criticality in ["high", "Low", "", null, true, ["low"]] {
		startswith(scenes.answer({"customer": "acme", "criticality": criticality}, scenes.world).explanation["public-de"], "it is a public cloud")
	}
}

test_customers_without_certifications_require_none if {
	object.keys(scenes.answer({"customer": "plain"}, scenes.world).weights) == {"berlin", "munich"}
}

test_cordoned_clusters if {
	answer := scenes.answer({"customer": "plain"}, scenes.with_cluster("berlin", {"cordoned": true}))
	object.keys(answer.weights) == {"munich"}
	answer.explanation.berlin == "it is cordoned"
}

test_clusters_without_optional_data if {
	answer := scenes.answer({"customer": "plain"}, scenes.with_cluster("bonn", {"jurisdiction": "de", "location": "on-prem"}))
	object.keys(answer.weights) == {"berlin", "bonn", "munich"}
	answer.errors == {}
}

test_tainted_clusters_are_excluded_by_the_first_rule if {
	taint := {"key": "dedicated", "effect": "NoSchedule"}
	every sentence, changes in {
		"it lacks what customer \"acme\" requires: pci": {"certifications": [], "location": "public", "cordoned": true},
		"it is a public cloud, which is only for workloads of criticality low": {"location": "public", "cordoned": true},
		"it is cordoned": {"cordoned": true, "capacity": {"cpu": "0"}},
		"its taint dedicated:NoSchedule is not tolerated": {"capacity": {"cpu": "0"}},
	} {
		world := scenes.with_cluster("berlin", object.union(changes, {"taints": [taint]}))
		scenes.answer({"customer": "acme"}, world).explanation.berlin == sentence
	}
}

test_taints_need_tolerations if {
	world := scenes.with_cluster("berlin", {"taints": [
		{"key": "soft", "effect": "PreferNoSchedule"},
		{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
	]})
	scenes.answer({"customer": "plain"}, world).explanation.berlin == "its taint dedicated=gpu:NoSchedule is not tolerated"
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

_tolerating(tolerations, world) := scenes.decided(
	object.union(scenes.workload({"customer": "plain"}), {"spec": {"template": {"spec": {"tolerations": tolerations}}}}),
	world,
)
