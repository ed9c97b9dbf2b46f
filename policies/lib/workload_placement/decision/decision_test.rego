package lib.workload_placement.decision_test

import data.lib.workload_placement.scenes_test as scenes

test_every_rule_explains_itself if {
	scenes.answer({"customer": "acme"}, scenes.world) == {
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

test_the_first_rule_explains if {
	world := scenes.with_cluster("ohio", {"location": "public", "cordoned": true, "certifications": []})
	startswith(scenes.answer({"customer": "acme"}, world).explanation.ohio, "its jurisdiction")
	startswith(scenes.answer({"customer": "acme"}, scenes.with_cluster("munich", {"cordoned": true})).explanation.munich, "it lacks")
	startswith(scenes.answer({"customer": "acme"}, scenes.with_cluster("public-de", {"cordoned": true})).explanation["public-de"], "it is a public cloud")
}

test_nothing_left if {
	answer := scenes.answer({"customer": "nowhere"}, scenes.world)
	answer.weights == {}
	answer.errors == {"no cluster": {
		`1 of 5: its jurisdiction is fr, and customer "nowhere" allows none`,
		`1 of 5: its jurisdiction is us, and customer "nowhere" allows none`,
		`3 of 5: its jurisdiction is de, and customer "nowhere" allows none`,
	}}
}

test_no_clusters if {
	scenes.answer({"customer": "acme"}, {"clusters": {}, "customers": scenes.customers}) == {
		"weights": {},
		"errors": {"no cluster": {"there are no clusters"}},
		"explanation": {},
	}
}

test_lists_of_clusters if {
	every preferences in [["paris"], `["paris"]`, ` [ "paris" ] `] {
		answer := scenes.asking(preferences)
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
		answer := scenes.asking(preferences)
		answer.weights == {"berlin": {"weight": 2}, "paris": {"weight": 0.5}}
		answer.errors == {}
	}
}

test_no_preferences if scenes.asking(null).weights == {"berlin": {"weight": 1}, "paris": {"weight": 1}}

test_labels_ask_as_well if {
	resource := {"metadata": {"labels": {"customer": "acme", "replica-set-preferences": "paris"}}}
	object.keys(scenes.decided(resource, scenes.world).errors) == {"replica-set-preferences"}
}

test_clusters_that_are_not_allowed if {
	answer := scenes.asking(["paris", "ohio", "atlantis"])
	answer.weights == {}
	answer.errors == {"invalid cluster(s)": {"atlantis", "ohio"}}
	answer.explanation.paris == "allowed"
	startswith(answer.explanation.ohio, "its jurisdiction")
	not answer.explanation.atlantis
}

test_many_clusters_are_refused_by_their_number if {
	names := [sprintf("c-%d", [number]) | some number in numbers.range(1, 1001)]
	scenes.refused(names) == "it names 1001 clusters: at most 1000"
	scenes.asking(array.slice(names, 0, 1000)).errors["invalid cluster(s)"] == {name | some name in array.slice(names, 0, 1000)}
}

test_a_cluster_with_room_may_lack_a_certification if {
	spec := {"template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}}}
	answer := scenes.decided(object.union(scenes.workload({"customer": "acme", "criticality": "low"}), {"spec": spec}), scenes.world)
	answer.errors == {}
	answer.weights == {"berlin": {"weight": 1}}
	answer.explanation == {
		"berlin": "allowed",
		"munich": `it lacks what customer "acme" requires: pci`,
		"paris": "it costs no less than the clusters that are chosen",
		"public-de": "it costs no less than the clusters that are chosen",
		"ohio": `its jurisdiction is us, and customer "acme" allows de, fr`,
	}
}
