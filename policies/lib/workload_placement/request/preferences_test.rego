package lib.workload_placement.request_test

import data.lib.workload_placement.scenes_test as scenes

test_no_json if {
	every text in ["", "paris", "{", `["paris"`, "NaN", `{"clusters": {"paris": {"weight": NaN}}}`, "['paris']"] {
		endswith(scenes.refused(text), "is no JSON")
	}
}

test_too_long if scenes.refused(sprintf("%262145s", ["[]"])) == "it has 262145 characters: at most 262144"

test_wrong_shapes if {
	every preferences in [
		"null", "1", `"paris"`, "true", {}, {"clusters": "paris"}, {"clusters": null}, {"clusters": ["paris"], "rebalance": true}, {"paris": {"weight": 1}},
		{"clusters": {"paris": {"weight": 1}}, "rebalance": true}, false, 5,
	] {
		endswith(scenes.refused(preferences), `is neither a list of clusters nor {"clusters": {NAME: {"weight": NUMBER}}}`)
	}
}

test_lists if {
	every preferences in [["paris"], `["paris"]`, {"clusters": ["paris"]}, `{"clusters": ["paris"]}`] {
		answer := scenes.asking(preferences)
		answer.errors == {}
		answer.weights == {"paris": {"weight": 1}}
	}
}

test_no_cluster_named if {
	every preferences in [[], {"clusters": {}}, "[]", {"clusters": []}] {
		scenes.refused(preferences) == "it names no cluster: name one, or remove it"
	}
}

test_names_that_are_none if {
	every name in [null, 1, ["paris"], {"paris": 1}] {
		endswith(scenes.refused(["berlin", name]), "is no name of a cluster")
	}
}

test_weights_that_are_none if {
	every weight in [0, -1, 0.0000001, 1000001, "1", "NaN", null, true, [1], {}] {
		problem := scenes.refused({"clusters": {"paris": {"weight": weight}}})
		startswith(problem, `the weight of cluster "paris" is `)
		endswith(problem, ": write a number above 0, from 0.000001 to 1000000")
	}
	endswith(scenes.refused(`{"clusters": {"paris": {"weight": 1e999999999}}}`), "is no JSON")
	every number in ["1e-999999999", "0.50000000000000000000000000000000000000"] {
		startswith(scenes.refused(sprintf(`{"clusters": {"paris": {"weight": %s}}}`, [number])), "the weight of cluster")
	}
	every preference in [null, 1, {}, [], {"weight": 1, "minReplicas": 2}] {
		endswith(scenes.refused({"clusters": {"paris": preference}}), `: write {"weight": NUMBER}`)
	}
}

test_of_another_shape_no_cluster_is_said_to_be_named_twice if {
	every choices in [
		`{"paris": {"minReplicas": 1, "weight": 1}, "berlin": {"minReplicas": 1, "weight": 1}}`,
		`{"paris": {"weight": "1"}, "berlin": {"weight": "1"}}`,
		`[{"name": "paris", "weight": 2}]`,
	] {
		problem := scenes.refused(sprintf(`{"clusters": %s}`, [choices]))
		not contains(problem, "twice")
	}
}

test_clusters_named_twice if {
	every preferences in [["paris", "berlin", "paris"], `{"clusters": ["paris", "paris"]}`] {
		scenes.refused(preferences) == `it names a cluster twice: "paris"`
	}
	scenes.refused(`{"clusters": ["berlin"], "clusters": ["paris"]}`) == `it names a cluster twice: "clusters"`
	scenes.refused(`{"clusters": {"paris": {"weight": 1}, "p\u0061ris": {"weight": 9}}}`) == `it names a cluster twice: "paris"`
	scenes.refused(`{"clusters": {"paris": {"weight": 1, "weight": 2}}}`) == `it names a cluster twice: "weight"`
	scenes.refused(`{"clusters": {"ohio": {"weight": 1}}, "clusters": {"paris": {"weight": 1}}}`) == `it names a cluster twice: "clusters"`
}
