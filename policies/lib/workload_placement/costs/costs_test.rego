package lib.workload_placement.costs_test

import data.lib.workload_placement.costs
import data.lib.workload_placement.scenes_test as scenes

test_costs_of_all_replicas if {
	prices := costs.by_cluster with input as {"resource": scenes.of_replicas(10, {})}
		with data.placement as scenes.cheap_medium_dear
	expected := {"cheap": 0.11, "dear": 0.33, "medium": 0.1155}
	object.keys(prices) == object.keys(expected)
	every name, cost in expected { abs(cost - prices[name]) < 0.000000000001 }
	none := costs.by_cluster with input as {"resource": scenes.of_replicas(10, {})}
		with data.placement as scenes.priced({"a": {}, "b": {}})
	none == {}
}

test_storage_is_paid_by_gib if {
	resource := {"metadata": {"annotations": {"customer": "plain"}}, "spec": {"template": {"spec": {"containers": [{"resources": {"requests": {
		"hugepages-2Mi": "2Gi",
		"ephemeral-storage": "1Gi",
	}}}]}}}}
	prices := costs.by_cluster with input as {"resource": resource}
		with data.placement as scenes.priced({"a": {"hugepages-2Mi": 3, "ephemeral-storage": 1}})
	prices == {"a": 7}
}

test_resources_without_any_price_are_free if {
	scenes.divided(2, {}, scenes.priced({"a": {"memory": 0.002}, "b": {"memory": 0.001}})) == {"b": 2}
	scenes.divided(2, {}, scenes.priced({"a": {"example.com/gpu": 1}, "b": {}})) == {"a": 1, "b": 1}
}

test_what_only_excluded_clusters_price_and_nobody_requests_is_free if {
	scenes.divided(2, {}, scenes.priced_abroad({"a": {"cpu": 1, "memory": 1}}, {"example.com/gpu": 1})) == {"a": 2}
	scenes.divided(2, {}, scenes.priced_abroad({"a": {"memory": 1}}, {"cpu": -1})) == {"a": 2}
}
