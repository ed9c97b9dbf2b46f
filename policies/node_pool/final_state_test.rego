# The note of what a new pod has after the decision, by which API servers know its final state.
package node_pool_final_state_test

import data.node_pool

_gpu := {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}

_seconds := {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}

_pools := {"pool1": {"nodeSelector": {"zone": "b", "disk": "ssd"}, "tolerations": [_gpu]}}

_key := "fairlead.dev/assigned"

_note := `{"nodeSelector":{"agentpool":"pool1"},"tolerations":[]}`

_new(annotations, spec) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "42",
		"operation": "CREATE",
		"kind": {"group": "", "version": "v1", "kind": "Pod"},
		"namespace": "payments",
		"object": {"metadata": {"name": "web", "annotations": annotations}, "spec": spec},
	},
}

_ungated(annotations) := object.union(_new(annotations, {}), {"request": {
	"operation": "UPDATE",
	"oldObject": {"metadata": {"annotations": annotations}, "spec": {"schedulingGates": [{"name": "a"}]}},
}})

_patch(review) := operations if {
	operations := node_pool.decision.patch with input as review
		with data.kubernetes.namespaces as {"payments": {"metadata": {"labels": {"agentpool": "pool1"}}}}
}

_placed := {"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": "pool1"}}

_added(value) := {"op": "add", "path": "/metadata/annotations/fairlead.dev~1assigned", "value": value}

test_a_new_pod_is_noted_with_what_it_then_has if {
	_patch(_new(null, {})) == [_placed, {"op": "add", "path": "/metadata/annotations", "value": {_key: _note}}]
	_patch(_new({"a": "b"}, {})) == [_placed, _added(_note)]
}

test_the_note_has_all_tolerations_and_is_the_same_json_each_time if {
	operations := _patch(_new({}, {"tolerations": [_seconds]})) with data.settings.pools as _pools
	note := `{"nodeSelector":{"disk":"ssd","zone":"b"},"tolerations":[{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300},{"effect":"NoSchedule","key":"gpu","operator":"Exists"}]}`
	operations[2] == _added(note)
}

test_a_pod_that_has_its_assignment_is_left_as_it_is if {
	_patch(_new({}, {"nodeSelector": {"agentpool": "pool1"}})) == []
	_patch(_new({_key: _note}, {"nodeSelector": {"agentpool": "pool1"}})) == []
}

test_a_note_that_came_with_the_pod_is_replaced if {
	every forged in [`{"nodeSelector":{"zone":"a"},"tolerations":[]}`, "", "{"] {
		_patch(_new({_key: forged}, {"nodeSelector": {"agentpool": "pool1"}})) == [_added(_note)]
		_patch(_new({_key: forged}, {})) == [_placed, _added(_note)]
	}
}

test_a_pod_with_very_much_has_no_note if {
	many := [{"key": sprintf("k%d", [number]), "operator": "Exists"} | some number in numbers.range(1, 100)]
	_patch(_new({}, {"tolerations": many})) == [_placed]
	_patch(_new({_key: _note}, {"tolerations": many})) == [_placed, {"op": "remove", "path": "/metadata/annotations/fairlead.dev~1assigned"}]
	count(_patch(_new({}, {"tolerations": array.slice(many, 0, 99)}))) == 2
}

test_an_object_without_room_for_a_note_has_none if {
	pod := _new([], {})
	_patch(pod) == [_placed]
	_patch(json.patch(pod, [{"op": "remove", "path": "request/object/metadata"}])) == [_placed]
	_patch(json.patch(pod, [{"op": "replace", "path": "request/object/metadata", "value": "web"}])) == [_placed]
}

test_an_update_is_not_noted if {
	every annotations in [{}, {_key: "{}"}] {
		_patch(_ungated(annotations)) == [_placed]
	}
}
