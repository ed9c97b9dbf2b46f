package lib.workload_placement_test

_selecting(requirements, world) := _selecting_by(json.marshal(requirements), world)

_selecting_by(text, world) := _answer(
	{"customer": "plain", "federation.alpha.kubernetes.io/cluster-selector": text},
	world,
)

_labelled := _with_cluster("munich", {"region": "south", "labels": {"tier": "7", "location": "public", "pci": "true"}})

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
		answer := _selecting(case.of, _labelled)
		answer.errors == {}
		object.keys(answer.weights) == case.left
	}
}

test_a_selector_that_leaves_nothing if {
	answer := _selecting([{"key": "tier", "operator": "Gt", "values": ["7"]}], _labelled)
	answer.weights == {}
	object.keys(answer.errors) == {"no cluster"}
	answer.explanation.munich == `the workload's cluster-selector excludes it: "tier" Gt 7`
}

test_a_cluster_that_is_asked_for_has_to_be_selected if {
	answer := _answer(
		{
			"customer": "plain",
			"replica-set-preferences": `["berlin"]`,
			"federation.alpha.kubernetes.io/cluster-selector": `[{"key": "pci", "operator": "Exists"}]`,
		},
		_labelled,
	)
	answer.weights == {}
	answer.errors == {"invalid cluster(s)": {"berlin"}}
}

test_a_selector_cannot_allow_a_cluster if {
	answer := _selecting([{"key": "jurisdiction", "operator": "In", "values": ["us", "de"]}], _labelled)
	object.keys(answer.weights) == {"berlin", "munich"}
}

test_selectors_that_cannot_be_read if {
	every text in [
		"", "region=eu", "{", "null", "{}", `"x"`, "1", `["region"]`, "[null]", "[{}]",
		`[{"key": "region"}]`,
		`[{"key": "region", "operator": "In"}]`,
		`[{"key": "region", "operator": "In", "values": []}]`,
		`[{"key": "region", "operator": "In", "values": "eu"}]`,
		`[{"key": "region", "operator": "In", "values": [1]}]`,
		`[{"key": 1, "operator": "Exists"}]`,
		`[{"key": "region", "operator": "Like", "values": ["eu"]}]`,
		`[{"key": "region", "operator": 1, "values": ["eu"]}]`,
		`[{"key": "region", "operator": "Exists", "values": ["eu"]}]`,
		`[{"key": "tier", "operator": "Gt", "values": ["many"]}]`,
		`[{"key": "tier", "operator": "Gt", "values": ["1", "2"]}]`,
		`[{"key": "region", "operator": "Exists"}, {"key": "region", "operator": "Like"}]`,
	] {
		answer := _selecting_by(text, _labelled)
		answer.weights == {}
		count(answer.errors["cluster-selector"]) == 1
	}
}

test_selectors_that_are_too_long if {
	answer := _selecting([{"key": "region", "operator": "DoesNotExist"} | some _ in numbers.range(1, 101)], _labelled)
	answer.errors == {"cluster-selector": {"it has 101 requirements: at most 100"}} # and none of them is looked at
	count(_selecting_by(sprintf("%262145s", ["[]"]), _labelled).errors["cluster-selector"]) == 1
}

test_labels_that_are_none if {
	every labels in [null, [], "x", {"pci": true}, {"pci": null}] {
		world := _with_cluster("munich", {"labels": labels})
		_answer({"customer": "plain"}, world).errors == {}
		answer := _selecting([{"key": "region", "operator": "DoesNotExist"}], world)
		answer.weights == {}
		answer.errors.clusters == {`cluster "munich" has labels that are no object of texts`}
		answer.explanation.munich == "its data are wrong"
	}
}
