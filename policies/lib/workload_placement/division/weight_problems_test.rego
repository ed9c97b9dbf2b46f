package lib.workload_placement.division_test

import data.lib.workload_placement.scenes_test as scenes

test_weights_that_leave_clusters_without_a_replica if {
	problem := "min-clusters is %d, but the weights give only %d of %d clusters a share of a whole replica: make them more equal"
	every entry in [
		[2, 2, {"cheap": 100, "dear": 1}, 1],
		[2, 2, {"cheap": 3, "dear": 2}, 1], # who gives the rest to the largest gives it all
		[100, 2, {"cheap": 100, "dear": 1}, 1],
		[3, 3, {"cheap": 3, "dear": 2, "medium": 2}, 1],
		[2, 2, {"cheap": 4, "dear": 1.1, "medium": 1.1}, 1],
	] {
		[number, least, weights, whole] := entry
		says := object.union(scenes.weighing(weights), {"min-clusters": least})
		scenes.spread_errors(number, says, scenes.cheap_medium_dear) == sprintf(problem, [least, whole, count(weights)])
	}
}

test_webster_gives_a_second_replica_before_a_first if {
	# 0.95 / 3 is more than 0.29.
	names := {"a", "b", "c", "d", "e"}
	world := scenes.priced({name: {"cpu": 1, "memory": 1} | some name in names})
	says := object.union(scenes.weighing({"a": 95, "b": 29, "c": 29, "d": 29, "e": 18}), {"min-clusters": 2})
	problem := "min-clusters is 2, but the weights give only 0 of 5 clusters a share of a whole replica: make them more equal"
	scenes.spread_errors(2, says, world) == problem
}

test_weights_that_give_enough_clusters_a_replica if {
	every entry in [
		[2, 2, {"cheap": 1, "dear": 1}],
		[3, 2, {"cheap": 1, "dear": 1}],
		[101, 2, {"cheap": 100, "dear": 1}],
		[2, 1, {"cheap": 100, "dear": 1}],
		[2, 2, {"cheap": 1, "dear": 1, "medium": 1}],
		[2, 2, {"cheap": 3, "dear": 2, "medium": 2}],
		[10, 3, {"cheap": 0.1, "dear": 0.2, "medium": 0.7}],
		[4, 2, {"cheap": 3, "dear": 1, "medium": 1}],
		[0, 2, {"cheap": 100, "dear": 1}],
	] {
		[number, least, weights] := entry
		scenes.divided(number, object.union(scenes.weighing(weights), {"min-clusters": least}), scenes.cheap_medium_dear) == weights
	}
}

test_webster_can_give_more_than_a_share_rounded_up if {
	# The share is 6.96 of 8 replicas, and Webster's method gives all of them.
	world := scenes.priced({name: {"cpu": 1, "memory": 1} | some name in ["a", "b", "c", "large"]})
	says := object.union(scenes.weighing({"a": 1, "b": 1, "c": 1, "large": 20}), {"max-replicas-per-cluster": 7})
	scenes.spread_errors(8, says, world) == `cluster "large" would run 8 replicas by its weight, and max-replicas-per-cluster allows 7`
}
