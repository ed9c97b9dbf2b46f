package node_pool_limits_test

import data.node_pool

_gpu := {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}

_spot := {"key": "spot", "value": "yes"}

_pools(pool) := {"gpu": object.union({"nodeSelector": {"pool": "gpu"}, "tolerations": []}, pool)}

_review(request) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": object.union({"uid": "42", "kind": {"group": "", "kind": "Pod"}, "namespace": "training"}, request),
}

_pod(tolerations) := {"metadata": {"name": "web"}, "spec": {"nodeSelector": {"pool": "gpu"}, "tolerations": tolerations}}

_create(tolerations) := _review({"operation": "CREATE", "object": _pod(tolerations)})

_update(old, new) := _review({"operation": "UPDATE", "object": _pod(new), "oldObject": _pod(old)})

_decide(review, pool) := decision if {
	decision := node_pool.decision with input as review
		with data.settings.pools as _pools(pool)
		with data.kubernetes.namespaces as {"training": {"metadata": {"labels": {"agentpool": "gpu"}}}}
}

_untouched := {"deny": set(), "patch": [], "warn": set()}

_refused(named, allowed) := object.union(_untouched, {"deny": {sprintf(
	`pod "web" sets the toleration %s, which pool "gpu" of namespace "training" does not allow: remove it, or use %s`,
	[named, allowed],
)}})

test_any_toleration_is_allowed_where_a_pool_does_not_say_which if {
	_decide(_create([_gpu, _spot, {"operator": "Exists"}]), {}) == _untouched
}

_add(path, value) := {"op": "add", "path": path, "value": value}

test_a_pool_that_restricts_tolerations_refuses_others if {
	_decide(_create([_gpu]), {"allowedTolerations": [_gpu]}) == _untouched
	_decide(_create([]), {"allowedTolerations": []}) == _untouched
	_decide(_create([_gpu]), {"allowedTolerations": [_spot]}) == _refused("gpu:NoSchedule", "spot=yes")
	_decide(_create([_gpu, {"operator": "Exists"}]), {"allowedTolerations": [_gpu]}) == _refused("*", "gpu:NoSchedule")
}

test_a_pool_allows_what_it_gives if {
	_decide(_create([_gpu]), {"tolerations": [_gpu], "allowedTolerations": []}) == _untouched
	_decide(_create([_spot]), {"tolerations": [_gpu], "allowedTolerations": []}) == _refused("spot=yes", "gpu:NoSchedule")
	_decide(_create([]), {"tolerations": [_gpu], "allowedTolerations": []}).patch[0] == _add("/spec/tolerations", [_gpu])
}

test_a_pool_allows_and_gives_by_what_covers_what if {
	wide := {"operator": "Exists"}
	_decide(_create([_gpu]), {"allowedTolerations": [wide]}) == _untouched
	_decide(_create([wide]), {"tolerations": [_gpu]}) == _untouched
	_decide(_create([wide]), {"allowedTolerations": [_gpu]}) == _refused("*", "gpu:NoSchedule")
	_decide(_create([_gpu]), {"tolerations": [wide]}).patch[0] == _add("/spec/tolerations/-", wide)
}

_own(key, seconds) := {
	"key": concat("/", ["node.kubernetes.io", key]),
	"operator": "Exists",
	"effect": "NoExecute",
	"tolerationSeconds": seconds,
}

_pressure(key) := {"key": concat("/", ["node.kubernetes.io", key]), "operator": "Exists", "effect": "NoSchedule"}

test_what_control_planes_add_is_always_allowed if {
	added := [_own("not-ready", 300), _own("unreachable", 300), _pressure("memory-pressure")]
	_decide(_create(added), {"allowedTolerations": []}) == _untouched
	_decide(_create([_own("not-ready", 301)]), {"allowedTolerations": [_gpu]}) == _refused("node.kubernetes.io/not-ready:NoExecute for 301 s", "gpu:NoSchedule")
}

test_what_the_controller_of_daemon_sets_adds_is_allowed_to_it_alone if {
	added := array.concat(
		[_pressure(key) | some key in ["disk-pressure", "pid-pressure", "unschedulable", "network-unavailable"]],
		[json.remove(_own(key, 1), ["tolerationSeconds"]) | some key in ["not-ready", "unreachable"]],
	)
	controller := "system:serviceaccount:kube-system:daemon-set-controller"
	every toleration in added {
		review := _create([toleration])
		by := object.union(review, {"request": {"userInfo": {"username": controller}}})
		_decide(by, {"allowedTolerations": []}) == _untouched
		count(_decide(review, {"allowedTolerations": []}).deny) == 1
	}
}

test_an_update_may_keep_but_not_add_what_is_not_allowed if {
	_decide(_update([_spot], [_spot]), {"allowedTolerations": [_gpu]}) == _untouched
	_decide(_update([_spot], [_spot, _gpu]), {"allowedTolerations": [_gpu]}) == _untouched
	_decide(_update([_gpu], [_gpu, _spot]), {"allowedTolerations": [_gpu]}) == _refused("spot=yes", "gpu:NoSchedule")
	_decide(_update([], [_spot]), {}) == _untouched
}

test_an_update_of_tolerations_needs_no_namespace_if_no_pool_restricts_them if {
	review := object.union(_update([], [_spot]), {"request": {"namespace": "new"}})
	_decide(review, {}) == _untouched
	count(_decide(review, {"allowedTolerations": [_gpu]}).deny) == 1
	same := object.union(_update([_spot], [_spot]), {"request": {"namespace": "new"}})
	_decide(same, {"allowedTolerations": [_gpu]}) == _untouched
}

_deployment(labels, spec) := {"metadata": {"name": "web", "labels": labels}, "spec": {"template": {"spec": spec}}}

test_only_a_changed_template_gets_warnings_and_then_about_all_of_it if {
	kind := {"group": "apps", "kind": "Deployment"}
	before := _deployment({}, {"tolerations": [_spot]})
	review := _review({"operation": "UPDATE", "kind": kind, "oldObject": before})
	same := object.union(review, {"request": {"object": _deployment({"a": "b"}, before.spec.template.spec)}})
	_decide(same, {"allowedTolerations": [_gpu]}) == _untouched
	other := object.union(review, {"request": {"object": _deployment({}, {"tolerations": [_spot, _gpu]})}})
	count(_decide(other, {"allowedTolerations": [_gpu]}).warn) == 1
}

test_a_template_with_disallowed_parts_gets_a_warning if {
	decision := _decide(
		_review({
			"operation": "CREATE",
			"kind": {"group": "apps", "kind": "DaemonSet"},
			"object": {"metadata": {"name": "web"}, "spec": {"template": _pod([_spot])}},
		}),
		{"allowedTolerations": [_gpu]},
	)
	decision == object.union(_untouched, {"warn": {`every pod of DaemonSet "web" will be refused: its template sets the toleration spot=yes, which pool "gpu" of namespace "training" does not allow: remove it, or use gpu:NoSchedule`}})
}
