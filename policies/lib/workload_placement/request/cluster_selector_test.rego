package lib.workload_placement.request_test

import data.lib.workload_placement.scenes_test as scenes

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
		answer := scenes.selecting_by(text, scenes.labelled)
		answer.weights == {}
		count(answer.errors["cluster-selector"]) == 1
	}
}

test_selectors_that_are_too_long if {
	answer := scenes.selecting([{"key": "region", "operator": "DoesNotExist"} | some _ in numbers.range(1, 101)], scenes.labelled)
	answer.errors == {"cluster-selector": {"it has 101 requirements: at most 100"}} # and none of them is looked at
	count(scenes.selecting_by(sprintf("%262145s", ["[]"]), scenes.labelled).errors["cluster-selector"]) == 1
}
