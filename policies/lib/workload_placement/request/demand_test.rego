package lib.workload_placement.request_test

import data.lib.workload_placement.decision as placement
import data.lib.workload_placement.request
import data.lib.workload_placement.scenes_test as scenes

_demand(resource) := demand if demand := request.demand with input as {"resource": resource}

_cpu := 1000000000

_gi := 1073741824000000000

test_all_replicas_count if {
	every replicas, number in {"three": 3, "none": 1} {
		resource := {"kind": "Deployment", "spec": object.union(
			{"template": {"spec": scenes.pods}},
			{field: value | some field, value in {"replicas": {"three": 3}[replicas]}},
		)}
		_demand(resource) == {"cpu": (_cpu / 2) * number, "memory": _gi * number}
	}
	_demand({"kind": "Job", "spec": {"parallelism": 4, "replicas": 9, "template": {"spec": scenes.pods}}}) == {"cpu": 2 * _cpu, "memory": 4 * _gi}
	_demand({"kind": "Job", "spec": {"template": {"spec": scenes.pods}}}) == {"cpu": _cpu / 2, "memory": _gi}
	_demand({"kind": "StatefulSet", "spec": {"replicas": 0, "template": {"spec": scenes.pods}}}) == {}
}

test_where_the_pod_spec_is if {
	every resource in [
		{"kind": "Pod", "spec": scenes.pods},
		{"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": scenes.pods}}}}},
		{"kind": "Rollout", "spec": {"template": {"spec": scenes.pods}}},
		{"spec": {"template": {"spec": scenes.pods}}},
	] {
		_demand(resource) == {"cpu": _cpu / 2, "memory": _gi}
	}
}

test_no_pods_request_nothing if {
	every resource in [{}, {"spec": null}, {"spec": {"template": null}}, {"spec": {"template": {"spec": null}}}] {
		_demand(resource) == {}
		answer := scenes.decided(object.union(resource, {"metadata": scenes.metadata}), scenes.world)
		object.keys(answer.weights) == {"berlin", "munich"}
	}
}

_problems(resource) := problems if {
	answer := scenes.decided(resource, scenes.world)
	answer.weights == {}
	problems := answer.errors.workload
}

test_workloads_that_are_none if {
	every resource in [null, [], "web", 1, false] { _problems(resource) == {"input.resource is no object"} }
	answer := placement.errors.workload with input as {} with data.placement as scenes.world
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
		object.get(scenes.decided(resource, scenes.world).errors, "workload", set()) == problems
		demand := request.demand with input as {"resource": resource}
		count(demand) == number * (1 - count(problems))
	}
}

test_quantities_that_are_none if {
	every quantity in ["1GB", "", "-1", "NaN", true, {}, -1] {
		problem := concat("", _problems({"spec": {"template": {"spec": {"initContainers": [{"resources": {"limits": {"cpu": quantity}}}]}}}}))
		startswith(problem, "a container has cpu ")
	}
}

test_resources_of_the_pod_as_a_whole if {
	template := {"spec": {
		"containers": [{"name": "app"}],
		"overhead": {"memory": "1Gi"},
		"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
	}}
	_demand({"kind": "Deployment", "spec": {"replicas": 4, "template": template}}) == {"cpu": 2 * _cpu, "memory": 8 * _gi}
	limited := {"spec": {"containers": [{"name": "app"}], "resources": {"limits": {"cpu": "2"}}}}
	_demand({"kind": "StatefulSet", "spec": {"template": limited}}) == {"cpu": 2 * _cpu}
	_demand({"kind": "Pod", "spec": {"containers": [{"name": "app"}], "overhead": {"cpu": "1"}}}) == {"cpu": _cpu}
	every path in [["overhead"], ["resources", "requests"]] {
		spec := json.patch({"resources": {}}, [{"op": "add", "path": concat("/", array.concat([""], path)), "value": {"cpu": "1GB"}}])
		_problems({"spec": {"template": {"spec": spec}}}) == {`the pod has cpu "1GB", which is no quantity: write it like 500m or 1Gi`}
	}
}

test_completions_that_are_none if {
	every number in [-1, 1.5, "3"] {
		problem := concat("", _problems({"kind": "Job", "spec": {"completions": number}}))
		startswith(problem, "the number of completions is ")
	}
}
