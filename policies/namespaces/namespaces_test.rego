package namespaces_test

import data.namespaces

_environment := {"env": {"FAIRLEAD_NAMESPACES_URL": "https://127.0.0.1:1/v1/namespaces", "FAIRLEAD_CA_FILE": "ca.crt"}}

_sidecar(request) := {"status_code": 200, "body": {"metadata": {"name": "new", "labels": {"agentpool": "pool2"}}}} if {
	request.url == "https://127.0.0.1:1/v1/namespaces/new"
	request.tls_ca_cert_file == "ca.crt"
} else := {"status_code": 404, "body": {}}

_no_sidecar(_) := {"status_code": 0}

test_a_replicated_namespace_is_not_asked_for if {
	labels := namespaces.labels("payments") with data.kubernetes.namespaces as {"payments": {"metadata": {"labels": {"a": "b"}}}}
		with http.send as _sidecar
	labels == {"a": "b"}
}

test_a_namespace_without_labels_has_none if {
	every namespace in [{"metadata": {}}, {"metadata": {"labels": null}}, {"metadata": {"labels": {}}}] {
		namespaces.labels("payments") == {} with data.kubernetes.namespaces as {"payments": namespace}
	}
}

test_a_namespace_not_replicated_is_asked_for if {
	labels := namespaces.labels("new") with data.kubernetes.namespaces as {}
		with opa.runtime as _environment
		with http.send as _sidecar
	labels == {"agentpool": "pool2"}
}

test_a_namespace_that_nobody_knows_is_undefined if {
	not namespaces.labels("gone") with data.kubernetes.namespaces as {}
		with opa.runtime as _environment
		with http.send as _sidecar
}

test_without_an_answer_it_is_undefined if {
	not namespaces.labels("new") with data.kubernetes.namespaces as {}
		with opa.runtime as _environment
		with http.send as _no_sidecar
}

test_without_a_sidecar_to_ask_it_is_undefined if {
	not namespaces.labels("new") with data.kubernetes.namespaces as {}
		with opa.runtime as {"env": {}}
		with http.send as _sidecar
}
