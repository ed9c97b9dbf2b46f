package node_pool_test

import data.node_pool

_namespaces := {
	"payments": {"metadata": {"name": "payments", "labels": {"agentpool": "pool1"}}},
	"odd": {"metadata": {"name": "odd", "labels": {"agentpool": "pool9"}}},
	"free": {"metadata": {"name": "free", "labels": {}}},
	"out": {"metadata": {"name": "out", "labels": {"agentpool": ""}}},
}

_gpu := {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}

_spot := {"key": "spot", "operator": "Equal", "value": "yes"}

_pools := {
	"pool1": {"nodeSelector": {"pool": "one", "disk": "ssd"}, "tolerations": [_gpu, _spot]},
	"pool2": {"nodeSelector": {"pool": "two"}, "tolerations": []},
}

_create(spec) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "42",
		"operation": "CREATE",
		"kind": {"group": "", "version": "v1", "kind": "Pod"},
		"namespace": "payments",
		"object": {"metadata": {"name": "web"}, "spec": spec},
	},
}

_in(namespace, review) := object.union(review, {"request": {"namespace": namespace}})

_update(old, new) := object.union(_create(new), {"request": {
	"operation": "UPDATE",
	"oldObject": {"metadata": {"name": "web"}, "spec": old},
}})

_labelled(operation, old, new) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "42",
		"operation": operation,
		"kind": {"group": "", "version": "v1", "kind": "Namespace"},
		"object": {"metadata": {"name": "payments", "labels": new}},
		"oldObject": {"metadata": {"name": "payments", "labels": old}},
	},
}

_untouched := {"deny": set(), "patch": [], "warn": set()}

_patched(operations) := object.union(_untouched, {"patch": operations})

_denied(message) := object.union(_untouched, {"deny": {message}})

# The note of what a new pod has after the decision (final_state_test.rego) left out.
_but_note(decision) := object.union(decision, {"patch": [operation |
	some operation in decision.patch
	operation.path != "/metadata/annotations"
]})

_add(value) := {"op": "add", "path": "/spec/nodeSelector", "value": value}

_decide(review) := _but_note(decision) if {
	decision := node_pool.decision with input as review with data.kubernetes.namespaces as _namespaces
}

_decide_pools(review) := _but_note(decision) if {
	decision := node_pool.decision with input as review
		with data.kubernetes.namespaces as _namespaces
		with data.settings.pools as _pools
}

_decide_merge(review) := _but_note(decision) if {
	decision := node_pool.decision with input as review
		with data.kubernetes.namespaces as _namespaces
		with data.settings.pod_selector as "merge"
}

_decide_default(review) := _but_note(decision) if {
	decision := node_pool.decision with input as review
		with data.kubernetes.namespaces as _namespaces
		with data.settings.default_pool as "pool0"
}

test_a_pod_without_a_selector_gets_the_assignment if {
	every spec in [{}, {"nodeSelector": null}, {"nodeSelector": {}}, {"nodeName": ""}, {"nodeName": null}] {
		_decide(_create(spec)) == _patched([_add({"agentpool": "pool1"})])
	}
}

test_the_assignment_itself_is_accepted_unchanged if {
	_decide(_create({"nodeSelector": {"agentpool": "pool1"}})) == _untouched
}

test_any_other_selector_is_refused if {
	every case in [
		{"selector": {"agentpool": "pool2"}, "text": "agentpool=pool2"},
		{"selector": {"agentpool": ""}, "text": "agentpool="},
		{"selector": {"zone": "a", "disk": "ssd"}, "text": "disk=ssd, zone=a"},
		{"selector": {"agentpool": "pool1", "zone": "a"}, "text": "agentpool=pool1, zone=a"},
	] {
		_decide(_create({"nodeSelector": case.selector})) == _denied(sprintf(
			`pod "web" sets spec.nodeSelector %s, but namespace "payments" places its pods in pool "pool1": remove spec.nodeSelector, or set just agentpool=pool1`,
			[case.text],
		))
	}
}

test_a_part_of_the_pools_selector_is_refused_for_what_it_lacks if {
	_decide(_create({"nodeSelector": {"agentpool": "pool1"}})) == _denied(`pod "web" sets spec.nodeSelector agentpool=pool1, but namespace "payments" places its pods in pool "pool1", which also requires disk=ssd, gpu=yes: remove spec.nodeSelector, or set just agentpool=pool1, disk=ssd, gpu=yes`) with data.settings.pools as {"pool1": {
		"nodeSelector": {"agentpool": "pool1", "gpu": "yes", "disk": "ssd"},
		"tolerations": [],
	}}
}

test_a_node_name_is_refused if {
	_decide(_create({"nodeName": "n1"})) == _denied(`pod "web" sets spec.nodeName=n1, but namespace "payments" places its pods in pool "pool1": remove spec.nodeName`)
}

_mirror(user) := object.union(_create({"nodeName": "n1"}), {"request": {
	"object": {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
	"userInfo": user,
}})

test_a_mirror_pod_of_the_node_itself_is_left_alone if {
	_decide(_mirror({"username": "system:node:n1", "groups": ["system:nodes"]})) == _untouched
}

test_the_mirror_annotation_from_anyone_else_is_no_way_around if {
	every user in [
		{"username": "eve", "groups": ["system:authenticated"]},
		{"username": "system:node:n2", "groups": ["system:nodes"]},
		{"username": "system:node:n1", "groups": ["system:authenticated"]},
		{},
	] {
		count(_decide(_mirror(user)).deny) == 1
	}
}

test_merge_keeps_other_keys if {
	_decide_merge(_create({"nodeSelector": {"zone": "a"}})) == _patched([_add({"agentpool": "pool1", "zone": "a"})])
	_decide_merge(_create({"nodeSelector": {"agentpool": "pool1", "zone": "a"}})) == _untouched
	_decide_merge(_create({})) == _patched([_add({"agentpool": "pool1"})])
}

test_merge_refuses_another_value_of_an_assigned_key if {
	_decide_merge(_create({"nodeSelector": {"agentpool": "pool2", "zone": "a"}})) == _denied(`pod "web" sets spec.nodeSelector agentpool=pool2, but pool "pool1" of namespace "payments" requires agentpool=pool1: remove the key, or set the required value`)
}

_choosy := {
	"pool1": {
		"nodeSelector": {"disk": "ssd"},
		"tolerations": [],
		"allowedNodeSelector": {"zone": ["a", "b"], "arch": ["arm64"]},
	},
	"pool9": {"nodeSelector": {"disk": "hdd"}, "tolerations": [], "allowedNodeSelector": {}},
}

_decide_choosy(review) := decision if {
	decision := _decide_merge(review) with data.settings.pools as _choosy
}

test_a_pool_may_allow_certain_other_keys_and_values_only if {
	_decide_choosy(_create({"nodeSelector": {"zone": "b"}})) == _patched([_add({"disk": "ssd", "zone": "b"})])
	every selector, named in {{"zone": "c"}: "zone=c", {"zone": "a", "arch": "amd64", "os": "x"}: "arch=amd64, os=x"} {
		_decide_choosy(_create({"nodeSelector": selector})) == _denied(sprintf(
			`pod "web" sets spec.nodeSelector %s, which pool "pool1" of namespace "payments" does not allow: remove it, or use arch=arm64, zone=a, zone=b`,
			[named],
		))
	}
	_decide_choosy(_in("odd", _create({"nodeSelector": {"zone": "a"}}))) == _denied(`pod "web" sets spec.nodeSelector zone=a, which pool "pool9" of namespace "odd" does not allow: remove it, or use none`)
}

test_a_choosy_pool_accepts_its_own_key_and_names_a_conflict_once if {
	_decide_choosy(_create({"nodeSelector": {"disk": "ssd"}})) == _untouched
	_decide_choosy(_create({"nodeSelector": {"disk": "hdd"}})) == _denied(`pod "web" sets spec.nodeSelector disk=hdd, but pool "pool1" of namespace "payments" requires disk=ssd: remove the key, or set the required value`)
}

test_a_mirror_pod_may_have_what_its_pool_does_not_allow if {
	mirror := _mirror({"username": "system:node:n1", "groups": ["system:nodes"]})
	spec := {"nodeSelector": {"os": "x"}, "tolerations": [{"operator": "Exists"}]}
	_decide_choosy(object.union(mirror, {"request": {"object": {"spec": spec}}})) == _untouched
	decision := _decide(object.union(mirror, {"request": {"object": {"spec": spec}}}))
		with data.settings.pools as {"pool1": object.union(_choosy.pool1, {"allowedTolerations": []})}
	decision == _untouched
}

test_merge_reports_an_update_that_leaves_the_pool_once if {
	old := {"nodeSelector": {"agentpool": "pool1"}}
	_decide_merge(_update(old, {"nodeSelector": {"agentpool": "pool2"}})) == _denied(`pod "web" changes spec.nodeSelector so that it leaves pool "pool1" of namespace "payments": keep agentpool=pool1`)
}

test_an_undeclared_pool_is_the_only_reason_given if {
	count(_decide_pools(_in("odd", _create({"nodeName": "n1", "nodeSelector": {"zone": "a"}}))).deny) == 1
}

test_a_pods_own_label_is_ignored if {
	labelled := object.union(_create({}), {"request": {"object": {"metadata": {"labels": {"agentpool": "pool9"}}}}})
	_decide_pools(labelled).warn == set()
}

test_an_update_may_keep_a_key_that_is_not_allowed_but_not_add_one if {
	before := {"nodeSelector": {"disk": "ssd", "os": "x"}}
	_decide_choosy(_update(before, {"nodeSelector": {"disk": "ssd", "os": "x", "zone": "a"}})) == _untouched
	count(_decide_choosy(_update(before, {"nodeSelector": {"disk": "ssd", "os": "x", "zone": "c"}})).deny) == 1
}

test_an_update_that_keeps_the_selector_is_allowed if {
	every selector in [{}, null, {"agentpool": "pool1"}, {"agentpool": "pool2"}, {"zone": "a"}] {
		_decide(_update({"nodeSelector": selector}, {"nodeSelector": selector, "nodeName": "n1"})) == _untouched
	}
	_decide(_update({}, {"nodeSelector": {}})) == _untouched
}

test_an_update_may_tighten_within_the_pool if {
	every old in [{}, {"nodeSelector": {"agentpool": "pool1"}}] {
		_decide(_update(old, {"nodeSelector": {"agentpool": "pool1", "zone": "a"}})) == _untouched
	}
}

test_an_update_may_not_leave_the_pool if {
	every new in [{}, {"nodeSelector": {"agentpool": "pool2"}}, {"nodeSelector": {"zone": "a"}}] {
		_decide(_update({"nodeSelector": {"agentpool": "pool1"}}, new)) == _denied(`pod "web" changes spec.nodeSelector so that it leaves pool "pool1" of namespace "payments": keep agentpool=pool1`)
	}
}

test_a_namespace_without_a_pool_is_left_alone if {
	every namespace in ["free", "out"] {
		_decide(_in(namespace, _create({"nodeName": "n1", "nodeSelector": {"zone": "a"}}))) == _untouched
		_decide(_in(namespace, _update({}, {"nodeSelector": {"zone": "a"}}))) == _untouched
	}
}

test_the_default_pool_takes_unlabelled_namespaces_and_an_empty_label_opts_out if {
	_decide_default(_in("free", _create({}))) == _patched([_add({"agentpool": "pool0"})])
	_decide_default(_in("out", _create({}))) == _untouched
	_decide_default(_create({})) == _patched([_add({"agentpool": "pool1"})])
}

test_a_pod_of_an_unknown_namespace_is_refused_for_now if {
	every review in [_create({}), _update({}, {"nodeSelector": {"agentpool": "pool1"}})] {
		_decide(_in("new", review)) == _denied(`pod "web": namespace "new" is not known to the policy yet: retry in a moment`)
	}
	_decide(_in("new", _update({}, {}))) == _untouched
}

_mapped_only := {"env": {"FAIRLEAD_MAPPED_ONLY": "true"}}

test_without_lookups_a_pod_of_a_namespace_without_a_pool_is_refused_for_now if {
	every namespace in ["free", "out"] {
		message := sprintf(`pod "web": namespace %q is not known to the policy yet: retry in a moment`, [namespace])
		_decide(_in(namespace, _create({}))) == _denied(message) with opa.runtime as _mapped_only
		_decide(_in(namespace, _update({}, {}))) == _untouched with opa.runtime as _mapped_only
	}
	_decide(_create({})) == _patched([_add({"agentpool": "pool1"})]) with opa.runtime as _mapped_only
	_decide_default(_in("free", _create({}))) == _patched([_add({"agentpool": "pool0"})]) with opa.runtime as _mapped_only
	_decide_default(_in("out", _create({}))) == _denied(_unknown("out")) with opa.runtime as _mapped_only
}

_looks_up := {"env": {"FAIRLEAD_NAMESPACES_URL": "https://127.0.0.1:1/v1/namespaces", "FAIRLEAD_CA_FILE": "ca.crt"}}

_unknown(namespace) := sprintf(`pod "web": namespace %q is not known to the policy yet: retry in a moment`, [namespace])

_answers(labels) := {"status_code": 200, "body": {"metadata": {"labels": labels}}}

_hangs := {"status_code": 0}

# What is replicated as having no pool is older than the question: `free` is thin and lacks the label, `out` has it
# empty.
_stale := {
	"free": {"metadata": {"name": "free", "labels": {}, "absentLabels": ["agentpool"]}},
	"other": {"metadata": {"name": "other", "labels": {"other": "pool3"}}},
	"out": {"metadata": {"name": "out", "labels": {"agentpool": ""}}},
}

_decide_stale(review, default_pool, answer) := _but_note(decision) if {
	decision := node_pool.decision with input as review
		with data.kubernetes.namespaces as _stale
		with data.settings.default_pool as default_pool
		with opa.runtime as _looks_up
		with http.send as answer
}

test_a_namespace_replicated_without_a_pool_is_looked_up if {
	every namespace in ["free", "other", "out"] {
		_decide_stale(_in(namespace, _create({})), "", _answers({"agentpool": "pool2"})) == _patched([_add({"agentpool": "pool2"})])
	}
	every namespace in ["other", "out"] {
		_decide_stale(_in(namespace, _create({})), "pool0", _answers({})) == _patched([_add({"agentpool": "pool0"})])
	}
}

test_a_pod_is_refused_if_the_lookup_gets_no_answer if {
	every namespace in ["free", "other", "out", "new"] {
		every spec in [{}, {"nodeName": "n1"}, {"nodeSelector": {"zone": "a"}}] {
			_decide_stale(_in(namespace, _create(spec)), "", _hangs) == _denied(_unknown(namespace))
		}
	}
	every namespace in ["other", "out"] {
		_decide_stale(_in(namespace, _create({"nodeName": "n1"})), "pool0", _hangs) == _denied(_unknown(namespace))
	}
}

test_a_pod_is_left_alone_if_the_lookup_finds_no_pool if {
	every labels in [{}, {"agentpool": ""}] {
		_decide_stale(_in("out", _create({"nodeName": "n1"})), "", _answers(labels)) == _untouched
	}
	_decide_stale(_in("out", _create({})), "pool0", _answers({"agentpool": ""})) == _untouched
}

test_a_namespace_replicated_with_a_pool_is_not_looked_up if {
	_decide(_create({})) == _patched([_add({"agentpool": "pool1"})]) with opa.runtime as _looks_up
		with http.send as _answers({"agentpool": "pool2"})
	_decide_stale(_in("free", _create({})), "pool0", _answers({"agentpool": "pool2"})) == _patched([_add({"agentpool": "pool0"})])
}

test_a_declared_pool_gives_all_its_selector_and_tolerations if {
	selector := {"pool": "one", "disk": "ssd"}
	_decide_pools(_create({})) == _patched([
		_add(selector),
		{"op": "add", "path": "/spec/tolerations", "value": [_gpu, _spot]},
	])
	_decide_pools(_create({"tolerations": null})) == _decide_pools(_create({}))
	_decide_pools(_create({"nodeSelector": selector, "tolerations": [_spot, _gpu]})) == _untouched
}

test_the_pods_own_tolerations_are_kept if {
	_decide_pools(_create({"tolerations": [_spot]})) == _patched([
		_add({"pool": "one", "disk": "ssd"}),
		{"op": "add", "path": "/spec/tolerations/-", "value": _gpu},
	])
}

test_a_pool_that_is_not_declared_is_refused_with_the_list if {
	_decide_pools(_in("odd", _create({}))) == _denied(`namespace "odd" has agentpool=pool9, which is not a declared pool: relabel the namespace with one of pool1, pool2`)
	_decide_pools(_in("free", _create({}))) == _untouched
}

test_labelling_a_namespace_with_an_undeclared_pool_warns_at_once if {
	message := `agentpool=pool9 is not a declared pool, so every pod of namespace "payments" will be refused: use one of pool1, pool2`
	every review in [
		_labelled("CREATE", {}, {"agentpool": "pool9"}),
		_labelled("UPDATE", {"agentpool": "pool1"}, {"agentpool": "pool9"}),
	] {
		_decide_pools(review) == object.union(_untouched, {"warn": {message}})
		_decide(review) == _untouched
	}
}

test_other_labels_of_namespaces_do_not_warn if {
	every new in [{}, {"agentpool": ""}, {"agentpool": "pool2"}] {
		_decide_pools(_labelled("UPDATE", {}, new)) == _untouched
	}
	_decide_pools(_labelled("UPDATE", {"agentpool": "pool9"}, {"agentpool": "pool9", "team": "a"})) == _untouched
}

test_the_settings_name_other_labels if {
	decision := node_pool.decision with input as _create({})
		with data.kubernetes.namespaces as {"payments": {"metadata": {"labels": {"team/pool": "a"}}}}
		with data.settings.namespace_label as "team/pool"
		with data.settings.node_label as "node/pool"
	_but_note(decision) == _patched([_add({"node/pool": "a"})])
}

test_a_kind_pod_of_another_group_is_not_a_pod if {
	_decide(object.union(_create({"nodeName": "n1"}), {"request": {"kind": {"group": "acme.io"}}})) == _untouched
}

test_nothing_is_admitted_for_want_of_a_reason if {
	every review in [_create({"nodeName": "n1"}), _update({"nodeSelector": {}}, {"nodeSelector": {"agentpool": "pool2"}})] {
		decision := node_pool.decision with input as review
			with data.kubernetes.namespaces as {"payments": {"metadata": {"labels": {"agentpool": "pool1"}}}}
			with node_pool._refusals as set()
		decision == _denied(`pod "web" does not fit pool "pool1" of namespace "payments"`)
	}
}

test_an_unreadable_pod_is_refused if {
	every review in [
		_create("text"),
		json.remove(_create({}), ["request/object"]),
		json.remove(_create({}), ["request/namespace"]),
		_in("", _create({})),
		_in(7, _create({})),
		_create({"nodeSelector": "agentpool=pool1"}),
		_create({"nodeSelector": []}),
		_create({"tolerations": {}}),
		_create({"nodeName": ["n1"]}),
		_update("text", {}),
		_update({}, []),
		_update({}, {"nodeSelector": true}),
		_update({"nodeSelector": true}, {}),
		_update({"nodeSelector": true}, {"nodeSelector": true, "tolerations": [{"key": "a"}]}),
		json.remove(_update({}, {}), ["request/oldObject"]),
	] {
		every decision in [_decide(review), _decide_merge(review), _decide_restricted(review)] {
			count(decision.deny) > 0
			decision.patch == []
		}
	}
}

_decide_restricted(review) := decision if {
	decision := _decide_merge(review) with data.settings.pools as {"pool1": {
		"nodeSelector": {"agentpool": "pool1"},
		"tolerations": [],
		"allowedNodeSelector": {},
		"allowedTolerations": [],
	}}
}
