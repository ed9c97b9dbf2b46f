package lib.workload_placement.division_test

import data.lib.workload_placement.scenes_test as scenes

test_least_clusters_and_most_replicas if {
	every says, division in {
		{"min-clusters": "2"}: {"cheap": 4, "medium": 1},
		{"min-clusters": 3}: {"cheap": 3, "medium": 1, "dear": 1},
		{"max-replicas-per-cluster": "3"}: {"cheap": 3, "medium": 2},
		{"max-replicas-per-cluster": "50%", "min-clusters": "3"}: {"cheap": 3, "medium": 1, "dear": 1},
		{"max-replicas-per-cluster": "34%"}: {"cheap": 2, "medium": 2, "dear": 1},
	} {
		scenes.divided(5, says, scenes.cheap_medium_dear) == division
	}
}

test_settings_are_for_workloads_that_say_nothing if {
	settings := {"minClusters": 2, "maxReplicasPerCluster": "60%"}
	scenes.divided(5, {}, scenes.with_settings(settings)) == {"cheap": 3, "medium": 2}
	scenes.divided(1, {}, scenes.with_settings({"minClusters": 2})) == {"cheap": 1}
	scenes.divided(5, {"min-clusters": "1", "max-replicas-per-cluster": "100%"}, scenes.with_settings(settings)) == {"cheap": 5}
	scenes.divided(5, {"replica-set-preferences": ["dear"]}, scenes.with_settings(settings)) == {"dear": 1}
}

test_workloads_scaled_to_zero_get_their_clusters if {
	scenes.divided(0, {}, scenes.cheap_medium_dear) == {"cheap": 1}
	scenes.divided(0, {"min-clusters": "2"}, scenes.cheap_medium_dear) == {"cheap": 1, "medium": 1}
}

test_spreads_that_are_impossible if {
	scenes.spread_errors(2, {"min-clusters": "3"}, scenes.cheap_medium_dear) == "min-clusters is 3, but there are only 2 replicas"
	scenes.spread_errors(9, {"min-clusters": "4"}, scenes.cheap_medium_dear) == "it has to run on at least 4 clusters, and may run only on cheap, dear, medium"
	scenes.spread_errors(9, {}, scenes.with_settings({"minClusters": 4})) == "it has to run on at least 4 clusters, and may run only on cheap, dear, medium"
	scenes.spread_errors(9, {"max-replicas-per-cluster": "2"}, scenes.cheap_medium_dear) == "at most 2 replicas may run in one cluster, so 3 allowed clusters take only 6 of 9"
	asking := {"replica-set-preferences": {"clusters": {"cheap": {"weight": 2}, "dear": {"weight": 1}}}}
	scenes.spread_errors(9, object.union(asking, {"min-clusters": "3"}), scenes.cheap_medium_dear) == "min-clusters is 3, but the workload asks for 2"
	scenes.spread_errors(9, object.union(asking, {"max-replicas-per-cluster": "5"}), scenes.cheap_medium_dear) == `cluster "cheap" would run 6 replicas by its weight, and max-replicas-per-cluster allows 5`
}

test_spreads_that_are_none if {
	every value in ["0", "-1", "1.5", "NaN", "", "x", "1001", 0, 1.5, true, ["1"], "1e3"] {
		scenes.spread_errors(9, {"min-clusters": value}, scenes.cheap_medium_dear) == sprintf("min-clusters is %s: it is a whole number from 1 to 1000", [json.marshal(value)])
	}
	every value in ["0", "-1", "0%", "101%", "NaN%", "", "10000000", false] {
		startswith(scenes.spread_errors(9, {"max-replicas-per-cluster": value}, scenes.cheap_medium_dear), "max-replicas-per-cluster is ")
	}
}
