package node_pool_gates_test

import data.node_pool

_gates := [{"name": "acme.io/quota"}]

_gpu := {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}

_spot := {"key": "spot", "operator": "Exists"}

_pools := {
	"pool1": {
		"nodeSelector": {"disk": "ssd"},
		"tolerations": [_gpu],
		"allowedNodeSelector": {"zone": ["a"]},
		"allowedTolerations": [],
	},
	"pool2": {"nodeSelector": {"agentpool": "pool2"}, "tolerations": []},
}

# The update of a pod in the namespace payments, with its scheduling gates before and after.
_update(before, after, gates) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "42",
		"operation": "UPDATE",
		"kind": {"group": "", "version": "v1", "kind": "Pod"},
		"namespace": "payments",
		"object": {"metadata": {"name": "web"}, "spec": _gated(after, gates.after)},
		"oldObject": {"metadata": {"name": "web"}, "spec": _gated(before, gates.before)},
	},
}

_gated(spec, null) := spec

_gated(spec, gates) := object.union(spec, {"schedulingGates": gates}) if gates != null

_freed(before, after) := _update(before, after, {"before": _gates, "after": null})

_in(namespace, review) := object.union(review, {"request": {"namespace": namespace}})

_decide(review) := decision if {
	decision := node_pool.decision with input as review with data.kubernetes.namespaces as {
		"payments": {"metadata": {"labels": {"agentpool": "pool1"}}},
		"odd": {"metadata": {"labels": {"agentpool": "pool9"}}},
		"free": {"metadata": {"labels": {}}},
	}
}

_decide_pools(review) := decision if {
	decision := _decide(review) with data.settings.pools as _pools
}

_decide_merge(review) := decision if {
	decision := _decide_pools(review) with data.settings.pod_selector as "merge"
}

_untouched := {"deny": set(), "patch": [], "warn": set()}

_add(field, value) := {"op": "add", "path": concat("/", ["/spec", field]), "value": value}

_patched(operations) := object.union(_untouched, {"patch": operations})

_denied(message) := object.union(_untouched, {"deny": {message}})

test_a_pod_that_no_pool_placed_is_placed_when_its_last_gate_goes if {
	every spec in [{}, {"nodeSelector": null}, {"nodeSelector": {}}] {
		_decide(_freed(spec, spec)) == _patched([_add("nodeSelector", {"agentpool": "pool1"})])
		_decide(_update(spec, spec, {"before": _gates, "after": []})) == _decide(_freed(spec, spec))
	}
	_decide_pools(_freed({}, {})) == _patched([_add("nodeSelector", {"disk": "ssd"}), _add("tolerations", [_gpu])])
}

test_a_pod_that_no_pool_placed_and_none_can_is_refused if {
	_decide(_freed({"nodeSelector": {"zone": "a"}}, {"nodeSelector": {"zone": "a"}})) == _denied(`pod "web" sets spec.nodeSelector zone=a, but namespace "payments" places its pods in pool "pool1": remove spec.nodeSelector, or set just agentpool=pool1`)
	_decide(_freed({}, {"nodeName": "n1"})) == _denied(`pod "web" sets spec.nodeName=n1, but namespace "payments" places its pods in pool "pool1": remove spec.nodeName`)
	every selector in [{"agentpool": ""}, {"agentpool": 1}] {
		count(_decide(_freed({"nodeSelector": selector}, {"nodeSelector": selector})).deny) == 1
	}
	count(_decide_pools(_in("odd", _freed({}, {}))).deny) == 1
	count(_decide(_in("new", _freed({}, {}))).deny) == 1
}

test_what_the_pool_does_not_allow_is_judged_as_in_a_new_pod if {
	every spec in [{"nodeSelector": {"zone": "b"}}, {"tolerations": [_spot]}] {
		count(_decide_merge(_freed(spec, spec)).deny) == 1
	}
	_decide_merge(_freed({"nodeSelector": {"zone": "a"}}, {"nodeSelector": {"zone": "a"}})) == _patched([
		_add("nodeSelector", {"disk": "ssd", "zone": "a"}),
		_add("tolerations", [_gpu]),
	])
}

test_a_pod_that_a_pool_placed_is_left_alone if {
	every selector in [{"agentpool": "pool1"}, {"agentpool": "pool2"}, {"agentpool": "pool2", "zone": "a"}] {
		_decide(_freed({"nodeSelector": selector}, {"nodeSelector": selector})) == _untouched
		_decide(_in("new", _freed({"nodeSelector": selector}, {"nodeSelector": selector}))) == _untouched
	}
	every selector in [{"disk": "ssd"}, {"agentpool": "pool2"}] {
		_decide_pools(_freed({"nodeSelector": selector}, {"nodeSelector": selector, "tolerations": []})) == _untouched
	}
	other := {"nodeSelector": {"agentpool": "pool9"}}
	count(_decide_pools(_freed(other, other)).deny) > 0
}

test_the_last_gate_may_go_with_the_pools_own_selector if {
	_decide(_freed({}, {"nodeSelector": {"agentpool": "pool1", "zone": "a"}})) == _untouched
	_decide_pools(_freed({}, {"nodeSelector": {"disk": "ssd"}})) == _patched([_add("tolerations", [_gpu])])
	_decide(_freed({}, {"nodeSelector": {"agentpool": "pool2"}})) == _denied(`pod "web" sets spec.nodeSelector agentpool=pool2, but namespace "payments" places its pods in pool "pool1": remove spec.nodeSelector, or set just agentpool=pool1`)
}

test_the_policy_accepts_its_own_answer_unchanged if {
	_decide_pools(_freed({}, {"nodeSelector": {"disk": "ssd"}, "tolerations": [_gpu]})) == _untouched
}

test_other_updates_of_gates_are_left_alone if {
	two := [{"name": "a"}, {"name": "b"}]
	every gates in [
		{"before": two, "after": _gates},
		{"before": _gates, "after": _gates},
		{"before": [], "after": null},
		{"before": null, "after": null},
		{"before": "text", "after": null},
	] {
		_decide(_update({}, {}, gates)) == _untouched
	}
	_decide(_in("free", _freed({}, {}))) == _untouched
}

test_the_decision_on_a_freed_pod_is_explained if {
	review := _freed({}, {})
	audit := node_pool.audit with input as review
		with data.kubernetes.namespaces as {"payments": {"metadata": {"labels": {"agentpool": "pool1"}}}}
	audit == "placed: pool1"
	explanation := node_pool.explanation with input as review
		with data.kubernetes.namespaces as {"payments": {"metadata": {"labels": {"agentpool": "pool1"}}}}
	explanation == {
		"its last scheduling gate is removed, and no pool has placed it yet: decided like a new pod",
		`namespace "payments" belongs to pool "pool1" by its label agentpool`,
		`pool "pool1" gives nodeSelector agentpool=pool1 and 0 tolerations`,
	}
}
