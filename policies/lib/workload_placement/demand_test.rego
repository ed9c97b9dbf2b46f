package lib.workload_placement_test

import data.lib.workload_placement as placement

_pods := {"containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}}]}

_metadata := {"annotations": {"customer": "plain"}}

_demand(resource) := demand if demand := placement.demand with input as {"resource": resource}

_cpu := 1000000000

_gi := 1073741824000000000

test_all_replicas_count if {
	every replicas, number in {"three": 3, "none": 1} {
		resource := {"kind": "Deployment", "spec": object.union(
			{"template": {"spec": _pods}},
			{field: value | some field, value in {"replicas": {"three": 3}[replicas]}},
		)}
		_demand(resource) == {"cpu": (_cpu / 2) * number, "memory": _gi * number}
	}
	_demand({"kind": "Job", "spec": {"parallelism": 4, "replicas": 9, "template": {"spec": _pods}}}) == {"cpu": 2 * _cpu, "memory": 4 * _gi}
	_demand({"kind": "Job", "spec": {"template": {"spec": _pods}}}) == {"cpu": _cpu / 2, "memory": _gi}
	_demand({"kind": "StatefulSet", "spec": {"replicas": 0, "template": {"spec": _pods}}}) == {}
}

test_where_the_pod_spec_is if {
	every resource in [
		{"kind": "Pod", "spec": _pods},
		{"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": _pods}}}}},
		{"kind": "Rollout", "spec": {"template": {"spec": _pods}}},
		{"spec": {"template": {"spec": _pods}}},
	] {
		_demand(resource) == {"cpu": _cpu / 2, "memory": _gi}
	}
}

test_no_pods_request_nothing if {
	every resource in [{}, {"spec": null}, {"spec": {"template": null}}, {"spec": {"template": {"spec": null}}}] {
		_demand(resource) == {}
		answer := _decided(object.union(resource, {"metadata": _metadata}), _world)
		object.keys(answer.weights) == {"berlin", "munich"}
	}
}

test_capacity if {
	answer := _running(3, {"cpu": "3", "memory": "1Gi"})
	answer.explanation.berlin == "its capacity of cpu is 8, but the workload requests 9 (replicas: 3)"
	object.keys(answer.errors) == {"no cluster"}
	_running(2, {"cpu": "4", "memory": "16Gi"}).explanation.berlin == "allowed"
	_running(2, {"memory": "17179869185"}).explanation.berlin == "its capacity of memory is 32Gi, but the workload requests 34359738370 (replicas: 2)"
	_running(0, {"cpu": "100"}).explanation.berlin == "allowed"
}

test_a_cluster_with_room_may_lack_a_certification if {
	spec := {"template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}}}
	answer := _decided(object.union(_workload({"customer": "acme", "criticality": "low"}), {"spec": spec}), _world)
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

test_a_tainted_cluster_may_be_too_small if {
	tainted := {
		"jurisdiction": "de",
		"location": "on-prem",
		"taints": [{"key": "old", "effect": "PreferNoSchedule"}],
		"capacity": {"cpu": "1"},
	}
	resource := {
		"metadata": _metadata,
		"spec": {"template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "2"}}}]}}},
	}
	sentence := _decided(resource, _with_cluster("bonn", tainted)).explanation.bonn
	sentence == "its capacity of cpu is 1, but the workload requests 2 (replicas: 1)"
}

test_extended_resources_have_to_be_there if {
	_running(1, {"example.com/gpu": 1}).explanation.berlin == "its capacity of example.com/gpu is 0, but the workload requests 1 (replicas: 1)"
	_running(1, {"ephemeral-storage": "1Ti"}).explanation.berlin == "allowed"
}

_running(replicas, requests) := _decided(
	{"kind": "Deployment", "metadata": _metadata, "spec": {
		"replicas": replicas,
		"template": {"spec": {"containers": [{"name": "app", "resources": {"requests": requests}}]}},
	}},
	_world,
)

test_clusters_without_capacity_take_everything if {
	every capacity in [{"capacity": {}}, {}] {
		cluster := object.union({"jurisdiction": "de", "location": "on-prem", "price": {"cpu": 0, "memory": 0}}, capacity)
		answer := _decided(
			{"metadata": _metadata, "spec": {"replicas": 1000, "template": {"spec": _pods}}},
			_with_cluster("bonn", cluster),
		)
		answer.explanation.bonn == "allowed"
	}
}

_problems(resource) := problems if {
	answer := _decided(resource, _world)
	answer.weights == {}
	problems := answer.errors.workload
}

test_workloads_that_are_none if {
	every resource in [null, [], "web", 1, false] { _problems(resource) == {"input.resource is no object"} }
	answer := placement.errors.workload with input as {} with data.placement as _world
	answer == {"input.resource is no object"}
}

test_parts_of_wrong_types if {
	every path, resource in {
		"metadata": {"metadata": "web"},
		"metadata.annotations": {"metadata": {"annotations": ["customer"], "labels": {"customer": "plain"}}},
		"metadata.labels": {"metadata": {"labels": 1}},
		"spec": {"spec": []},
		"spec.template": {"spec": {"template": "x"}},
		"spec.template.spec": {"spec": {"template": {"spec": [1]}}},
	} {
		_problems(resource) == {sprintf("%s is no object", [path])}
	}
	_problems({"metadata": {"namespace": 5}}) == {"metadata.namespace is 5, which is no name"}
	_problems({"spec": {"template": {"spec": {"containers": {}}}}}) == {"spec.template.spec.containers is no list of containers"}
}

_long_number := json.unmarshal(sprintf("0.%032d", [1]))

test_replicas_that_are_none if {
	every replicas in [-1, 1.5, "3", 1000001, true, [], {}, 1e400, _long_number] {
		problem := concat("", _problems({"spec": {"replicas": replicas}}))
		endswith(problem, "it is a whole number from 0 to 1000000")
	}
}

test_too_many_resources if {
	every number, problems in {32: set(), 33: {"its pods request 33 resources: at most 32"}} {
		requests := {sprintf("example.com/device-%d", [index]): "1" | some index in numbers.range(1, number)}
		resource := {"spec": {"template": {"spec": {"containers": [{"resources": {"requests": requests}}]}}}}
		object.get(_decided(resource, _world).errors, "workload", set()) == problems
		demand := placement.demand with input as {"resource": resource}
		count(demand) == number * (1 - count(problems))
	}
}

test_quantities_that_are_none if {
	every quantity in ["1GB", "", "-1", "NaN", true, {}, -1] {
		problem := concat("", _problems({"spec": {"template": {"spec": {"initContainers": [{"resources": {"limits": {"cpu": quantity}}}]}}}}))
		startswith(problem, "a container has cpu ")
	}
}
