package node_pool_incoming_test

import data.node_pool

_workloads := {
	"ReplicationController": "",
	"DaemonSet": "apps",
	"Deployment": "apps",
	"ReplicaSet": "apps",
	"StatefulSet": "apps",
	"Job": "batch",
	"CronJob": "batch",
}

_others := {kind: group | some kind, group in _workloads; kind != "DaemonSet"}

_holding("CronJob", spec) := {"jobTemplate": {"spec": {"template": {"spec": spec}}}}

_holding(kind, spec) := {"template": {"spec": spec}} if kind != "CronJob"

_create(kind, spec) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "42",
		"operation": "CREATE",
		"kind": {"group": _workloads[kind], "version": "v1", "kind": kind},
		"namespace": "payments",
		"object": {"metadata": {"name": "web"}, "spec": _holding(kind, spec)},
	},
}

_update(kind, old, new) := object.union(_create(kind, new), {"request": {
	"operation": "UPDATE",
	"oldObject": {"metadata": {"name": "web"}, "spec": _holding(kind, old)},
}})

_with(review, metadata) := object.union(review, {"request": {"object": {"metadata": metadata}}})

_in(namespace, review) := object.union(review, {"request": {"namespace": namespace}})

_decide(review) := decision if {
	decision := node_pool.decision with input as review with data.kubernetes.namespaces as {
		"payments": {"metadata": {"labels": {"agentpool": "pool1"}}},
		"free": {"metadata": {"labels": {}}},
	}
}

_untouched := {"deny": set(), "patch": [], "warn": set()}

_warned(message) := object.union(_untouched, {"warn": {message}})

_placed := object.union(_untouched, {"patch": [{
	"op": "add",
	"path": "/spec/template/spec/nodeSelector",
	"value": {"agentpool": "pool1"},
}]})

_controlled := {"ownerReferences": [{"kind": "Any", "controller": true}]}

test_a_daemon_sets_template_gets_the_assignment if {
	every review in [
		_create("DaemonSet", {}),
		_create("DaemonSet", {"nodeSelector": null}),
		_with(_create("DaemonSet", {}), _controlled),
	] {
		_decide(review) == _placed
	}
	_decide(_create("DaemonSet", {"nodeSelector": {"agentpool": "pool1"}})) == _untouched
}

test_a_daemon_sets_template_gets_tolerations if {
	gpu := {"key": "gpu", "operator": "Exists"}
	pools := {"pool1": {"nodeSelector": {"agentpool": "pool1"}, "tolerations": [gpu]}}
	path := "/spec/template/spec/tolerations"
	one := _decide(_create("DaemonSet", {"nodeSelector": {"agentpool": "pool1"}})) with data.settings.pools as pools
	one.patch == [{"op": "add", "path": path, "value": [gpu]}]
	other := _decide(_create("DaemonSet", {"tolerations": [{"key": "a"}]})) with data.settings.pools as pools
	other.patch[1] == {"op": "add", "path": concat("/", [path, "-"]), "value": gpu}
}

test_other_templates_are_left_as_they_are if {
	every kind, _ in _others {
		_decide(_create(kind, {})) == _untouched
		_decide(_update(kind, {"nodeName": "n1"}, {})) == _untouched
	}
}

test_a_template_whose_pods_will_be_refused_is_admitted_with_a_warning if {
	every kind, _ in _workloads {
		warned := _warned(sprintf(
			`every pod of %s "web" will be refused: its template sets spec.nodeName=n1, but namespace "payments" places its pods in pool "pool1": remove spec.nodeName`,
			[kind],
		))
		_decide(_create(kind, {"nodeName": "n1"})) == warned
		_decide(_update(kind, {}, {"nodeName": "n1"})) == warned
	}
	_decide(_create("DaemonSet", {"nodeSelector": {"zone": "a"}})) == _warned(`every pod of DaemonSet "web" will be refused: its template sets spec.nodeSelector zone=a, but namespace "payments" places its pods in pool "pool1": remove spec.nodeSelector, or set just agentpool=pool1`)
}

test_an_undeclared_pool_is_warned_of if {
	decision := _decide(_create("Job", {})) with data.settings.pools as {"pool2": {"nodeSelector": {}, "tolerations": []}}
	decision == _warned(`every pod of Job "web" will be refused: namespace "payments" has agentpool=pool1, which is not a declared pool: relabel the namespace with one of pool2`)
}

test_the_warning_says_would_if_enforcement_is_warn if {
	decision := _decide(_create("Job", {"nodeName": "n1"})) with data.settings.enforcement as {"node-pool": "warn"}
	{startswith(message, `every pod of Job "web" would be refused: `) | some message in decision.warn} == {true}
}

test_an_update_that_keeps_the_template_is_left_alone if {
	every kind, _ in _workloads {
		every spec in [{}, {"nodeName": "n1"}, {"nodeSelector": {"zone": "a"}}] {
			_decide(_with(_update(kind, spec, spec), {"labels": {"a": "b"}})) == _untouched
		}
	}
}

test_a_daemon_set_from_before_is_placed_when_its_template_changes if {
	_decide(_update("DaemonSet", {}, {"hostNetwork": true})) == _placed
	restarted := [{"op": "add", "path": "/request/object/spec/template/metadata", "value": {"annotations": {"at": "now"}}}]
	decision := _decide(json.patch(_update("DaemonSet", {}, {}), restarted))
	decision.patch[0] == _placed.patch[0]
}

test_an_owner_reference_changes_nothing if {
	every kind, _ in _others {
		count(_decide(_with(_create(kind, {"nodeName": "n1"}), _controlled)).warn) == 1
		count(_decide(_with(_update(kind, {}, {"nodeName": "n1"}), _controlled)).warn) == 1
	}
}

test_a_namespace_without_a_pool_is_left_alone if {
	every kind, _ in _workloads {
		_decide(_in("free", _create(kind, {"nodeName": "n1"}))) == _untouched
	}
}

test_only_objects_that_get_the_assignment_are_refused_in_an_unknown_namespace if {
	_decide(_in("new", _create("DaemonSet", {}))) == object.union(_untouched, {"deny": {`DaemonSet "web": namespace "new" is not known to the policy yet: retry in a moment`}})
	every kind, _ in _others {
		_decide(_in("new", _create(kind, {}))) == _untouched
	}
}

test_an_unreadable_template_is_refused_if_it_would_get_the_assignment if {
	every kind, _ in _workloads {
		every review in [
			_create(kind, "text"),
			_create(kind, {"nodeSelector": "agentpool=pool1"}),
			json.remove(_create(kind, {}), ["request/object"]),
			json.remove(_create(kind, {}), ["request/object/spec"]),
			json.remove(_update(kind, {}, {"nodeName": "n1"}), ["request/oldObject"]),
		] {
			decision := _decide(review)
			decision.patch == []
			decision.warn == set()
			refused := count(decision.deny) > 0
			placed := kind == "DaemonSet"
			refused == placed
		}
	}
}
