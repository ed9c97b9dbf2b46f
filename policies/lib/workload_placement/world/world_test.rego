package lib.workload_placement.world_test

import data.lib.workload_placement.decision as placement
import data.lib.workload_placement.scenes_test as scenes

test_no_data if {
	problem := "OPA has no clusters: bring data.placement.clusters, or the key clusters of ConfigMap fairlead/placement, as JSON"
	every world in [null, [], 1, "x", {}] {
		answer := scenes.answer({"customer": "acme"}, world)
		answer.weights == {}
		answer.explanation == {}
		answer.errors.data == {problem}
	}
	every world in [{"customers": scenes.customers}, {"customers": {}, "clusters.json": scenes.clusters}] {
		answer := scenes.answer({"customer": "acme"}, world)
		answer.errors.data == {sprintf("%s (there is %s)", [problem, concat(", ", sort(object.keys(world)))])}
	}
	every wrong in [[], ["berlin"], "berlin", 1, null, false] {
		answer := scenes.answer({"customer": "acme"}, {"clusters": wrong, "customers": scenes.customers})
		answer.weights == {}
		answer.errors.data == {"placement.clusters is no object of clusters by their names"}
	}
}

test_data_of_a_config_map if {
	answer := placement.weights with input as {"resource": scenes.workload({"customer": "plain"})}
		with data.fairlead.placement as scenes.world
	object.keys(answer) == {"berlin", "munich"}
}

test_data_have_one_source if {
	answer := placement.weights with input as {"resource": scenes.workload({"customer": "plain"})}
		with data.fairlead.placement as scenes.world
		with data.placement as {"clusters": scenes.clusters}
	answer == {}
}

test_prices_of_a_config_map if {
	weights := placement.weights with input as {"resource": scenes.of_replicas(2, {"min-clusters": "2"})}
		with data.fairlead.placement as scenes.with_settings({"maxReplicasPerCluster": "50%"})
	weights == {"cheap": {"weight": 1}, "medium": {"weight": 1}}
}

test_settings_that_are_wrong if {
	every settings, problem in {
		[]: "placement.settings is no object",
		{"minCluster": 2}: "placement.settings has minCluster: it may have maxReplicasPerCluster, minClusters, moveThreshold",
		{"minClusters": "none"}: `placement.settings.minClusters is "none": it is a whole number from 1 to 1000`,
		{"maxReplicasPerCluster": 0}: "placement.settings.maxReplicasPerCluster is 0: it is a whole number from 1, or a percentage such as 50%",
		{"moveThreshold": 1}: "placement.settings.moveThreshold is 1: it is a number from 0 to below 1",
		{"moveThreshold": "NaN"}: `placement.settings.moveThreshold is "NaN": it is a number from 0 to below 1`,
		{"moveThreshold": -0.1}: "placement.settings.moveThreshold is -0.1: it is a number from 0 to below 1",
	} {
		answer := scenes.decided(scenes.of_replicas(2, {}), object.union(scenes.cheap_medium_dear, {"settings": settings}))
		answer.weights == {}
		answer.errors == {"settings": {problem}}
	}
}
