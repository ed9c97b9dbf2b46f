package lib.transient_access_test

import data.lib.transient_access

# The windows of all parents here are from 1970-01-01T00:00:10Z to 1970-01-01T00:01:00Z.
_at(seconds) := seconds * 1000000000

_parent := {
	"kind": "TransientRoleBinding",
	"metadata": {"name": "night", "namespace": "shop", "uid": "u-1", "generation": 2},
	"spec": {
		"validFrom": "1970-01-01T00:00:10Z",
		"validUntil": "1970-01-01T00:01:00Z",
		"roleRef": {"kind": "Role", "name": "view"},
		"subjects": [{"kind": "User", "name": "alice"}],
	},
}

_binding := {
	"apiVersion": "rbac.authorization.k8s.io/v1",
	"kind": "RoleBinding",
	"metadata": {"name": "night", "namespace": "shop", "labels": {"controller-uid": "u-1"}},
	"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "view"},
	"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
}

_request(observed) := {"parent": _parent, "children": {"RoleBinding.rbac.authorization.k8s.io/v1": observed}}

_of(spec) := {"parent": object.union(_parent, {"spec": spec})}

_brief(answer) := [count(answer.children), effective.status, effective.reason, answer.resync_after_seconds] if {
	effective := answer.status.conditions[0]
	effective.type == "effective"
}

_answer(request, now) := _brief(answer) if {
	answer := {
		"children": transient_access.children,
		"status": transient_access.status,
		"resync_after_seconds": transient_access.resync_after_seconds,
	} with input as request with time.now_ns as now
}

test_a_whole_life if {
	_answer(_request({}), _at(9)) == [0, "False", "Pending", 1]
	_answer(_request({}), _at(10)) == [1, "False", "NotObserved", 1]
	there := _request({"night": _binding})
	_answer(there, _at(10)) == [1, "True", "Granted", 50]
	_answer(there, _at(60) - 1) == [1, "True", "Granted", 0.000000001]
	_answer(there, _at(60)) == [0, "True", "Ending", 1]
	_answer(_request({}), _at(60)) == [0, "False", "Expired", 0]
}

test_the_binding if {
	transient_access.children == [_binding] with input as _request({}) with time.now_ns as _at(20)
}

test_a_binding_of_other_subjects_is_replaced if {
	more := object.union(_binding, {"subjects": [{"kind": "User", "name": "alice"}, {"kind": "User", "name": "eve"}]})
	_answer(_request({"night": more}), _at(20)) == [1, "True", "Granted", 10]
	other := object.union(_binding, {"subjects": [{"kind": "User", "name": "eve"}]})
	_answer(_request({"night": other}), _at(20)) == [1, "False", "NotObserved", 10]
}

test_accounts_and_labels if {
	request := {
		"parent": object.union(_parent, {"spec": {
			"subjects": [
				{"kind": "ServiceAccount", "name": "robot"},
				{"kind": "ServiceAccount", "name": "robot", "namespace": "other"},
			],
			"selector": {"matchLabels": {"a": "b"}},
		}}),
		"controller": {"spec": {"generateSelector": false, "childResources": [{"apiVersion": "g/v2"}]}},
	}
	[binding] := transient_access.children with input as request with time.now_ns as _at(20)
	binding.apiVersion == "g/v2"
	binding.metadata.labels == {"a": "b"}
	binding.subjects == [
		{"kind": "ServiceAccount", "name": "robot", "namespace": "other"},
		{"kind": "ServiceAccount", "name": "robot", "namespace": "shop"},
	]
}

test_a_binding_without_labels if {
	request := {"parent": object.union(_parent, {"metadata": {"uid": ""}})}
	[binding] := transient_access.children with input as request with time.now_ns as _at(20)
	not binding.metadata.labels
	selected := object.union(request, {"controller": {"spec": {"generateSelector": false}}})
	[same] := transient_access.children with input as selected with time.now_ns as _at(20)
	not same.metadata.labels
}

test_a_cluster_role_binding if {
	request := {"parent": {
		"kind": "TransientClusterRoleBinding",
		"metadata": {"name": "night"},
		"validFrom": "1970-01-01T00:00:10Z",
		"validUntil": "1970-01-01T00:01:00Z",
		"roleRef": {"kind": "ClusterRole", "name": "view"},
		"subjects": [{"kind": "Group", "name": "ops"}],
	}}
	[binding] := transient_access.children with input as request with time.now_ns as _at(20)
	binding.kind == "ClusterRoleBinding"
	binding.metadata == {"name": "night"}
	role := object.union(request, {"parent": {"roleRef": {"kind": "Role"}}})
	status := transient_access.status with input as role with time.now_ns as _at(20)
	contains(status.conditions[1].message, "roleRef is not a role: it has a kind, one of ClusterRole, and")
}

test_mistakes if {
	every spec, message in {
		{"validFrom": null}: "spec.validFrom is missing",
		{"validFrom": "now"}: `spec.validFrom is "now", which is not a time of RFC 3339`,
		{"validUntil": "2016-12-31T23:59:60Z"}: "a leap second",
		{"validUntil": "1970-01-01T00:00:10Z"}: "access would end before it begins",
		{"needsApproval": "no"}: "spec.needsApproval is neither true nor false",
		{"roleRef": null}: "spec.roleRef is not a role",
		{"subjects": []}: "spec.subjects is not a list",
		{"subjects": [{"kind": "Robot"}]}: `spec.subjects: {"kind":"Robot"} is not a subject`,
		{"subjects": [1, 2, 3]}: "; 2 more have the same mistake",
		{"subjects": [{"kind": "ServiceAccount", "name": "A"}]}: "is not a subject",
	} {
		status := transient_access.status with input as _of(spec) with time.now_ns as _at(20)
		[effective, failed] := status.conditions
		effective.reason == "Invalid"
		failed.status == "True"
		contains(failed.message, message)
	}
	status := transient_access.status with input as {"parent": object.union(_parent, {"spec": "none"})}
	status.conditions[1].message == "spec is not an object"
}

test_long_values_are_cut if {
	long := concat("", [digit | some _ in numbers.range(1, 200); digit := "9"])
	status := transient_access.status with input as _of({"validFrom": long}) with time.now_ns as _at(20)
	contains(status.conditions[1].message, "9..., which is not a time")
}

test_the_last_transition_stays_until_the_next_one if {
	before := [
		{"type": "effective", "status": "False", "lastTransitionTime": "1970-01-01T00:00:01Z"},
		{"type": "failed", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"},
	]
	request := {"parent": object.union(_parent, {"status": {"conditions": before}})}
	status := transient_access.status with input as request with time.now_ns as _at(20)
	[condition.lastTransitionTime | some condition in status.conditions] == [
		"1970-01-01T00:00:01Z",
		"1970-01-01T00:00:20Z",
	]
	[condition.observedGeneration | some condition in status.conditions] == [2, 2]
}

test_approval if {
	waiting := {"parent": object.union(_parent, {"spec": {"needsApproval": true}})}
	_answer(waiting, _at(20)) == [0, "False", "NotApproved", 40]
	_answer(waiting, _at(60)) == [0, "False", "Expired", 0]
	approved := object.union(waiting, {"parent": {"approvedBy": "bob"}})
	_answer(approved, _at(20)) == [1, "False", "NotObserved", 10]
}

test_deletion if {
	finalizing := object.union(_request({}), {"finalizing": true})
	_answer(finalizing, _at(20)) == [0, "False", "Deleted", 0]
	transient_access.finalized with input as finalizing
	still := object.union(finalizing, {"children": {"a": {"b": _binding}}})
	_answer(still, _at(20)) == [0, "True", "Ending", 1]
	transient_access.finalized == false with input as still
	deleted := {"parent": object.union(_parent, {"metadata": {"deletionTimestamp": "1970-01-01T00:00:15Z"}})}
	_answer(deleted, _at(20)) == [0, "False", "Deleted", 0]
}

test_what_cannot_be_read_has_no_answer if {
	every request in [
		{},
		{"parent": {"kind": "Pod", "metadata": {"name": "a"}}},
		{"parent": {"kind": "TransientRoleBinding", "metadata": {"name": ""}}},
		{"parent": {"kind": "TransientRoleBinding", "metadata": "night"}},
		{"parent": {"kind": "TransientRoleBinding", "metadata": {"name": "a", "namespace": 1}}},
	] {
		_has_no_answer with input as request
	}
}

_has_no_answer if {
	is_string(transient_access.unreadable)
	not transient_access.children
	not transient_access.status
	not transient_access.resync_after_seconds
}
