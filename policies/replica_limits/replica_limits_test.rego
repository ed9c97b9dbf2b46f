package replica_limits_test

import data.replica_limits

_parameters := {"replica_limits": {
	"ranges": [{"min_replicas": 3, "max_replicas": 10}, {"min_replicas": 20, "max_replicas": 2147483647}],
	"autoscalers": true,
}}

_deny(request) := deny if {
	deny := replica_limits.deny with data.settings.parameters as _parameters with input as {"request": request}
}

_workload(kind, spec) := {
	"operation": "CREATE",
	"kind": {"group": "apps", "version": "v1", "kind": kind},
	"resource": {"group": "apps", "version": "v1", "resource": sprintf("%ss", [lower(kind)])},
	"object": {"metadata": {"name": "web"}, "spec": spec},
}

test_numbers_within_a_range_are_admitted if {
	every kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
		every number in [3, 10, 20, 2147483647] { _deny(_workload(kind, {"replicas": number})) == set() }
	}
}

test_other_numbers_are_refused if {
	every number in [0, 2, 11, 19] {
		deny := _deny(_workload("Deployment", {"replicas": number}))
		deny == {sprintf(`deployment "web": replicas %d is not within 3..10 or 20 or more: set spec.replicas to one of these numbers`, [number])}
	}
}

test_an_unset_number_counts_as_one if {
	every spec in [{}, {"replicas": null}] {
		some message in _deny(_workload("StatefulSet", spec))
		startswith(message, `statefulset "web": replicas 1 is not within`)
	}
}

test_an_owner_reference_changes_nothing if {
	every kind in ["ReplicaSet", "StatefulSet"] {
		request := _workload(kind, {"replicas": 1})
		count(_deny(_owned(request, {"apiVersion": "apps/v1", "kind": "Deployment", "controller": true}))) == 1
		count(_deny(request)) == 1
	}
}

test_a_replication_controller_is_limited if {
	core := {
		"kind": {"group": "", "version": "v1", "kind": "ReplicationController"},
		"resource": {"group": "", "version": "v1", "resource": "replicationcontrollers"},
	}
	request := object.union(_workload("ReplicationController", {"replicas": 11}), core)
	_deny(request) == {`replicationcontroller "web": replicas 11 is not within 3..10 or 20 or more: set spec.replicas to one of these numbers`}
	_deny(object.union(request, {"object": {"spec": {"replicas": 10}}})) == set()
	resource := {"resource": {"group": "", "version": "v1", "resource": "replicationcontrollers"}}
	count(_deny(object.union(_scale({"replicas": 11}, "replicationcontrollers"), resource))) == 1
}

_owned(request, owner) := object.union(request, {"object": {"metadata": {"ownerReferences": [owner]}}})

test_other_kinds_and_their_scales_are_left_alone if {
	_deny(_workload("DaemonSet", {"replicas": 1})) == set()
	_deny(_scale({"replicas": 11}, "databases")) == set()
}

test_a_status_is_left_alone if {
	_deny(object.union(_workload("Deployment", {"replicas": 1}), {"subResource": "status"})) == set()
}

test_a_range_of_one_number_and_one_without_an_end_are_shown_so if {
	deny := replica_limits.deny with input as {"request": _workload("Deployment", {"replicas": 2})}
		with data.settings.parameters as {"replica_limits": {
			"ranges": [{"min_replicas": 0, "max_replicas": 0}, {"min_replicas": 3, "max_replicas": 2147483647}],
			"autoscalers": false,
		}}
	deny == {`deployment "web": replicas 2 is not within 0 or 3 or more: set spec.replicas to one of these numbers`}
}

test_an_update_matters_if_it_changes_the_number if {
	_deny(_updated(_workload("Deployment", {"replicas": 1}), {"spec": {"replicas": 1}})) == set()
	_deny(_updated(_workload("Deployment", {}), {"spec": {"replicas": 1}})) == set()
	count(_deny(_updated(_workload("Deployment", {"replicas": 1}), {"spec": {"replicas": 3}}))) == 1
}

_updated(request, before) := object.union(request, {"operation": "UPDATE", "oldObject": before})

_scale(spec, resource) := {
	"operation": "UPDATE",
	"subResource": "scale",
	"kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
	"resource": {"group": "apps", "version": "v1", "resource": resource},
	"object": {"metadata": {"name": "web"}, "spec": spec},
	"oldObject": {"metadata": {"name": "web"}, "spec": {"replicas": 5}},
}

test_scaling_is_limited if {
	_deny(_scale({"replicas": 4}, "deployments")) == set()
	some message in _deny(_scale({"replicas": 11}, "deployments"))
	startswith(message, `deployment "web": replicas 11 is not within 3..10`)
	every spec in [{}, {"replicas": null}] {
		some zero in _deny(_scale(spec, "statefulsets"))
		startswith(zero, `statefulset "web": replicas 0 is not within 3..10`)
	}
	_deny(object.union(_scale({}, "replicasets"), {"oldObject": {"spec": {"replicas": 0}}})) == set()
}

_autoscaler(spec) := {
	"operation": "CREATE",
	"kind": {"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"},
	"resource": {"group": "autoscaling", "version": "v2", "resource": "horizontalpodautoscalers"},
	"object": {"metadata": {"name": "web"}, "spec": spec},
}

test_the_bounds_of_an_autoscaler_are_within_one_range if {
	_deny(_autoscaler({"minReplicas": 3, "maxReplicas": 10})) == set()
	_deny(_autoscaler({"maxReplicas": 10})) == {`horizontalpodautoscaler "web": minReplicas 1 is not within 3..10 or 20 or more: set spec.minReplicas to one of these numbers`}
	some message in _deny(_autoscaler({"minReplicas": 3, "maxReplicas": 20}))
	contains(message, "minReplicas 3 and maxReplicas 20 are not within the same range of 3..10 or 20 or more")
}

test_an_update_of_an_autoscaler_matters_if_it_changes_a_bound if {
	request := _autoscaler({"minReplicas": 1, "maxReplicas": 10})
	_deny(_updated(request, {"spec": {"maxReplicas": 10}})) == set()
	count(_deny(_updated(request, {"spec": {"maxReplicas": 9}}))) == 1
}

test_autoscalers_are_left_alone_unless_the_parameters_say_so if {
	deny := replica_limits.deny with input as {"request": _autoscaler({"maxReplicas": 1})}
		with data.settings.parameters as {"replica_limits": {"ranges": [{"min_replicas": 3, "max_replicas": 10}], "autoscalers": false}}
	deny == set()
}

test_the_decision_only_refuses if {
	decision := replica_limits.decision with data.settings.parameters as _parameters
		with input as {"request": _workload("Deployment", {"replicas": 3})}
	decision == {"deny": set(), "patch": [], "warn": set()}
}
