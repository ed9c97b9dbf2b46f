package scope_test

import data.scope

_requests := {
	"CREATE": {
		"/Pod": {
			"everywhere": [[]],
			"only-shop": [[{"key": "team", "operator": "In", "values": ["shop"]}]],
			"not-infra": [[{"key": "team", "operator": "NotIn", "values": ["infra"]}]],
			"any-team": [[{"key": "team", "operator": "Exists"}]],
			"no-team": [[{"key": "team", "operator": "DoesNotExist"}]],
			"by-name": [[{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["payments"]}]],
			"either": [
				[{"key": "team", "operator": "In", "values": ["shop"]}],
				[{"key": "tier", "operator": "In", "values": ["front"]}],
			],
			"both": [[
				{"key": "team", "operator": "In", "values": ["shop"]},
				{"key": "tier", "operator": "In", "values": ["front"]},
			]],
		},
		"/Namespace": {"only-shop": [[{"key": "team", "operator": "In", "values": ["shop"]}]]},
		"rbac.authorization.k8s.io/ClusterRole": {"not-infra": [[{"key": "team", "operator": "NotIn", "values": ["infra"]}]]},
	},
	"UPDATE": {"apps/Deployment/scale": {"everywhere": [[]]}},
}

_review(request) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": object.union({"uid": "42", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"}}, request),
}

_in_payments := _review({"namespace": "payments", "object": {"metadata": {"name": "web"}}})

_replicated(labels) := {"payments": {"metadata": {"name": "payments", "labels": labels}}}

_sidecar := {"env": {"FAIRLEAD_NAMESPACES_URL": "https://sidecar", "FAIRLEAD_CA_FILE": "ca.crt"}}

_found(labels) := {"status_code": 200, "body": {"metadata": {"name": "payments", "labels": labels}}}

_nothing := {"status_code": 404, "body": {}}

_concerned(replicated, current) := concerned if {
	concerned := scope.concerned with input as _in_payments
		with data.intents.requests as _requests
		with data.kubernetes.namespaces as replicated
		with opa.runtime as _sidecar
		with http.send as current
}

_unclear(replicated, current) := unclear if {
	unclear := scope.unclear with input as _in_payments
		with data.intents.requests as _requests
		with data.kubernetes.namespaces as replicated
		with opa.runtime as _sidecar
		with http.send as current
}

test_each_operator if {
	_concerned(_replicated({"team": "shop"}), _nothing) == {
		"everywhere", "only-shop", "not-infra", "any-team", "by-name", "either",
	}
	labels := {"team": "infra", "tier": "front"}
	_concerned(_replicated(labels), _found(labels)) == {"everywhere", "any-team", "by-name", "either"}
	_concerned({}, _found({})) == {"everywhere", "not-infra", "no-team", "by-name"}
	labels2 := {"team": "shop", "tier": "front"}
	_concerned(_replicated(labels2), _found(labels2)) == {
		"everywhere", "only-shop", "not-infra", "any-team", "by-name", "either", "both",
	}
}

test_old_replicated_labels_do_not_take_an_intent_away if {
	concerned := _concerned(_replicated({"team": "infra"}), _found({"team": "shop"}))
	{"not-infra", "only-shop"} & concerned == {"not-infra", "only-shop"}
}

test_an_intent_is_unclear_while_nobody_knows_the_namespace if {
	_concerned({}, _nothing) == {"everywhere", "by-name"}
	_unclear({}, _nothing) == {"only-shop", "not-infra", "any-team", "no-team", "either", "both"}
}

test_another_name_excludes_a_namespace_whether_anybody_knows_it_or_not if {
	every sidecar in [_sidecar, {"env": {}}] {
		unclear := scope.unclear with data.intents.requests as {"CREATE": {"/Pod": {"by-name": [[_named]]}}}
			with input as object.union(_in_payments, {"request": {"namespace": "shop"}})
			with opa.runtime as sidecar
			with http.send as _nothing
		unclear == set()
	}
}

_named := {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["payments"]}

test_nothing_is_unclear_about_a_namespace_that_the_sidecar_knows if {
	_unclear({}, _found({"team": "infra"})) == set()
}

test_without_lookups_the_replicated_labels_decide if {
	concerned := scope.concerned with input as _in_payments
		with data.intents.requests as _requests
		with data.kubernetes.namespaces as _replicated({"team": "infra"})
	concerned == {"everywhere", "any-team", "by-name"}
	unclear := scope.unclear with input as _in_payments
		with data.intents.requests as _requests
		with data.kubernetes.namespaces as _replicated({"team": "infra"})
	unclear == set()
	unknown := scope.unclear with input as _in_payments
		with data.intents.requests as _requests
		with data.kubernetes.namespaces as {}
	unknown == {"only-shop", "not-infra", "any-team", "no-team", "either", "both"}
}

test_a_namespace_is_selected_by_the_labels_that_it_gets if {
	_of_namespace("CREATE", {"labels": {"team": "shop"}}, {}) == {"only-shop"}
	_of_namespace("CREATE", {"labels": {"team": "infra"}}, {"team": "shop"}) == set()
	_of_namespace("CREATE", {}, {"team": "shop"}) == set()
	_of_namespace("CREATE", {"labels": null}, {"team": "shop"}) == set()
}

_of_namespace(operation, metadata, replicated) := concerned if {
	concerned := scope.concerned with input as _review({
		"operation": operation,
		"kind": {"group": "", "version": "v1", "kind": "Namespace"},
		"namespace": "payments",
		"object": {"metadata": metadata},
	})
		with data.intents.requests as _requests
		with data.kubernetes.namespaces as _replicated(replicated)
		with opa.runtime as _sidecar
		with http.send as _found(replicated)
}

# API servers label each namespace with its name before they ask.
test_a_new_namespace_is_selected_by_its_name_without_that_label if {
	every operation in ["CREATE", "UPDATE"] {
		concerned := scope.concerned with input as _review({
			"operation": operation,
			"kind": {"group": "", "version": "v1", "kind": "Namespace"},
			"namespace": "payments",
			"object": {"metadata": {"labels": {"team": "shop"}}},
		})
			with data.intents.requests as {operation: {"/Namespace": {
				"by-name": [[{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["payments"]}]],
				"others": [[{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["payments"]}]],
			}}}
		concerned == {"by-name"}
	}
}

test_no_selector_applies_to_objects_without_a_namespace if {
	concerned := scope.concerned with data.intents.requests as _requests
		with input as _review({
			"kind": {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"},
			"object": {"metadata": {"name": "x"}},
		})
	concerned == {"not-infra"}
}

test_a_subresource_is_a_kind_of_its_own if {
	_scaled("scale") == {"everywhere"}
	_scaled("status") == set()
	_scaled("") == set()
}

_scaled(subresource) := concerned if {
	concerned := scope.concerned with data.intents.requests as _requests
		with input as _review({
			"operation": "UPDATE",
			"namespace": "payments",
			"kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
			"subResource": subresource,
		})
}

test_no_intent_has_a_say_in_a_review_that_cannot_be_read if {
	concerned := scope.concerned with data.intents.requests as _requests
		with input as {"kind": "AdmissionReview", "request": _in_payments.request}
	concerned == set()
}

test_exempt_users_and_groups_are_left_alone if {
	_asked_by({"username": "alice"}) == set()
	_asked_by({"username": "bob", "groups": ["devs", "ops"]}) == set()
	_asked_by({"username": "bob", "groups": ["devs"]}) == {"everywhere"}
	_asked_by({"username": "Alice"}) == {"everywhere"}
	_asked_by({}) == {"everywhere"}
}

_owned_requests := {"UPDATE": {}, "CREATE": {
	"apps/Deployment": {"both": [[]], "elsewhere": [[{"key": "team", "operator": "In", "values": ["shop"]}]]},
	"apps/ReplicaSet": {"both": [[]], "elsewhere": [[]], "alone": [[]]},
}}

_replica_set(user) := _review({
	"kind": {"group": "apps", "version": "v1", "kind": "ReplicaSet"},
	"namespace": "payments",
	"userInfo": {"username": user},
	"object": {"metadata": {
		"name": "web-1",
		"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": true}],
	}},
})

_about_owned(user) := concerned if {
	concerned := scope.concerned with input as _replica_set(user)
		with data.intents.requests as _owned_requests
		with data.kubernetes.namespaces as {}
}

test_what_a_controller_makes_is_left_to_the_intents_that_judge_its_owner if {
	_about_owned("system:serviceaccount:kube-system:deployment-controller") == {"elsewhere", "alone"}
	_about_owned("jane") == {"both", "elsewhere", "alone"}
}

test_nothing_is_unclear_about_what_a_controller_makes if {
	requests := {"CREATE": {
		"apps/Deployment": {"shop": [[{"key": "team", "operator": "In", "values": ["shop"]}]]},
		"apps/ReplicaSet": {"shop": [[{"key": "team", "operator": "In", "values": ["shop"]}]]},
	}}
	every user, intents in {"system:kube-controller-manager": set(), "jane": {"shop"}} {
		unclear := scope.unclear with input as _replica_set(user)
			with data.intents.requests as requests
			with data.kubernetes.namespaces as {}
		unclear == intents
	}
}

test_nothing_is_unclear_about_exempt_users if {
	unclear := scope.unclear with input as object.union(_in_payments, {"request": {"userInfo": {"username": "alice"}}})
		with data.settings.exempt as {"only-shop": {"users": ["alice"], "groups": []}}
		with data.intents.requests as {"CREATE": {"/Pod": {"only-shop": _requests.CREATE["/Pod"]["only-shop"]}}}
		with opa.runtime as _sidecar
		with http.send as _nothing
	unclear == set()
}

_asked_by(user) := concerned if {
	concerned := scope.concerned with input as object.union(_in_payments, {"request": {"userInfo": user}})
		with data.settings.exempt as {"everywhere": {"users": ["alice"], "groups": ["ops"]}}
		with data.intents.requests as {"CREATE": {"/Pod": {"everywhere": [[]]}}}
}

test_a_webhook_asks_for_its_own_intent_alone if {
	concerned := scope.concerned with data.intents.requests as _requests
		with data.kubernetes.namespaces as _replicated({"team": "infra"})
		with input as object.union(_in_payments, {"intents": ["by-name", "not-infra"]})
	concerned == {"by-name"}
	unclear := scope.unclear with data.intents.requests as _requests
		with data.kubernetes.namespaces as {}
		with input as object.union(_in_payments, {"intents": ["only-shop"]})
		with opa.runtime as _sidecar
		with http.send as _nothing
	unclear == {"only-shop"}
}

test_without_intents_the_caller_asks_for_all if {
	every asked in [{}, {"intents": ["everywhere", "only-shop"]}] {
		concerned := scope.concerned with input as object.union(_in_payments, asked)
			with data.intents.requests as {"CREATE": {"/Pod": {"everywhere": [[]]}}}
		concerned == {"everywhere"}
	}
	concerned := scope.concerned with input as object.union(_in_payments, {"intents": []})
		with data.intents.requests as {"CREATE": {"/Pod": {"everywhere": [[]]}}}
	concerned == set()
}

test_an_exception_takes_an_intent_away if {
	some_exception := {"payments": {"import": {"spec": {
		"intents": ["only-shop"],
		"objects": {"names": ["web"]},
		"until": "2090-01-01T00:00:00Z",
	}}}}
	concerned := scope.concerned with input as _in_payments
		with data.intents.requests as _requests
		with data.kubernetes.namespaces as _replicated({"team": "shop"})
		with data.kubernetes.policyexceptions as some_exception
	concerned == {"everywhere", "not-infra", "any-team", "by-name", "either"}
	unclear := scope.unclear with input as _in_payments
		with data.intents.requests as _requests
		with data.kubernetes.namespaces as {}
		with data.kubernetes.policyexceptions as some_exception
		with opa.runtime as _sidecar
		with http.send as _nothing
	not "only-shop" in unclear
}
