package lib.placement_questions_test

import data.lib.placement_questions as questions

_placement := {
	"clusters": {
		"berlin": {"jurisdiction": "de", "location": "on-prem"},
		"paris": {"jurisdiction": "fr", "location": "on-prem"},
	},
	"customers": {"acme": {"jurisdictions": ["de"]}, "zeta": {"jurisdictions": ["de"]}, "nowhere": {"jurisdictions": ["us"]}},
	"applications": {"shop/settled": {"clusters": ["berlin"]}},
}

_workload(name, metadata) := {
	"kind": "Deployment",
	"metadata": object.union({"name": name, "namespace": "shop"}, metadata),
	"spec": {"template": {"spec": {"containers": [{"name": name, "image": name}]}}},
}

_question(resource, namespaces) := question if {
	question := questions.question(resource, namespaces) with data.placement as _placement
}

test_what_placement_does_not_read_makes_no_difference if {
	first := _question(_workload("a", {"annotations": {"customer": "acme", "note": "x"}}), {})
	first == _question(_workload("b", {"labels": {"customer": "acme", "app": "b"}}), {})
	first == _question(_workload("c", {}), {"shop": {"metadata": {"labels": {"customer": "acme"}}}})
	first != _question(_workload("a", {"annotations": {"customer": "acme", "criticality": "low"}}), {})
	first != _question(_workload("settled", {"annotations": {"customer": "acme"}}), {})
}

test_without_a_customer_or_with_another_shape_all_is_read if {
	unnamed := _workload("a", {})
	_question(unnamed, {}) == {"resource": unnamed, "namespaces": {}}
	odd := _workload("a", {"annotations": "none"})
	_question(odd, {}) == {"resource": odd, "namespaces": {}}
}

test_containers_of_another_shape_are_read_as_they_are if {
	every containers in ["none", ["none"]] {
		odd := object.union(_workload("a", {"labels": {"customer": "acme"}}), {"spec": {"template": {"spec": {"containers": containers}}}})
		_question(odd, {}).resource.spec.template.spec.containers == containers
	}
}

test_a_decision_has_its_costs if {
	world := object.union(_placement, {"clusters": {"berlin": {"price": {"cpu": 2}}}})
	requesting := {"spec": {"template": {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": 3}}}]}}}}
	decided := {name: decided |
		some name, labels in {"owned": {"customer": "acme"}, "unowned": {}}
		resource := object.union(_workload(name, {"labels": labels}), requesting)
		decided := questions.decision(resource, {}) with data.placement as world
	}
	decided.owned.answer[0].annotations["replica-set-preferences"].clusters == {"berlin": {"weight": 1}}
	decided.owned.costs == {"berlin": 6}
	count(decided.unowned.answer[0].errors) == 1
	decided.unowned.costs == {}
}

test_an_answer_has_its_explanation if {
	every workload in [_workload("a", {"labels": {"customer": "acme"}}), _workload("b", {})] {
		decided := questions.decision(workload, {}) with data.placement as _placement
		object.keys(decided.answer[0].explanation) == {"berlin", "paris"}
	}
}

test_customers_with_equal_data_get_their_own_errors if {
	outcome := {customer: outcome |
		some customer in ["nowhere", "zeta"]
		outcome := questions.outcome(questions.question(_workload("a", {"labels": {"customer": customer}}), {})) with data.placement as _placement
	}
	outcome.zeta == {"annotations": {"replica-set-preferences": {"clusters": {"berlin": {"weight": 1}}}}, "errors": {}}
	some sentence in outcome.nowhere.errors["no cluster"]
	contains(sentence, `customer "nowhere"`)
}

test_a_decision_says_how_it_is_carried_out if {
	decided := questions.decision(_workload("a", {"labels": {"customer": "acme"}}), {}) with data.placement as _placement
	decided.customer == ["acme"]
	decided.lawful == {"berlin"}
	decided.replicas == {"berlin": 1}
	decided.fields == {"berlin": {"replicas": 1}}
}
