package namespaces_test

import data.namespaces

_environment := {"env": {"FAIRLEAD_NAMESPACES_URL": "https://127.0.0.1:1/v1/namespaces", "FAIRLEAD_CA_FILE": "ca.crt"}}

_sidecar(request) := {"status_code": 200, "body": {"metadata": {"name": "new", "labels": {"agentpool": "pool2"}}}} if {
	request.url == "https://127.0.0.1:1/v1/namespaces/new"
	request.tls_ca_cert_file == "ca.crt"
} else := {"status_code": 404, "body": {}}

_no_sidecar(_) := {"status_code": 0} # regal ignore:argument-always-wildcard

test_a_replicated_label_is_as_it_was_replicated if {
	held := {"payments": {"metadata": {"labels": {"agentpool": "pool1", "empty": ""}}}}
	every env in [_environment, {"env": {}}] {
		namespaces.replicated("payments", "agentpool") == "pool1" with data.kubernetes.namespaces as held
			with opa.runtime as env
		namespaces.replicated("payments", "empty") == "" with data.kubernetes.namespaces as held
			with opa.runtime as env
	}
}

test_a_whole_namespace_without_the_label_lacks_it if {
	every metadata in [{}, {"labels": null}, {"labels": {}}, {"labels": {"team": "a"}}] {
		namespaces.replicated("payments", "agentpool") == null
			with data.kubernetes.namespaces as {"payments": {"metadata": metadata}}
			with opa.runtime as {"env": {}}
	}
}

test_a_thin_namespace_lacks_only_the_labels_that_it_lists if {
	thin := {"payments": {"metadata": {"name": "payments", "labels": {}, "absentLabels": ["agentpool"]}}}
	namespaces.replicated("payments", "agentpool") == null with data.kubernetes.namespaces as thin
		with opa.runtime as _environment
	not namespaces.replicated("payments", "team") with data.kubernetes.namespaces as thin
		with opa.runtime as _environment
}

test_a_missing_namespace_is_undefined if {
	every env in [_environment, {"env": {}}] {
		not namespaces.replicated("new", "agentpool") with data.kubernetes.namespaces as {}
			with opa.runtime as env
	}
}

test_a_look_up_gives_the_label_or_null if {
	namespaces.looked_up("new", "agentpool") == "pool2" with opa.runtime as _environment
		with http.send as _sidecar
	namespaces.looked_up("new", "team") == null with opa.runtime as _environment
		with http.send as _sidecar
}

test_a_namespace_unknown_to_the_sidecar_is_undefined if {
	not namespaces.looked_up("gone", "agentpool") with opa.runtime as _environment
		with http.send as _sidecar
}

test_a_failed_lookup_is_undefined if {
	not namespaces.looked_up("new", "agentpool") with opa.runtime as _environment
		with http.send as _no_sidecar
}

test_a_lookup_without_a_sidecar_is_undefined if {
	not namespaces.looked_up("new", "agentpool") with opa.runtime as {"env": {}}
		with http.send as _sidecar
}

test_the_environment_shows_who_asks_and_whether_there_are_lookups if {
	namespaces.can_look_up with opa.runtime as _environment
	not namespaces.can_look_up with opa.runtime as {"env": {}}
}

test_only_mapped_namespaces_are_asked_about_unless_another_intent_is_asked_about_all if {
	namespaces.mapped_only with input as _pod with opa.runtime as _mapped_only
	not namespaces.mapped_only with input as _pod with opa.runtime as _environment
	not namespaces.mapped_only with input as _pod
		with opa.runtime as _mapped_only
		with data.intents.requests as {"CREATE": {"/Pod": {"node-pool": [[]], "other": [[]]}}}
	namespaces.mapped_only with input as object.union(_pod, {"intents": ["node-pool"]})
		with opa.runtime as _mapped_only
		with data.intents.requests as {"CREATE": {"/Pod": {"node-pool": [[]], "other": [[]]}}}
}

_mapped_only := {"env": {"FAIRLEAD_MAPPED_ONLY": "true"}}

_pod := {"request": {"operation": "CREATE", "kind": {"group": "", "kind": "Pod"}}}
