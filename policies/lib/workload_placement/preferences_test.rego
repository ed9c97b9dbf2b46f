package lib.workload_placement_test

_asking(preferences) := _answer({"customer": "acme", "replica-set-preferences": preferences}, _world)

test_lists_of_clusters if {
	every preferences in [["paris"], `["paris"]`, ` [ "paris" ] `] {
		answer := _asking(preferences)
		answer.weights == {"paris": {"weight": 1}}
		answer.errors == {}
		answer.explanation.berlin == "the workload asks for other clusters"
		answer.explanation.paris == "allowed"
		startswith(answer.explanation.ohio, "its jurisdiction")
	}
}

test_weights_are_kept if {
	weighted := {"clusters": {"berlin": {"weight": 2}, "paris": {"weight": 0.5}}}
	every preferences in [weighted, json.marshal(weighted)] {
		answer := _asking(preferences)
		answer.weights == {"berlin": {"weight": 2}, "paris": {"weight": 0.5}}
		answer.errors == {}
	}
}

test_no_preferences if _asking(null).weights == {"berlin": {"weight": 1}, "paris": {"weight": 1}}

test_labels_ask_as_well if {
	resource := {"metadata": {"labels": {"customer": "acme", "replica-set-preferences": "paris"}}}
	object.keys(_decided(resource, _world).errors) == {"replica-set-preferences"}
}

test_clusters_that_are_not_allowed if {
	answer := _asking(["paris", "ohio", "atlantis"])
	answer.weights == {}
	answer.errors == {"invalid cluster(s)": {"atlantis", "ohio"}}
	answer.explanation.paris == "allowed"
	startswith(answer.explanation.ohio, "its jurisdiction")
	not answer.explanation.atlantis
}

_refused(preferences) := problems if {
	answer := _asking(preferences)
	answer.weights == {}
	object.keys(answer.errors) == {"replica-set-preferences"}
	problems := concat("; ", answer.errors["replica-set-preferences"])
}

test_no_json if {
	every text in ["", "paris", "{", `["paris"`, "NaN", `{"clusters": {"paris": {"weight": NaN}}}`, "['paris']"] {
		endswith(_refused(text), "is no JSON")
	}
}

test_too_long if _refused(sprintf("%262145s", ["[]"])) == "it has 262145 characters: at most 262144"

test_wrong_shapes if {
	every preferences in [
		"null", "1", `"paris"`, "true", {}, {"clusters": ["paris"]}, {"clusters": null}, {"paris": {"weight": 1}},
		{"clusters": {"paris": {"weight": 1}}, "rebalance": true}, false, 5,
	] {
		endswith(_refused(preferences), `is neither a list of clusters nor {"clusters": {NAME: {"weight": NUMBER}}}`)
	}
}

test_no_cluster_named if {
	every preferences in [[], {"clusters": {}}, "[]"] {
		_refused(preferences) == "it names no cluster: name one, or remove it"
	}
}

test_names_that_are_none if {
	every name in [null, 1, ["paris"], {"paris": 1}] {
		endswith(_refused(["berlin", name]), "is no name of a cluster")
	}
}

test_weights_that_are_none if {
	every weight in [0, -1, 0.0000001, 1000001, "1", "NaN", null, true, [1], {}] {
		problem := _refused({"clusters": {"paris": {"weight": weight}}})
		startswith(problem, `the weight of cluster "paris" is `)
		endswith(problem, ": write a number above 0, from 0.000001 to 1000000")
	}
	endswith(_refused(`{"clusters": {"paris": {"weight": 1e999999999}}}`), "is no JSON")
	every number in ["1e-999999999", "0.50000000000000000000000000000000000000"] {
		startswith(_refused(sprintf(`{"clusters": {"paris": {"weight": %s}}}`, [number])), "the weight of cluster")
	}
	every preference in [null, 1, {}, [], {"weight": 1, "minReplicas": 2}] {
		endswith(_refused({"clusters": {"paris": preference}}), `: write {"weight": NUMBER}`)
	}
}

test_clusters_named_twice if {
	_refused(["paris", "berlin", "paris"]) == `it names a cluster twice: "paris"`
	_refused(`{"clusters": {"paris": {"weight": 1}, "p\u0061ris": {"weight": 9}}}`) == `it names a cluster twice: "paris"`
	_refused(`{"clusters": {"paris": {"weight": 1, "weight": 2}}}`) == `it names a cluster twice: "weight"`
	_refused(`{"clusters": {"ohio": {"weight": 1}}, "clusters": {"paris": {"weight": 1}}}`) == `it names a cluster twice: "clusters"`
}

test_many_clusters_are_refused_by_their_number if {
	names := [sprintf("c-%d", [number]) | some number in numbers.range(1, 1001)]
	_refused(names) == "it names 1001 clusters: at most 1000"
	_asking(array.slice(names, 0, 1000)).errors["invalid cluster(s)"] == {name | some name in array.slice(names, 0, 1000)}
}
