package lib.workload_placement.eligibility_test

import data.lib.workload_placement.scenes_test as scenes

test_capacity if {
	answer := scenes.running(3, {"cpu": "3", "memory": "1Gi"})
	answer.explanation.berlin == "its capacity of cpu is 8, but the workload requests 9 (replicas: 3)"
	object.keys(answer.errors) == {"no cluster"}
	scenes.running(2, {"cpu": "4", "memory": "16Gi"}).explanation.berlin == "allowed"
	scenes.running(2, {"memory": "17179869185"}).explanation.berlin == "its capacity of memory is 32Gi, but the workload requests 34359738370 (replicas: 2)"
	scenes.running(0, {"cpu": "100"}).explanation.berlin == "allowed"
}

test_a_tainted_cluster_may_be_too_small if {
	tainted := {
		"jurisdiction": "de",
		"location": "on-prem",
		"taints": [{"key": "old", "effect": "PreferNoSchedule"}],
		"capacity": {"cpu": "1"},
	}
	resource := {
		"metadata": scenes.metadata,
		"spec": {"template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "2"}}}]}}},
	}
	sentence := scenes.decided(resource, scenes.with_cluster("bonn", tainted)).explanation.bonn
	sentence == "its capacity of cpu is 1, but the workload requests 2 (replicas: 1)"
}

test_extended_resources_have_to_be_there if {
	scenes.running(1, {"example.com/gpu": 1}).explanation.berlin == "its capacity of example.com/gpu is 0, but the workload requests 1 (replicas: 1)"
	scenes.running(1, {"ephemeral-storage": "1Ti"}).explanation.berlin == "allowed"
}

test_clusters_without_capacity_take_everything if {
	every capacity in [{"capacity": {}}, {}] {
		cluster := object.union({"jurisdiction": "de", "location": "on-prem", "price": {"cpu": 0, "memory": 0}}, capacity)
		answer := scenes.decided(
			{"metadata": scenes.metadata, "spec": {"replicas": 1000, "template": {"spec": scenes.pods}}},
			scenes.with_cluster("bonn", cluster),
		)
		answer.explanation.bonn == "allowed"
	}
}
