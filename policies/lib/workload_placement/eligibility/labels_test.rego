package lib.workload_placement.eligibility_test

import data.lib.workload_placement.scenes_test as scenes

test_a_selector_leaves_the_clusters_that_meet_all_requirements if {
	every case in [
		{"of": [], "left": {"berlin", "munich"}},
		{"of": [{"key": "pci", "operator": "In", "values": ["true", "yes"]}], "left": {"munich"}},
		{"of": [{"key": "pci", "operator": "==", "values": ["true"]}], "left": {"munich"}},
		{"of": [{"key": "pci", "operator": "NotIn", "values": ["true"]}], "left": {"berlin"}},
		{"of": [{"key": "pci", "operator": "exists"}], "left": {"munich"}},
		{"of": [{"key": "pci", "operator": "DoesNotExist", "values": []}], "left": {"berlin"}},
		{"of": [{"key": "tier", "operator": "Gt", "values": ["6"]}], "left": {"munich"}},
		{"of": [{"key": "tier", "operator": "Lt", "values": ["8"]}, {"key": "region", "operator": "In", "values": ["south"]}], "left": {"munich"}},
		{"of": [{"key": "location", "operator": "In", "values": ["on-prem"]}], "left": {"berlin", "munich"}},
		{"of": [{"key": "jurisdiction", "operator": "In", "values": ["de"]}], "left": {"berlin", "munich"}},
	] {
		answer := scenes.selecting(case.of, scenes.labelled)
		answer.errors == {}
		object.keys(answer.weights) == case.left
	}
}

test_a_selector_that_leaves_nothing if {
	answer := scenes.selecting([{"key": "tier", "operator": "Gt", "values": ["7"]}], scenes.labelled)
	answer.weights == {}
	object.keys(answer.errors) == {"no cluster"}
	answer.explanation.munich == `the workload's cluster-selector excludes it: "tier" Gt 7`
}

test_a_cluster_that_is_asked_for_has_to_be_selected if {
	answer := scenes.answer(
		{
			"customer": "plain",
			"replica-set-preferences": `["berlin"]`,
			"federation.alpha.kubernetes.io/cluster-selector": `[{"key": "pci", "operator": "Exists"}]`,
		},
		scenes.labelled,
	)
	answer.weights == {}
	answer.errors == {"invalid cluster(s)": {"berlin"}}
}

test_a_selector_cannot_allow_a_cluster if {
	answer := scenes.selecting([{"key": "jurisdiction", "operator": "In", "values": ["us", "de"]}], scenes.labelled)
	object.keys(answer.weights) == {"berlin", "munich"}
}

test_labels_that_are_none if {
	every labels in [null, [], "x", {"pci": true}, {"pci": null}] {
		world := scenes.with_cluster("munich", {"labels": labels})
		scenes.answer({"customer": "plain"}, world).errors == {}
		answer := scenes.selecting([{"key": "region", "operator": "DoesNotExist"}], world)
		answer.weights == {}
		answer.errors.clusters == {`cluster "munich" has labels that are no object of texts`}
		answer.explanation.munich == "its data are wrong"
	}
}
