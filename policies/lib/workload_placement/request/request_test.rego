package lib.workload_placement.request_test

import data.lib.workload_placement.request

_of(metadata) := {"resource": {"metadata": metadata}}

test_annotations_count_before_labels if {
	labels := {"customer": "by-label", "traffic": "1", "app": "web"}
	stated := request.stated with input as _of({"annotations": {"customer": "a", "traffic": null}, "labels": labels})
	stated == {"customer": "a", "traffic": "1"}
	every fields in [null, [], "x"] {
		request.stated == {} with input as _of({"annotations": fields, "labels": fields})
	}
}

test_namespaces_have_a_default if {
	request.namespace == "default" with input as _of({"name": "web"})
	request.application == "shop/web" with input as _of({"name": "web", "namespace": "shop"})
}

test_low_criticality if {
	request.is_uncritical with input as _of({"labels": {"criticality": "low"}})
	not request.is_uncritical with input as _of({"labels": {"criticality": "high"}})
}
