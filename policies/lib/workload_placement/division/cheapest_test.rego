package lib.workload_placement.division_test

import data.lib.workload_placement.scenes_test as scenes

test_the_cheapest_cluster_runs_all_replicas if {
	answer := scenes.decided(scenes.of_replicas(5, {}), scenes.cheap_medium_dear)
	answer == {
		"weights": {"cheap": {"weight": 5}},
		"errors": {},
		"explanation": {
			"cheap": "allowed",
			"dear": "it costs no less than the clusters that are chosen",
			"medium": "it costs no less than the clusters that are chosen",
		},
	}
}

test_the_search_among_many_clusters_finds_the_cheapest if {
	without_cpu := scenes.priced({"a": {"memory": 3}, "b": {"memory": 1}, "c": {"memory": 2}})
	many := scenes.priced({sprintf("c-%d", [number]): {"cpu": number, "memory": 1} | some number in numbers.range(1, 40)})
	scenes.divided(2, {}, many) == {"c-1": 2}
	scenes.divided(2, {}, without_cpu) == {"b": 2}
}

test_of_equals_the_first_by_name_is_chosen if {
	scenes.divided(2, {}, scenes.priced({"b": {"cpu": 1, "memory": 1}, "a": {"cpu": 1, "memory": 1}})) == {"a": 2}
}

test_dimensions_that_contradict_each_other if {
	world := scenes.priced({name: price |
		some number in numbers.range(1, 60)
		name := sprintf("c-%02d", [number])
		price := {"cpu": number, "memory": abs(40 - number) * 3}
	})
	scenes.divided(1, {}, world) == {"c-40": 1}
	scenes.divided(2, {"max-replicas-per-cluster": "1"}, world) == {"c-40": 1, "c-39": 1}
}

_without_transfers_from(name) := json.remove(scenes.near_and_far, [sprintf("transfer/%s", [name])])

test_transfers_matter_from_clusters_that_can_be_used if {
	little := scenes.sending({"clusters": {"abroad": 0.0001}})
	scenes.divided(2, little, _without_transfers_from("dear")) == {"cheap": 2}
	every entry in [["cheap", {}], ["dear", scenes.running_in({"dear": 1})]] {
		[name, says] := entry
		answer := scenes.decided(scenes.of_replicas(2, object.union(little, says)), _without_transfers_from(name))
		answer.errors == {"traffic": {sprintf("no price from 0 to 1000000000 of transfers from %s to abroad: set placement.transfer", [name])}}
	}
}
