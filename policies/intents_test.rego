package intents_test

import data.intents

test_each_intent_decides_and_explains if {
	every name in intents.names {
		intents.decisions[name] with input as _review
		is_set(object.get(intents.explanations, name, set())) with input as _review
	}
}

_review := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {"uid": "42", "operation": "CREATE", "kind": {"group": "fairlead.dev", "version": "v1", "kind": "Nothing"}},
}
