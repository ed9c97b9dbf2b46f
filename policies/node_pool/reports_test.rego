package node_pool_reports_test

import data.node_pool

_pod(namespace, operation, spec) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "42",
		"operation": operation,
		"kind": {"group": "", "version": "v1", "kind": "Pod"},
		"namespace": namespace,
		"object": {"metadata": {"name": "web"}, "spec": spec},
		"oldObject": {"metadata": {"name": "web"}, "spec": {}},
	},
}

_namespaces := {
	"payments": {"metadata": {"name": "payments", "labels": {"agentpool": "pool1"}}},
	"free": {"metadata": {"name": "free"}},
}

_told(review) := {"audit": audit, "placement": placement} if {
	audit := node_pool.audit with input as review with data.kubernetes.namespaces as _namespaces
	placement := node_pool.placement with input as review with data.kubernetes.namespaces as _namespaces
}

_pool1 := {"pool": "pool1", "nodeSelector": {"agentpool": "pool1"}}

test_the_audit_names_the_pool_of_a_placed_pod if {
	every review in [
		_pod("payments", "CREATE", {}),
		_pod("payments", "UPDATE", {"nodeSelector": {"agentpool": "pool1"}}),
	] {
		_told(review) == {"audit": "placed: pool1", "placement": _pool1}
	}
}

test_the_audit_is_empty_if_the_intent_does_not_apply if {
	every review in [
		_pod("free", "CREATE", {}),
		_pod("payments", "UPDATE", {}),
		_pod("payments", "CREATE", "unreadable"),
	] {
		not _told(review)
		audit := node_pool.audit with input as review with data.kubernetes.namespaces as _namespaces
		audit == ""
	}
}

test_a_pool_that_is_not_declared_has_no_nodes if {
	told := _told(_pod("payments", "CREATE", {})) with data.settings.pools as {"pool2": {"nodeSelector": {}, "tolerations": []}}
	told == {"audit": "", "placement": {"pool": "pool1", "nodeSelector": {}}}
}
