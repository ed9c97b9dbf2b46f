package lib.workload_placement.division_test

import data.lib.workload_placement.scenes_test as scenes

test_replicas_stay_if_a_move_saves_little if {
	answer := scenes.decided(scenes.of_replicas(4, scenes.running_in({"medium": 4})), scenes.cheap_medium_dear)
	answer.weights == {"medium": {"weight": 4}}
	answer.explanation.cheap == "to move there would save less than moveThreshold of the settings wants"
	answer.explanation.dear == "it costs no less than the clusters that are chosen"
	scenes.divided(4, scenes.running_in({"medium": 4}), scenes.with_settings({"moveThreshold": 0})) == {"cheap": 4}
	scenes.divided(4, scenes.running_in({"medium": 4}), scenes.with_settings({"moveThreshold": 0.04})) == {"cheap": 4}
	scenes.divided(4, scenes.running_in({"dear": 4}), scenes.cheap_medium_dear) == {"cheap": 4}
	scenes.divided(4, scenes.running_in({"dear": 1, "medium": 1}), scenes.cheap_medium_dear) == {"cheap": 2, "medium": 2}
}

test_among_equals_replicas_stay if {
	world := object.union(scenes.priced({name: {"cpu": 1, "memory": 1} | some name in ["a", "b", "c"]}), {"settings": {"moveThreshold": 0}})
	scenes.divided(3, scenes.running_in({"b": 2, "c": 1}), world) == {"b": 2, "c": 1}
	scenes.divided(3, scenes.running_in({"c": 3}), object.union(world, {"settings": {"minClusters": 2}})) == {"c": 2, "a": 1}
}

test_data_say_where_a_workload_runs if {
	every running in [["medium"], {"medium": {"weight": 2}}] {
		world := object.union(scenes.cheap_medium_dear, {"applications": {"shop/web": {"clusters": running}}})
		scenes.divided(4, {}, world) == {"medium": 4}
		scenes.divided(4, scenes.running_in({"dear": 1}), world) == {"cheap": 4}
	}
}

test_a_last_decision_that_cannot_be_read_does_not_count if {
	every value in ["", "{", "1", "null", [], {"clusters": 1}, {"clusters": {"dear": {"weight": -1}}}, {"clusters": {"dear": 1}}] {
		scenes.divided(4, {"federation.kubernetes.io/replica-set-preferences": value}, scenes.cheap_medium_dear) == {"cheap": 4}
	}
}
