package signed_bundle_test

import data.signed_bundle

test_decides_by_bundles_without_an_end if {
	signed_bundle.main.response.allowed with data.system.bundles as _bundles({"signed": 1000})
		with input as _review
}

test_does_not_decide_by_a_bundle_from_before_the_time_that_counts if {
	_since("1000", {"signed": 1000})
	not _since("1001", {"signed": 1000})
	not _since("1001", {"signed": 1000, "expires": 2000})
}

test_does_not_decide_once_a_bundle_has_expired if {
	_at(1999, {"signed": 1000, "expires": 2000})
	not _at(2000, {"signed": 1000, "expires": 2000})
}

test_all_bundles_have_to_count if {
	both := {
		"policies": {"manifest": {"metadata": {"signed": 1000}}},
		"data": {"manifest": {"metadata": {"signed": 999}}},
	}
	signed_bundle.current with data.system.bundles as both
	not signed_bundle.current with data.system.bundles as both with opa.runtime as _labels("1000")
}

test_refuses_what_it_cannot_judge if {
	every metadata in [{}, {"signed": null}, {"expires": 2000}] {
		not signed_bundle.current with data.system.bundles as _bundles(metadata) with time.now_ns as 0
		signed_bundle.refused with data.system.bundles as _bundles(metadata) with time.now_ns as 0 with opa.runtime as _deciding
	}
	not signed_bundle.current with data.system.bundles as {}
	not signed_bundle.current with data.system.bundles as {"other": {"manifest": {"metadata": {"signed": 1000}}}}
	not _since("yesterday", {"signed": 1000})
}

test_not_refused_while_current if {
	not signed_bundle.refused with data.system.bundles as _bundles({"signed": 1000}) with opa.runtime as _deciding
}

test_not_refused_where_signed_bundles_do_not_decide if {
	not signed_bundle.refused with data.system.bundles as _bundles({})
	not signed_bundle.refused with data.system.bundles as _bundles({}) with opa.runtime as _labels("0")
}

_since(label, metadata) if {
	signed_bundle.main with data.system.bundles as _bundles(metadata)
		with opa.runtime as _labels(label)
		with time.now_ns as 1500 * 1000000000
		with input as _review
}

_at(seconds, metadata) if {
	signed_bundle.main with data.system.bundles as _bundles(metadata)
		with time.now_ns as seconds * 1000000000
		with input as _review
}

_bundles(metadata) := {"policies": {"manifest": {"metadata": metadata}}}

_deciding := {"config": {"default_decision": "signed_bundle/main"}}

_labels(since) := {"config": {"labels": {"bundles_signed_since": since}}}

_review := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "u",
		"operation": "CREATE",
		"kind": {"group": "fairlead.dev", "version": "v1", "kind": "Nothing"},
	},
}
