package resource_limits_test

import data.resource_limits

_none := {"required": [], "container_max": {}, "pod_max": {}}

_parameters := {
	"requests": {"required": ["cpu"], "container_max": {"cpu": "2"}, "pod_max": {"cpu": "4"}},
	"limits": {"required": [], "container_max": {"memory": "4Gi"}, "pod_max": {"memory": "8Gi"}},
}

_deny_with(request, parameters) := deny if {
	deny := resource_limits.deny with data.settings.parameters as {"resource_limits": object.union({"requests": _none, "limits": _none}, parameters)}
		with input as {"request": request}
}

_deny(request) := _deny_with(request, _parameters)

_pod(spec) := {
	"operation": "CREATE",
	"kind": {"group": "", "version": "v1", "kind": "Pod"},
	"object": {"metadata": {"name": "web"}, "spec": spec},
}

_resources(cpu, memory) := {"requests": {"cpu": cpu}, "limits": {"memory": memory}}

_container(name, cpu, memory) := {"name": name, "resources": _resources(cpu, memory)}

_sidecar(name, cpu, memory) := object.union(_container(name, cpu, memory), {"restartPolicy": "Always"})

_resized(spec, before) := object.union(_pod(spec), {
	"operation": "UPDATE",
	"subResource": "resize",
	"oldObject": {"metadata": {"name": "web"}, "spec": before},
})

test_amounts_within_the_maxima_are_admitted if {
	_deny(_pod({"containers": [_container("app", "2", "4Gi"), _container("log", 2, "4Gi")]})) == set()
}

test_what_is_missing_is_named if {
	_deny(_pod({"containers": [{"name": "app"}], "initContainers": [{"name": "migrate", "resources": {}}]})) == {
		`pod "web": container "app" has no cpu request: set resources.requests.cpu`,
		`pod "web": container "app" has no memory limit: set resources.limits.memory`,
		`pod "web": init container "migrate" has no cpu request: set resources.requests.cpu`,
		`pod "web": init container "migrate" has no memory limit: set resources.limits.memory`,
	}
}

test_an_update_warns_of_what_it_leaves_wrong_in_a_template if {
	before := {"template": {"spec": {"containers": [_container("app", "3", "1Gi")]}}}
	after := {"template": {"spec": {"containers": [_container("app", "3", "5Gi")]}}}
	update := {
		"operation": "UPDATE",
		"kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
		"oldObject": {"metadata": {"name": "web"}, "spec": before},
		"object": {"metadata": {"name": "web"}, "spec": after},
	}
	parameters := {"resource_limits": object.union({"requests": _none, "limits": _none}, _parameters)}
	decision := resource_limits.decision with data.settings.parameters as parameters with input as {"request": update}
	decision.deny == {`deployment "web": container "app" has the memory limit 5Gi, above the maximum 4Gi: set resources.limits.memory to at most 4Gi`}
	decision.warn == {`every pod of Deployment "web" will be refused: container "app" has the cpu request 3, above the maximum 2: set resources.requests.cpu to at most 2`}
}

test_zero_is_none if {
	_deny(_pod({"containers": [_container("app", "0", 0)]})) == {
		`pod "web": container "app" has no cpu request: set resources.requests.cpu`,
		`pod "web": container "app" has no memory limit: set resources.limits.memory`,
	}
}

test_a_limit_is_a_request if {
	_deny(_pod({"containers": [{"name": "app", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]})) == set()
}

test_large_containers_are_refused if {
	_deny(_pod({"containers": [_container("app", "2001m", "1Gi"), _container("log", "1", 4294967297)]})) == {
		`pod "web": container "app" has the cpu request 2001m, above the maximum 2: set resources.requests.cpu to at most 2`,
		`pod "web": container "log" has the memory limit 4294967297, above the maximum 4Gi: set resources.limits.memory to at most 4Gi`,
	}
}

test_large_pods_are_refused if {
	three := [_container("a", "1500m", "3Gi"), _container("b", "1500m", "3Gi"), _container("c", "1500m", "3Gi")]
	_deny(_pod({"containers": three})) == {
		`pod "web": all containers together have the cpu request 4500m, above the maximum 4: lower resources.requests.cpu`,
		`pod "web": all containers together have the memory limit 9Gi, above the maximum 8Gi: lower resources.limits.memory`,
	}
	_deny(_pod({"containers": [three[0]], "initContainers": [three[1], three[2]]})) == set()
}

test_sidecars_run_beside_what_comes_after_them if {
	spec := {
		"containers": [_container("app", "1", "1Gi")],
		"initContainers": [_sidecar("proxy", "2", "4Gi"), _sidecar("log", "1", "1Gi"), _container("migrate", "2", "4Gi")],
	}
	_deny(_pod(spec)) == {
		`pod "web": all containers together have the cpu request 5, above the maximum 4: lower resources.requests.cpu`,
		`pod "web": all containers together have the memory limit 9Gi, above the maximum 8Gi: lower resources.limits.memory`,
	}
	reversed := object.union(spec, {"initContainers": array.reverse(spec.initContainers)})
	_deny(_pod(reversed)) == set()
}

test_many_sidecars_run_beside_an_init_container if {
	sidecars := [_sidecar(sprintf("proxy-%d", [number]), "100m", "1Mi") | some number in numbers.range(1, 40)]
	spec := {
		"containers": [_container("app", "1m", "1Mi")],
		"initContainers": array.concat(sidecars, [_container("migrate", "100m", "1Mi"), _sidecar("log", "1m", "1Mi")]),
	}
	_deny(_pod(spec)) == {`pod "web": all containers together have the cpu request 4100m, above the maximum 4: lower resources.requests.cpu`}
}

test_overhead_counts_where_there_is_something if {
	spec := {"containers": [_container("a", "2", "4Gi"), _container("b", "2", "4Gi")], "overhead": {"cpu": "1", "memory": "1Gi"}}
	count(_deny(_pod(spec))) == 2
	limits := {"limits": object.union(_none, {"pod_max": {"example.com/gpu": "1"}})}
	_deny_with(_pod({"containers": [{"name": "a"}], "overhead": {"example.com/gpu": "2"}}), limits) == set()
}

test_pod_level_resources_count_for_all_containers if {
	pod := _pod({"containers": [{"name": "a"}, {"name": "b"}], "resources": {"limits": {"cpu": "5", "memory": "3Gi"}}})
	_deny(pod) == {`pod "web": all containers together have the cpu request 5, above the maximum 4: lower resources.requests.cpu`}
	partly := object.union(pod, {"object": {"spec": {"containers": [{"name": "a"}, _container("b", "1", "1Gi")]}}})
	_deny(partly) == set()
	large := object.union(pod, {"object": {"spec": {"resources": {"limits": {"cpu": "1", "memory": "5Gi"}}}}})
	count(_deny(large)) == 2
}

test_pod_level_hugepages if {
	requests := {"requests": object.union(_none, {"pod_max": {"hugepages-2Mi": "4Mi"}})}
	pod := _pod({"containers": [{"name": "a"}], "resources": {"requests": {"hugepages-2Mi": "6Mi"}}})
	_deny_with(pod, requests) == {`pod "web": all containers together have the hugepages-2Mi request 6Mi, above the maximum 4Mi: lower resources.requests.hugepages-2Mi`}
}

test_a_container_may_use_the_limit_of_its_pod if {
	pod := _pod({"containers": [_container("a", "1", "0")], "resources": {"limits": {"memory": "5Gi"}}})
	_deny(pod) == {`pod "web": container "a" has the memory limit 5Gi, above the maximum 4Gi: set resources.limits.memory to at most 4Gi`}
}

test_what_is_no_quantity_is_refused if {
	spec := {"containers": [_container("a", "1", "-1Gi")], "overhead": {"cpu": "1x"}}
	_deny(_pod(spec)) == {
		`pod "web": container "a" has no memory limit: set resources.limits.memory`,
		`pod "web": container "a" has the memory limit "-1Gi", which is not a quantity: write it like 500m or 1Gi`,
		`pod "web": the pod has cpu "1x", which is not a quantity: write it like 500m or 1Gi`,
	}
}

test_ephemeral_containers_have_no_resources if {
	_deny(_pod({"containers": [_container("a", "1", "1Gi")], "ephemeralContainers": [{"name": "debug"}]})) == set()
}

test_a_resize_is_refused_for_what_it_makes_wrong if {
	small := {"containers": [_container("a", "1", "1Gi")]}
	large := {"containers": [_container("a", "3", "1Gi")]}
	_deny(_resized(large, small)) == {`pod "web": container "a" has the cpu request 3, above the maximum 2: set resources.requests.cpu to at most 2`}
	_deny(_resized({"containers": [_container("a", "3", "2Gi")]}, large)) == set()
	_deny(_resized(small, large)) == set()
}

test_templates_are_checked if {
	request := {
		"operation": "CREATE",
		"kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
		"object": {"metadata": {"name": "web"}, "spec": {"template": {"spec": {"containers": [_container("a", "1", "5Gi")]}}}},
	}
	_deny(request) == {`deployment "web": container "a" has the memory limit 5Gi, above the maximum 4Gi: set resources.limits.memory to at most 4Gi`}
}

test_mirror_pods_are_left_alone if {
	pod := _pod({"containers": [{"name": "a"}], "nodeName": "node-1"})
	mirror := object.union(pod, {
		"object": {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
		"userInfo": {"username": "system:node:node-1", "groups": ["system:nodes"]},
	})
	_deny(mirror) == set()
	count(_deny(object.union(mirror, {"userInfo": {"username": "alice"}}))) == 2
}

test_the_decision_only_refuses if {
	decision := resource_limits.decision with data.settings.parameters as {"resource_limits": _parameters}
		with input as {"request": _pod({"containers": [_container("a", "1", "1Gi")]})}
	decision == {"deny": set(), "patch": [], "warn": set()}
}
