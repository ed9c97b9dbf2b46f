package lib.workload_placement_test

import data.lib.workload_placement as placement

# Clusters by what a core hour and a GiB hour cost there.
_priced(prices) := {
	"clusters": {name: {"jurisdiction": "de", "location": "on-prem", "price": price} | some name, price in prices},
	"customers": _customers,
}

_cheap_medium_dear := _priced({
	"cheap": {"cpu": 0.01, "memory": 0.001},
	"dear": {"cpu": 0.03, "memory": 0.003},
	"medium": {"cpu": 0.0105, "memory": 0.00105},
})

# A workload of pods with one core and a GiB each.
_of_replicas(number, says) := {
	"kind": "Deployment",
	"metadata": {"namespace": "shop", "name": "web", "annotations": object.union({"customer": "plain"}, says)},
	"spec": {"replicas": number, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}},
}

# The replicas of each cluster.
_divided(number, says, world) := {name: preference.weight | some name, preference in answer.weights} if {
	answer := _decided(_of_replicas(number, says), world)
	answer.errors == {}
}

_with_settings(settings) := object.union(_cheap_medium_dear, {"settings": settings})

_running_in(weights) := {"federation.kubernetes.io/replica-set-preferences": json.marshal({"clusters": {name: {"weight": weight} |
	some name, weight in weights
}})}

test_the_cheapest_cluster_runs_all_replicas if {
	answer := _decided(_of_replicas(5, {}), _cheap_medium_dear)
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
	without_cpu := _priced({"a": {"memory": 3}, "b": {"memory": 1}, "c": {"memory": 2}})
	many := _priced({sprintf("c-%d", [number]): {"cpu": number, "memory": 1} | some number in numbers.range(1, 40)})
	_divided(2, {}, many) == {"c-1": 2}
	_divided(2, {}, without_cpu) == {"b": 2} with placement._few as 0
}

test_of_equals_the_first_by_name_is_chosen if {
	_divided(2, {}, _priced({"b": {"cpu": 1, "memory": 1}, "a": {"cpu": 1, "memory": 1}})) == {"a": 2}
}

test_costs_of_all_replicas if {
	costs := placement.costs with input as {"resource": _of_replicas(10, {})}
		with data.placement as _cheap_medium_dear
	expected := {"cheap": 0.11, "dear": 0.33, "medium": 0.1155}
	object.keys(costs) == object.keys(expected)
	every name, cost in expected { abs(cost - costs[name]) < 0.000000000001 }
	none := placement.costs with input as {"resource": _of_replicas(10, {})}
		with data.placement as _priced({"a": {}, "b": {}})
	none == {}
}

test_least_clusters_and_most_replicas if {
	every says, division in {
		{"min-clusters": "2"}: {"cheap": 4, "medium": 1},
		{"min-clusters": 3}: {"cheap": 3, "medium": 1, "dear": 1},
		{"max-replicas-per-cluster": "3"}: {"cheap": 3, "medium": 2},
		{"max-replicas-per-cluster": "50%", "min-clusters": "3"}: {"cheap": 3, "medium": 1, "dear": 1},
		{"max-replicas-per-cluster": "34%"}: {"cheap": 2, "medium": 2, "dear": 1},
	} {
		_divided(5, says, _cheap_medium_dear) == division
	}
}

test_settings_are_for_workloads_that_say_nothing if {
	settings := {"minClusters": 2, "maxReplicasPerCluster": "60%"}
	_divided(5, {}, _with_settings(settings)) == {"cheap": 3, "medium": 2}
	_divided(1, {}, _with_settings({"minClusters": 2})) == {"cheap": 1}
	_divided(5, {"min-clusters": "1", "max-replicas-per-cluster": "100%"}, _with_settings(settings)) == {"cheap": 5}
	_divided(5, {"replica-set-preferences": ["dear"]}, _with_settings(settings)) == {"dear": 1}
}

test_workloads_scaled_to_zero_get_their_clusters if {
	_divided(0, {}, _cheap_medium_dear) == {"cheap": 1}
	_divided(0, {"min-clusters": "2"}, _cheap_medium_dear) == {"cheap": 1, "medium": 1}
}

test_replicas_stay_if_a_move_saves_little if {
	answer := _decided(_of_replicas(4, _running_in({"medium": 4})), _cheap_medium_dear)
	answer.weights == {"medium": {"weight": 4}}
	answer.explanation.cheap == "to move there would save less than moveThreshold of the settings wants"
	answer.explanation.dear == "it costs no less than the clusters that are chosen"
	_divided(4, _running_in({"medium": 4}), _with_settings({"moveThreshold": 0})) == {"cheap": 4}
	_divided(4, _running_in({"medium": 4}), _with_settings({"moveThreshold": 0.04})) == {"cheap": 4}
	_divided(4, _running_in({"dear": 4}), _cheap_medium_dear) == {"cheap": 4}
	_divided(4, _running_in({"dear": 1, "medium": 1}), _cheap_medium_dear) == {"cheap": 2, "medium": 2}
}

test_among_equals_replicas_stay if {
	world := object.union(_priced({name: {"cpu": 1, "memory": 1} | some name in ["a", "b", "c"]}), {"settings": {"moveThreshold": 0}})
	_divided(3, _running_in({"b": 2, "c": 1}), world) == {"b": 2, "c": 1}
	_divided(3, _running_in({"c": 3}), object.union(world, {"settings": {"minClusters": 2}})) == {"c": 2, "a": 1}
}

test_data_say_where_a_workload_runs if {
	every running in [["medium"], {"medium": {"weight": 2}}] {
		world := object.union(_cheap_medium_dear, {"applications": {"shop/web": {"clusters": running}}})
		_divided(4, {}, world) == {"medium": 4}
		_divided(4, _running_in({"dear": 1}), world) == {"cheap": 4}
	}
}

test_a_last_decision_that_cannot_be_read_does_not_count if {
	every value in ["", "{", "1", "null", [], {"clusters": 1}, {"clusters": {"dear": {"weight": -1}}}, {"clusters": {"dear": 1}}] {
		_divided(4, {"federation.kubernetes.io/replica-set-preferences": value}, _cheap_medium_dear) == {"cheap": 4}
	}
}

_spread_errors(number, says, world) := problems if {
	answer := _decided(_of_replicas(number, says), world)
	answer.weights == {}
	object.keys(answer.errors) == {"spread"}
	problems := concat("; ", answer.errors.spread)
}

test_spreads_that_are_impossible if {
	_spread_errors(2, {"min-clusters": "3"}, _cheap_medium_dear) == "min-clusters is 3, but there are only 2 replicas"
	_spread_errors(9, {"min-clusters": "4"}, _cheap_medium_dear) == "it has to run on at least 4 clusters, and may run only on cheap, dear, medium"
	_spread_errors(9, {}, _with_settings({"minClusters": 4})) == "it has to run on at least 4 clusters, and may run only on cheap, dear, medium"
	_spread_errors(9, {"max-replicas-per-cluster": "2"}, _cheap_medium_dear) == "at most 2 replicas may run in one cluster, so 3 allowed clusters take only 6 of 9"
	asking := {"replica-set-preferences": {"clusters": {"cheap": {"weight": 2}, "dear": {"weight": 1}}}}
	_spread_errors(9, object.union(asking, {"min-clusters": "3"}), _cheap_medium_dear) == "min-clusters is 3, but the workload asks for 2"
	_spread_errors(9, object.union(asking, {"max-replicas-per-cluster": "5"}), _cheap_medium_dear) == `cluster "cheap" would run 6 replicas by its weight, and max-replicas-per-cluster allows 5`
}

_weighing(weights) := {"replica-set-preferences": {"clusters": {name: {"weight": weight} | some name, weight in weights}}}

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
		says := object.union(_weighing(weights), {"min-clusters": least})
		_spread_errors(number, says, _cheap_medium_dear) == sprintf(problem, [least, whole, count(weights)])
	}
}

test_webster_gives_a_second_replica_before_a_first if {
	# 0.95 / 3 is more than 0.29.
	names := {"a", "b", "c", "d", "e"}
	world := _priced({name: {"cpu": 1, "memory": 1} | some name in names})
	says := object.union(_weighing({"a": 95, "b": 29, "c": 29, "d": 29, "e": 18}), {"min-clusters": 2})
	problem := "min-clusters is 2, but the weights give only 0 of 5 clusters a share of a whole replica: make them more equal"
	_spread_errors(2, says, world) == problem
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
		_divided(number, object.union(_weighing(weights), {"min-clusters": least}), _cheap_medium_dear) == weights
	}
}

test_spreads_that_are_none if {
	every value in ["0", "-1", "1.5", "NaN", "", "x", "1001", 0, 1.5, true, ["1"], "1e3"] {
		_spread_errors(9, {"min-clusters": value}, _cheap_medium_dear) == sprintf("min-clusters is %s: it is a whole number from 1 to 1000", [json.marshal(value)])
	}
	every value in ["0", "-1", "0%", "101%", "NaN%", "", "10000000", false] {
		startswith(_spread_errors(9, {"max-replicas-per-cluster": value}, _cheap_medium_dear), "max-replicas-per-cluster is ")
	}
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
		answer := _decided(_of_replicas(2, {}), object.union(_cheap_medium_dear, {"settings": settings}))
		answer.weights == {}
		answer.errors == {"settings": {problem}}
	}
}

test_prices_that_are_missing if {
	world := _priced({"a": {"cpu": 0.01, "memory": 0.001}, "b": {"cpu": 0.02}})
	answer := _decided(_of_replicas(2, {}), world)
	answer.weights == {}
	answer.errors == {"clusters": {`cluster "b" has no price of memory, as others have: set one, 0 if it is free`}}
	answer.explanation.b == "its data are wrong"
}

# Like _priced, with a cluster that the customer may not use.
_priced_abroad(prices, price) := object.union(_priced(prices), {"clusters": {"abroad": {
	"jurisdiction": "us",
	"location": "on-prem",
	"price": price,
}}})

test_prices_that_only_excluded_clusters_have if {
	problem := "cluster %q has no price of %s, as others have: set one, 0 if it is free"
	bare := _decided(_of_replicas(2, {}), _priced_abroad({"a": {}}, {"cpu": 0.01, "memory": 0.001}))
	bare.weights == {}
	bare.errors == {"clusters": {sprintf(problem, ["a", "cpu"]), sprintf(problem, ["a", "memory"])}}
	bare.explanation.a == "its data are wrong"
	without := json.remove(_priced_abroad({"a": {}}, {"cpu": 0.01, "memory": 0.001}), ["clusters/a/price"])
	_decided(_of_replicas(2, {}), without) == bare
	partly := _decided(_of_replicas(2, {}), _priced_abroad({"a": {"cpu": 1}, "b": {"cpu": 1}}, {"cpu": 0.01, "memory": 0}))
	partly.errors == {"clusters": {sprintf(problem, ["a", "memory"]), sprintf(problem, ["b", "memory"])}}
}

test_what_only_excluded_clusters_price_and_nobody_requests_is_free if {
	_divided(2, {}, _priced_abroad({"a": {"cpu": 1, "memory": 1}}, {"example.com/gpu": 1})) == {"a": 2}
	_divided(2, {}, _priced_abroad({"a": {"memory": 1}}, {"cpu": -1})) == {"a": 2}
}

test_resources_without_any_price_are_free if {
	_divided(2, {}, _priced({"a": {"memory": 0.002}, "b": {"memory": 0.001}})) == {"b": 2}
	_divided(2, {}, _priced({"a": {"example.com/gpu": 1}, "b": {}})) == {"a": 1, "b": 1}
}

test_storage_is_paid_by_gib if {
	resource := {"metadata": {"annotations": {"customer": "plain"}}, "spec": {"template": {"spec": {"containers": [{"resources": {"requests": {
		"hugepages-2Mi": "2Gi",
		"ephemeral-storage": "1Gi",
	}}}]}}}}
	costs := placement.costs with input as {"resource": resource}
		with data.placement as _priced({"a": {"hugepages-2Mi": 3, "ephemeral-storage": 1}})
	costs == {"a": 7}
}

test_dimensions_that_contradict_each_other if {
	world := _priced({name: price |
		some number in numbers.range(1, 60)
		name := sprintf("c-%02d", [number])
		price := {"cpu": number, "memory": abs(40 - number) * 3}
	})
	_divided(1, {}, world) == {"c-40": 1}
	_divided(2, {"max-replicas-per-cluster": "1"}, world) == {"c-40": 1, "c-39": 1}
}

test_prices_of_a_config_map if {
	weights := placement.weights with input as {"resource": _of_replicas(2, {"min-clusters": "2"})}
		with data.fairlead.placement as _with_settings({"maxReplicasPerCluster": "50%"})
	weights == {"cheap": {"weight": 1}, "medium": {"weight": 1}}
}

test_the_cost_of_a_decision if {
	_cost_of(5, {}) == {0.055} # 5 * (0.01 + 0.001)
	_cost_of(3, {"replica-set-preferences": `{"clusters": {"cheap": {"weight": 1}, "dear": {"weight": 1}}}`}) == {0.055} # 2 and 1
	_cost_of(3, {"replica-set-preferences": `{"clusters": {"dear": {"weight": 0.2}, "cheap": {"weight": 0.1}}}`}) == {0.077} # 1 and 2
	_cost_of(1, {"customer": "nobody"}) == set()
}

test_the_cost_of_what_has_no_price_is_not_known if {
	bare := {"clusters": {"a": {"jurisdiction": "de", "location": "on-prem"}}, "customers": _customers}
	{cost | cost := placement.cost} == set() with input as {"resource": _of_replicas(1, {})} with data.placement as bare
}

_cost_of(number, says) := {cost |
	cost := placement.cost with input as {"resource": _of_replicas(number, says)} with data.placement as _cheap_medium_dear
}
