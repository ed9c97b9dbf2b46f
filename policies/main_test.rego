package system_test

import data.system

_review(request) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": object.union({"uid": "42", "operation": "CREATE", "namespace": "payments"}, request),
}

_pod(spec) := _review({"kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": {"metadata": {"name": "web"}, "spec": spec}})

_namespaces := {"payments": {"metadata": {"name": "payments", "labels": {"agentpool": "pool1"}}}}

_answer(response) := {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

_refusal := "pod \"web\" sets spec.nodeName=n1, but namespace \"payments\" places its pods in pool \"pool1\": remove spec.nodeName"

test_a_pod_is_patched if {
	answer := system.main with input as _pod({}) with data.kubernetes.namespaces as _namespaces
	answer == _answer({
		"uid": "42",
		"allowed": true,
		"patchType": "JSONPatch",
		"patch": base64.encode(`[{"op":"add","path":"/spec/nodeSelector","value":{"agentpool":"pool1"}},{"op":"add","path":"/metadata/annotations","value":{"fairlead.dev/assigned":"{\"nodeSelector\":{\"agentpool\":\"pool1\"},\"tolerations\":[]}"}}]`),
		"auditAnnotations": {"node-pool": "placed: pool1", "decisionUID": "42"},
	})
}

test_an_allowed_pod_gets_no_patch if {
	answer := system.main with input as _pod({"nodeSelector": {"agentpool": "pool1"}})
		with data.kubernetes.namespaces as _namespaces
	answer == _answer({"uid": "42", "allowed": true, "auditAnnotations": {"node-pool": "placed: pool1", "decisionUID": "42"}})
}

test_a_refusal_is_a_forbidden_status_without_a_patch if {
	answer := system.main with input as _pod({"nodeName": "n1"}) with data.kubernetes.namespaces as _namespaces
	answer == _answer({
		"uid": "42",
		"allowed": false,
		"auditAnnotations": {"node-pool": sprintf("refused: %s", [_refusal]), "decisionUID": "42"},
		"status": {"code": 403, "reason": "Forbidden", "message": _refusal},
	})
}

test_enforcement_warn_admits_unchanged_with_a_warning if {
	answer := system.main with input as _pod({"nodeName": "n1"})
		with data.kubernetes.namespaces as _namespaces
		with data.settings.enforcement as {"node-pool": "warn"}
	answer == _answer({
		"uid": "42",
		"allowed": true,
		"auditAnnotations": {"node-pool": sprintf("would be refused: %s", [_refusal]), "decisionUID": "42"},
		"warnings": [_refusal],
	})
}

test_enforcement_warn_still_places_pods if {
	answer := system.main with input as _pod({})
		with data.kubernetes.namespaces as _namespaces
		with data.settings.enforcement as {"node-pool": "warn"}
	answer.response.patchType == "JSONPatch"
}

test_an_intent_without_an_enforcement_entry_is_enforced if {
	answer := system.main with input as _pod({"nodeName": "n1"})
		with data.kubernetes.namespaces as _namespaces
		with data.settings.enforcement as {"other": "warn"}
	answer.response.allowed == false
}

test_the_audit_of_a_refused_request_does_not_say_that_another_intent_placed_it if {
	refused := {"deny": {"no"}, "patch": [], "warn": set()}
	placed := {"deny": set(), "patch": [], "warn": set()}
	answer := system.main with input as _pod({})
		with system._decisions as {"node-pool": placed, "other": refused}
		with data.node_pool.audit as "placed: pool1"
	answer.response.auditAnnotations == {"other": "refused: no", "decisionUID": "42"}
}

test_a_warning_of_one_intent_does_not_count_as_a_denial_of_another if {
	no := {"deny": {"no"}, "patch": [], "warn": set()}
	never := {"deny": {"never"}, "patch": [], "warn": set()}
	answer := system.main with input as _pod({})
		with system._decisions as {"node-pool": no, "other": never}
		with data.settings.enforcement as {"node-pool": "warn"}
	answer.response.warnings == ["no"]
	answer.response.status.message == "never"
}

test_enforcement_warn_does_not_admit_an_unreadable_review if {
	answer := system.main with input as {} with data.settings.enforcement as {"node-pool": "warn"}
	answer.response.allowed == false
}

test_the_answer_has_the_warnings_of_an_intent if {
	answer := system.main with input as _pod({}) with data.node_pool.decision as {"deny": set(), "patch": [], "warn": {"b", "a"}}
	answer == _answer({"uid": "42", "allowed": true, "warnings": ["a", "b"]})
}

test_the_message_joins_all_refusals_in_order if {
	answer := system.main with input as _pod({}) with data.node_pool.decision as {"deny": {"b", "a"}, "patch": [], "warn": set()}
	answer.response.status.message == "a; b"
}

test_a_refusal_names_the_contact if {
	answer := system.main with input as _pod({})
		with data.node_pool.decision as {"deny": {"no"}, "patch": [], "warn": set()}
		with data.settings.contact as "#platform on chat"
	answer.response.status.message == "no (ask #platform on chat)"
}

test_equal_requests_are_refused_with_the_same_text if {
	messages := {answer.response.status.message |
		some uid in ["42", "43"]
		review := object.union(_pod({"nodeName": "n1"}), {"request": {"uid": uid}})
		answer := system.main with input as review with data.kubernetes.namespaces as _namespaces
		answer.response.auditAnnotations.decisionUID == uid
	}
	messages == {_refusal}
}

test_a_request_that_no_intent_applies_to_is_allowed if {
	every request in [
		{"kind": {"group": "", "version": "v1", "kind": "Service"}},
		{"kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "DELETE"},
		{"kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CONNECT", "subResource": "exec"},
		{"kind": {"group": "", "version": "v1", "kind": "Pod"}, "subResource": "binding"},
	] {
		answer := system.main with input as _review(request)
		answer == _answer({"uid": "42", "allowed": true})
	}
}

test_there_is_no_answer_without_settings if {
	not system.main with input as _pod({}) with data.settings as {} with data.kubernetes.namespaces as _namespaces
}

test_there_is_no_answer_without_intents if {
	every kind in ["AdmissionReview", "ReducedReview"] {
		not system.main with input as object.union(_pod({}), {"kind": kind, "apiVersion": _versions[kind]}) with data.intents as {}
	}
}

_versions := {"AdmissionReview": "admission.k8s.io/v1", "ReducedReview": "fairlead.dev/v1"}

test_nothing_is_admitted_for_want_of_a_reason if {
	answer := system.main with input as {} with data.review.problems as set()
	answer == _answer({"uid": "", "allowed": false, "status": {
		"code": 403,
		"reason": "Forbidden",
		"message": "the review cannot be read",
	}})
}

test_an_input_that_is_not_a_review_is_denied if {
	every review in [
		null,
		"text",
		[],
		{},
		{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "42"}},
		{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
		{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": "text"},
		{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": 42}},
	] {
		answer := system.main with input as review
		answer.response.allowed == false
		answer.response.status.code == 403
		is_string(answer.response.uid)
	}
}

test_no_input_at_all_is_denied if {
	system.main == _answer({"uid": "", "allowed": false, "status": {
		"code": 403,
		"reason": "Forbidden",
		"message": "the review is not an AdmissionReview of admission.k8s.io/v1",
	}})
}

test_messages_quote_no_more_than_some_of_a_long_request if {
	long := concat("", ["n" | some _ in numbers.range(1, 5000)])
	refused := system.main with input as _pod({"nodeName": long}) with data.kubernetes.namespaces as _namespaces
	count(refused.response.status.message) == 4096 + count("...")
	count(refused.response.auditAnnotations["node-pool"]) == 4096 + count("...")
	admitted := system.main with input as _pod({"nodeName": long})
		with data.kubernetes.namespaces as _namespaces
		with data.settings.enforcement as {"node-pool": "warn"}
	[warning] := admitted.response.warnings
	count(warning) == 4096 + count("...")
}

test_the_second_list_that_intents_add_at_one_place_is_appended if {
	add := {"op": "add", "path": "/spec/initContainers", "value": [{"name": "a"}]}
	other := {"op": "add", "path": "/spec/initContainers", "value": [{"name": "b"}, {"name": "c"}]}
	kept := {"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": "pool1"}}
	answer := system.main with input as _pod({}) with system._decisions as {
		"one": {"deny": set(), "patch": [add], "warn": set()},
		"two": {"deny": set(), "patch": [kept, other], "warn": set()},
	}
	json.unmarshal(base64.decode(answer.response.patch)) == [
		add,
		kept,
		{"op": "add", "path": "/spec/initContainers/-", "value": {"name": "b"}},
		{"op": "add", "path": "/spec/initContainers/-", "value": {"name": "c"}},
	]
}

test_the_audit_of_two_intents_that_admit_the_request if {
	quiet := {"deny": set(), "patch": [], "warn": set()}
	answer := system.main with input as _pod({})
		with system._decisions as {"node-pool": quiet, "other": quiet}
		with data.intents.audits as {"node-pool": "placed: pool1", "other": ""}
	answer == _answer({"uid": "42", "allowed": true, "auditAnnotations": {"node-pool": "placed: pool1", "decisionUID": "42"}})
}

test_there_is_no_answer_without_an_object_as_decision if {
	every decision in [false, "text", null] {
		not system.main with input as _pod({}) with data.node_pool.decision as decision
	}
}

_too_large := concat("", [
	"it has more than 10000 entries in its lists and maps (env, args, labels, tolerations and all others), or more than 1000 ",
	"containers and volumes: Fairlead places no object of that size. Make it smaller, for example by envFrom or a mounted ",
	"ConfigMap",
])

# What OPA's plugin makes of the review of an object that is too large.
_reduced(kind, changes) := {
	"apiVersion": "fairlead.dev/v1",
	"kind": "ReducedReview",
	"changes": changes,
	"request": {
		"uid": "42",
		"operation": "CREATE",
		"namespace": "payments",
		"kind": kind,
		"object": {"metadata": {"name": "web"}},
	},
}

_reduced_pod := _reduced({"group": "", "version": "v1", "kind": "Pod"}, true)

test_an_object_that_is_too_large_is_refused if {
	every kind in [{"group": "", "version": "v1", "kind": "Pod"}, {"group": "apps", "version": "v1", "kind": "DaemonSet"}] {
		answer := system.main with input as _reduced(kind, true)
			with data.kubernetes.namespaces as _namespaces
			with data.settings.contact as "the platform team"
		answer == _answer({
			"uid": "42",
			"allowed": false,
			"auditAnnotations": {"node-pool": sprintf("refused: %s", [_too_large]), "decisionUID": "42"},
			"status": {
				"code": 403,
				"reason": "Forbidden",
				"message": sprintf("%s (ask the platform team)", [_too_large]),
			},
		})
	}
}

test_an_object_that_is_too_large_is_warned_of_with_enforcement_warn if {
	answer := system.main with input as _reduced_pod
		with data.kubernetes.namespaces as _namespaces
		with data.settings.enforcement as {"node-pool": "warn"}
	answer == _answer({
		"uid": "42",
		"allowed": true,
		"auditAnnotations": {"node-pool": sprintf("would be refused: %s", [_too_large]), "decisionUID": "42"},
		"warnings": [_too_large],
	})
}

test_what_changes_nothing_that_policies_judge_is_admitted_whatever_its_size if {
	answer := system.main with input as json.patch(_reduced(_reduced_pod.request.kind, false), [{
		"op": "replace",
		"path": "/request/operation",
		"value": "UPDATE",
	}])
		with data.kubernetes.namespaces as _namespaces
	answer == _answer({"uid": "42", "allowed": true})
}

test_a_reduced_review_that_does_not_say_whether_anything_changes_is_refused if {
	every operation in [{"op": "remove", "path": "/changes"}, {"op": "replace", "path": "/changes", "value": null}] {
		answer := system.main with input as json.patch(_reduced_pod, [operation]) with data.kubernetes.namespaces as _namespaces
		answer.response.allowed == false
	}
}

test_no_intent_that_only_warns_refuses_a_workload_for_its_size if {
	answer := system.main with input as _reduced({"group": "apps", "version": "v1", "kind": "Deployment"}, true)
		with data.kubernetes.namespaces as _namespaces
	answer == _answer({"uid": "42", "allowed": true})
}

test_a_deletion_is_not_refused_for_the_size_of_the_object if {
	answer := system.main with input as json.patch(_reduced_pod, [{"op": "replace", "path": "/request/operation", "value": "DELETE"}])
		with data.kubernetes.namespaces as _namespaces
	answer == _answer({"uid": "42", "allowed": true})
}

test_an_object_that_is_too_large_is_admitted_where_no_webhook_would_refuse_it if {
	every labels in [{}, {"agentpool": ""}] {
		answer := system.main with input as _reduced_pod
			with data.kubernetes.namespaces as {"payments": {"metadata": {"name": "payments", "labels": labels}}}
			with opa.runtime as {"env": {}}
		answer == _answer({"uid": "42", "allowed": true})
	}
	other := system.main with input as object.union(_reduced_pod, {"intents": ["another"]})
		with data.kubernetes.namespaces as _namespaces
	other == _answer({"uid": "42", "allowed": true})
}

test_an_object_that_is_too_large_is_refused_while_nobody_knows_its_namespace if {
	answer := system.main with input as _reduced_pod
		with data.kubernetes.namespaces as {}
		with opa.runtime as {"env": {}}
	answer.response.status.message == "namespace \"payments\" is not known to the policy yet: retry in a moment"
}

test_exempt_users_may_send_an_object_that_is_too_large if {
	answer := system.main with input as object.union(_reduced_pod, {"request": {"userInfo": {"username": "alice"}}})
		with data.kubernetes.namespaces as _namespaces
		with data.settings.exempt as {"node-pool": {"users": ["alice"], "groups": []}}
	answer == _answer({"uid": "42", "allowed": true})
}

test_a_reduced_review_that_cannot_be_read_is_denied if {
	answer := system.main with input as object.union(_reduced_pod, {"request": {"operation": "LOOK"}})
	answer.response.allowed == false
	answer.response.status.message == "request.operation is not one of CREATE, UPDATE, DELETE, CONNECT: cannot tell what is asked"
}
