package lib.workload_placement.costs_test

import data.lib.workload_placement.scenes_test as scenes

test_prices_that_are_missing if {
	world := scenes.priced({"a": {"cpu": 0.01, "memory": 0.001}, "b": {"cpu": 0.02}})
	answer := scenes.decided(scenes.of_replicas(2, {}), world)
	answer.weights == {}
	answer.errors == {"clusters": {`cluster "b" has no price of memory, as others have: set one, 0 if it is free`}}
	answer.explanation.b == "its data are wrong"
}

test_prices_that_only_excluded_clusters_have if {
	problem := "cluster %q has no price of %s, as others have: set one, 0 if it is free"
	bare := scenes.decided(scenes.of_replicas(2, {}), scenes.priced_abroad({"a": {}}, {"cpu": 0.01, "memory": 0.001}))
	bare.weights == {}
	bare.errors == {"clusters": {sprintf(problem, ["a", "cpu"]), sprintf(problem, ["a", "memory"])}}
	bare.explanation.a == "its data are wrong"
	without := json.remove(scenes.priced_abroad({"a": {}}, {"cpu": 0.01, "memory": 0.001}), ["clusters/a/price"])
	scenes.decided(scenes.of_replicas(2, {}), without) == bare
	partly := scenes.decided(scenes.of_replicas(2, {}), scenes.priced_abroad({"a": {"cpu": 1}, "b": {"cpu": 1}}, {"cpu": 0.01, "memory": 0}))
	partly.errors == {"clusters": {sprintf(problem, ["a", "memory"]), sprintf(problem, ["b", "memory"])}}
}
