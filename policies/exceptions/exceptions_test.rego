package exceptions_test

import data.exceptions

_exception(objects, until) := {"payments": {"import": {
	"metadata": {"name": "import", "namespace": "payments"},
	"spec": {"intents": ["node-pool", "run-as-user"], "objects": objects, "until": until},
}}}

_by_intent(request, replicated) := by_intent if {
	by_intent := exceptions.by_intent with input as {"request": object.union(
		{
			"operation": "CREATE",
			"namespace": "payments",
			"resource": {"group": "", "version": "v1", "resource": "pods"},
			"object": {"metadata": {"name": "web"}},
		},
		request,
	)}
		with data.kubernetes.policyexceptions as replicated
		with time.now_ns as time.parse_rfc3339_ns("2026-11-29T12:00:00Z")
}

_later := "2026-11-29T12:00:01Z"

_both := {"node-pool": {"import"}, "run-as-user": {"import"}}

test_an_exception_is_about_its_intents_until_its_end if {
	every objects in [{"names": ["web"]}, {"names": ["db", "w*"]}, {"names": ["*"], "resources": ["pods"]}] {
		_by_intent({}, _exception(objects, _later)) == _both
		_by_intent({}, _exception(objects, "2026-11-29T12:00:00Z")) == {}
	}
}

test_an_exception_is_about_its_namespace_names_and_resources_alone if {
	every objects in [{"names": ["we", "web-*", "WEB"]}, {"names": ["*"], "resources": ["deployments"]}] {
		_by_intent({}, _exception(objects, _later)) == {}
	}
	every request in [{"namespace": "shop"}, {"namespace": null}, {"resource": {"resource": "deployments"}}, {"resource": null}] {
		_by_intent(request, _exception({"names": ["*"], "resources": ["pods"]}, _later)) == {}
	}
	_by_intent({}, _exception({"names": ["*"]}, "soon")) == {}
	_by_intent({}, {}) == {}
}

test_an_exception_is_about_generated_names_and_names_of_the_request if {
	web := _exception({"names": ["web-*"]}, _later)
	every request in [
		{"object": {"metadata": {"name": null, "generateName": "web-"}}},
		{"object": {"metadata": {"name": "web-5bcdf", "generateName": "web-"}}},
		{"name": "web-1", "object": {"metadata": {"name": null}}},
		{"name": "web-1", "operation": "DELETE", "object": null},
	] {
		_by_intent(request, web) == _both
	}
	_by_intent({"object": {"metadata": {"name": null, "generateName": "web"}}}, web) == {}
	_by_intent({"object": {"metadata": {"name": null}}}, web) == {}
}
