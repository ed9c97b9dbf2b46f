package run_as_user_test

import data.run_as_user

_non_root := {"users": [{"min": 1, "max": 2147483647}], "require_user": false}

_ranges := {"users": [{"min": 1000, "max": 1999}, {"min": 5000, "max": 5000}], "require_user": false}

_any := {"users": [{"min": 0, "max": 2147483647}], "require_user": false}

_deny(parameters, request) := deny if {
	deny := run_as_user.deny with data.settings.parameters as {"run_as_user": parameters} with input as {"request": request}
}

_request(group, kind, manifest) := {
	"operation": "CREATE",
	"kind": {"group": group, "version": "v1", "kind": kind},
	"object": manifest,
}

_object(spec) := {"metadata": {"name": "web"}, "spec": spec}

_pod(of_pod, of_container) := _request("", "Pod", _object({
	"securityContext": of_pod,
	"containers": [{"name": "app", "securityContext": of_container}],
}))

_updated(request, before) := object.union(request, {"operation": "UPDATE", "oldObject": before})

test_the_user_of_the_container_takes_the_place_of_the_pods if {
	_deny(_non_root, _pod({"runAsUser": 0}, {"runAsUser": 1000})) == set()
	_deny(_non_root, _pod({"runAsUser": 1000}, {})) == set()
	_deny(_non_root, _pod({"runAsUser": 1000}, null)) == set()
	_deny(_non_root, _pod(null, {"runAsUser": 1000, "runAsNonRoot": false})) == set()
	refused := {`pod "web": container "app" runs as user 0, which is not within 1 or more: set its securityContext.runAsUser to one of these users`}
	_deny(_non_root, _pod({"runAsUser": 1000}, {"runAsUser": 0})) == refused
	_deny(_non_root, _pod({"runAsUser": 0}, {"runAsUser": null})) == refused
	_deny(_non_root, _pod({"runAsUser": 0, "runAsNonRoot": true}, {})) == refused
}

test_without_a_user_the_image_decides if {
	refused := {`pod "web": container "app" sets no user, so that its image decides: set securityContext.runAsNonRoot to true, or securityContext.runAsUser to a user within 1 or more`}
	_deny(_non_root, _pod({}, {})) == refused
	_deny(_non_root, _pod(null, null)) == refused
	_deny(_non_root, _pod({"runAsNonRoot": true}, {"runAsNonRoot": false})) == refused
	_deny(_non_root, _pod({"runAsNonRoot": true}, {})) == set()
	_deny(_non_root, _pod({"runAsNonRoot": false}, {"runAsNonRoot": true})) == set()
	_deny(_any, _pod({}, {})) == set()
}

test_an_image_does_not_decide_where_only_some_users_are_allowed if {
	_deny(_ranges, _pod({"runAsNonRoot": true}, {})) == {`pod "web": container "app" sets no user, so that its image decides: set securityContext.runAsUser to a user within 1000..1999 or 5000`}
}

test_a_user_may_be_required if {
	_deny(object.union(_non_root, {"require_user": true}), _pod({"runAsNonRoot": true}, {})) == {`pod "web": container "app" sets no user, so that its image decides: set securityContext.runAsUser to a user within 1 or more`}
	_deny(object.union(_any, {"require_user": true}), _pod({"runAsUser": 0}, {})) == set()
}

test_the_ends_of_a_range_belong_to_it if {
	every user in [1000, 1999, 5000] { _deny(_ranges, _pod({}, {"runAsUser": user})) == set() }
	every user in [0, 999, 2000, 4999, 5001, 2147483647] { count(_deny(_ranges, _pod({}, {"runAsUser": user}))) == 1 }
}

test_every_list_is_checked if {
	every list in ["containers", "initContainers", "ephemeralContainers"] {
		spec := {list: [{"name": "c"}]}
		count(_deny(_non_root, _request("", "Pod", _object(spec)))) == 1
		count(_deny(_non_root, _request("apps", "StatefulSet", _object({"template": {"spec": spec}})))) == 1
		count(_deny(_non_root, _request("batch", "CronJob", _object({"jobTemplate": {"spec": {"template": {"spec": spec}}}})))) == 1
	}
}

test_pods_of_windows_are_left_alone if {
	spec := {"containers": [{"name": "app"}]}
	_deny(_non_root, _request("", "Pod", _object(object.union(spec, {"os": {"name": "windows"}})))) == set()
	every os in [null, {}, {"name": "linux"}] {
		count(_deny(_non_root, _request("", "Pod", _object(object.union(spec, {"os": os}))))) == 1
	}
}

test_an_update_of_a_pod_is_about_new_containers if {
	before := _object({"containers": [{"name": "app"}], "ephemeralContainers": [{"name": "old"}]})
	_deny(_non_root, _updated(_request("", "Pod", before), before)) == set()
	after := _object({"containers": [{"name": "app"}], "ephemeralContainers": [{"name": "old"}, {"name": "debug"}]})
	some message in _deny(_non_root, _updated(_request("", "Pod", after), before))
	contains(message, `ephemeral container "debug" sets no user`)
}

test_an_update_of_a_template_is_about_all_containers_if_one_changes if {
	before := _template([{"name": "a"}, {"name": "b", "securityContext": {"runAsUser": 1}}])
	_deny(_non_root, _updated(_request("apps", "Deployment", object.union(before, {"spec": {"replicas": 2}})), before)) == set()
	changed := _template([{"name": "a"}, {"name": "b", "securityContext": {"runAsUser": 2}}])
	count(_deny(_non_root, _updated(_request("apps", "Deployment", changed), before))) == 1
}

test_an_update_of_a_template_that_keeps_its_users_warns_of_them if {
	before := _template([{"name": "a"}])
	restarted := object.union(before, {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}})
	update := _updated(_request("apps", "Deployment", restarted), before)
	decision := run_as_user.decision with data.settings.parameters as {"run_as_user": _non_root} with input as {"request": update}
	decision.deny == set()
	some message in decision.warn
	startswith(message, `every pod of Deployment "web" will be refused: container "a" sets no user`)
}

_template(containers) := _object({"template": {"spec": {"containers": containers}}})

test_objects_without_a_readable_pod_spec_are_refused if {
	_deny(_non_root, _request("batch", "Job", _object({}))) == {`job "web": spec.template.spec is not an object: cannot tell what its pods would do`}
}

test_other_objects_are_left_alone if {
	_deny(_non_root, _request("", "Service", _object({"containers": [{"name": "app"}]}))) == set()
	_deny(_non_root, {"operation": "DELETE", "kind": {"kind": "Pod"}, "oldObject": _object({})}) == set()
}

test_mirror_pods_are_left_alone if {
	pod := _pod({}, {})
	mirror := object.union(pod, {
		"object": {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {"nodeName": "node-1"}},
		"userInfo": {"username": "system:node:node-1", "groups": ["system:nodes"]},
	})
	_deny(_non_root, mirror) == set()
	count(_deny(_non_root, object.union(mirror, {"userInfo": {"username": "alice"}}))) == 1
}

test_the_decision_only_refuses if {
	decision := run_as_user.decision with data.settings.parameters as {"run_as_user": _non_root}
		with input as {"request": _pod({"runAsUser": 1000}, {})}
	decision == {"deny": set(), "patch": [], "warn": set()}
}
