package sidecar_injection_test

import data.sidecar_injection

_sidecar := {"name": "mesh-proxy", "image": "mesh/proxy:v1", "args": ["proxy"], "restartPolicy": "Always"}

_volumes := [{"name": "certs", "secret": {"secretName": "certs"}}, {"name": "run", "emptyDir": {}}]

_parameters(changes) := {"sidecar_injection": object.union(
	{"container": _sidecar, "volumes": [], "position": "first", "on_conflict": "warn"},
	changes,
)}

_pod(spec) := {
	"operation": "CREATE",
	"kind": {"group": "", "version": "v1", "kind": "Pod"},
	"object": {"metadata": {"name": "web"}, "spec": object.union({"containers": [{"name": "web", "image": "nginx"}]}, spec)},
}

_decision(request, changes) := decision if {
	decision := sidecar_injection.decision with data.settings.parameters as _parameters(changes)
		with input as {"request": request}
}

_patch(spec, changes) := _decision(_pod(spec), changes).patch

test_a_pod_without_init_containers_gets_the_list if {
	every spec in [{}, {"initContainers": null}, {"initContainers": []}] {
		_patch(spec, {}) == [{"op": "add", "path": "/spec/initContainers", "value": [_sidecar]}]
	}
}

test_the_sidecar_is_inserted_where_the_parameters_say if {
	spec := {"initContainers": [{"name": "migrate", "image": "x"}]}
	_patch(spec, {}) == [{"op": "add", "path": "/spec/initContainers/0", "value": _sidecar}]
	_patch(spec, {"position": "last"}) == [{"op": "add", "path": "/spec/initContainers/-", "value": _sidecar}]
}

test_volumes_are_added if {
	sidecar := {"op": "add", "path": "/spec/initContainers", "value": [_sidecar]}
	_patch({}, {"volumes": _volumes}) == [{"op": "add", "path": "/spec/volumes", "value": _volumes}, sidecar]
	_patch({"volumes": [{"name": "data", "emptyDir": {}}]}, {"volumes": _volumes}) == [
		{"op": "add", "path": "/spec/volumes/-", "value": _volumes[0]},
		{"op": "add", "path": "/spec/volumes/-", "value": _volumes[1]},
		sidecar,
	]
	_patch({"volumes": [_volumes[0]]}, {"volumes": _volumes}) == [
		{"op": "add", "path": "/spec/volumes/-", "value": _volumes[1]},
		sidecar,
	]
}

test_a_pod_with_the_sidecar_is_left_alone if {
	defaulted := object.union(_sidecar, {"imagePullPolicy": "IfNotPresent", "command": null, "volumeMounts": [{"name": "token"}]})
	every container in [_sidecar, defaulted] {
		decision := _decision(_pod({"initContainers": [container], "volumes": _volumes}), {"volumes": _volumes})
		decision == {"deny": set(), "patch": [], "warn": set()}
	}
}

test_a_missing_volume_of_a_sidecar_is_added if {
	_patch({"initContainers": [_sidecar]}, {"volumes": _volumes}) == [{"op": "add", "path": "/spec/volumes", "value": _volumes}]
}

test_another_init_container_of_that_name_stays if {
	every change in [{"image": "x"}, {"args": []}, {"args": null}, {"command": ["sh"]}, {"restartPolicy": null}] {
		decision := _decision(_pod({"initContainers": [object.union(_sidecar, change)]}), {"volumes": _volumes})
		decision == {"deny": set(), "patch": [], "warn": {_differs}}
	}
}

_differs := `pod "web": init container "mesh-proxy" differs from the sidecar of that name, so that no sidecar is injected: rename it or remove it`

test_a_container_of_that_name_stays if {
	decision := _decision(_pod({"containers": [_sidecar]}), {})
	decision.patch == []
	decision.warn == {`pod "web": container "mesh-proxy" has the name of a sidecar, so that no sidecar is injected: rename it or remove it`}
}

test_another_volume_of_that_name_stays if {
	decision := _decision(_pod({"volumes": [{"name": "certs", "emptyDir": {}}]}), {"volumes": _volumes})
	decision.patch == []
	decision.warn == {`pod "web": volume "certs" differs from that of sidecar "mesh-proxy", so that no sidecar is injected: rename it or remove it`}
}

test_conflicts_can_be_refused if {
	decision := _decision(_pod({"initContainers": [{"name": "mesh-proxy", "image": "x"}]}), {"on_conflict": "refuse"})
	decision == {
		"deny": {`pod "web": init container "mesh-proxy" differs from the sidecar of that name: rename it or remove it`},
		"patch": [],
		"warn": set(),
	}
}

test_other_requests_are_left_alone if {
	nothing := {"deny": set(), "patch": [], "warn": set()}
	every change in [
		{"operation": "UPDATE"},
		{"operation": "DELETE", "object": null},
		{"kind": {"kind": "PodTemplate"}},
		{"subResource": "binding"},
	] {
		_decision(object.union(_pod({}), change), {}) == nothing
	}
}

test_mirror_pods_are_left_alone if {
	node := {"username": "system:node:a", "groups": ["system:nodes"]}
	mirror := object.union(_pod({"nodeName": "a"}), {
		"object": {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
		"userInfo": node,
	})
	_decision(mirror, {}).patch == []
	count(_decision(object.union(mirror, {"userInfo": {"username": "eve"}}), {}).patch) == 1
}
