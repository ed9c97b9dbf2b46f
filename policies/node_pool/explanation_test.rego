package node_pool_explanation_test

import data.node_pool

_review(request) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": object.union(
		{
			"uid": "42",
			"operation": "CREATE",
			"kind": {"group": "", "kind": "Pod"},
			"namespace": "payments",
			"object": {"metadata": {"name": "web"}, "spec": {}},
		},
		request,
	),
}

_explain(request) := explanation if {
	explanation := node_pool.explanation with input as _review(request)
		with data.kubernetes.namespaces as {
			"payments": {"metadata": {"labels": {"agentpool": "pool1"}}},
			"free": {"metadata": {"labels": {}}},
		}
}

_mapped := {
	`namespace "payments" belongs to pool "pool1" by its label agentpool`,
	`pool "pool1" gives nodeSelector agentpool=pool1 and 0 tolerations`,
}

test_a_single_toleration if {
	`pool "pool1" gives nodeSelector agentpool=pool1 and 1 toleration` in _explain({}) with data.settings.pools as {"pool1": {
		"nodeSelector": {"agentpool": "pool1"},
		"tolerations": [{"key": "gpu", "operator": "Exists"}],
	}}
}

test_a_mapped_namespace if {
	_explain({}) == _mapped
}

test_a_pod_that_is_placed_already if {
	explanation := _explain({"object": {"spec": {"nodeSelector": {"agentpool": "pool1"}}}})
	explanation == _mapped | {"the pod already has the whole assignment"}
}

test_a_namespace_without_a_pool if {
	_explain({"namespace": "free"}) == {`namespace "free" has no pool: its pods are left alone`}
}

test_the_default_pool if {
	explanation := _explain({"namespace": "free"}) with data.settings.default_pool as "pool0"
	explanation == {
		`namespace "free" has no label agentpool: the default pool "pool0"`,
		`pool "pool0" gives nodeSelector agentpool=pool0 and 0 tolerations`,
	}
}

test_an_update_that_moves_nothing if {
	_explain({"operation": "UPDATE", "oldObject": {"spec": {}}}) == {"the update does not change spec.nodeSelector: left alone"}
}

test_a_mirror_pod if {
	_explain({
		"object": {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {"nodeName": "n1"}},
		"userInfo": {"username": "system:node:n1", "groups": ["system:nodes"]},
	}) == {"a mirror pod that its node created: left alone"}
}

test_a_request_that_the_intent_does_not_apply_to if {
	_explain({"kind": {"group": "", "kind": "Service"}}) == {"node-pool does not apply to a CREATE of kind Service"}
}

test_a_template if {
	explanation := _explain({
		"kind": {"group": "apps", "kind": "Deployment"},
		"object": {"spec": {"template": {"spec": {}}}},
	})
	explanation == _mapped | {"node-pool changes only the pods of a Deployment"}
}

test_an_update_of_a_template_that_changes_nothing if {
	_explain({
		"operation": "UPDATE",
		"kind": {"group": "apps", "kind": "DaemonSet"},
		"object": {"spec": {"template": {"spec": {}}}},
		"oldObject": {"spec": {"template": {"spec": {}}}},
	}) == {"the update does not change the template: left alone"}
}
