package lib.workload_placement.customers_test

import data.lib.workload_placement.customers
import data.lib.workload_placement.scenes_test as scenes

_namespaces := {"shop": {"metadata": {"annotations": {"customer": "by-annotation"}, "labels": {"customer": "by-label"}}}}

_named(metadata, namespaces) := name if {
	name := customers.name with input as {"resource": {"metadata": metadata}}
		with data.kubernetes.namespaces as namespaces
}

test_who_names_the_customer if {
	_named({"namespace": "shop", "annotations": {"customer": "a"}, "labels": {"customer": "b"}}, _namespaces) == "a"
	_named({"namespace": "shop", "annotations": {"customer": null}, "labels": {"customer": "b"}}, _namespaces) == "b"
	_named({"namespace": "shop", "labels": {"other": "b"}}, _namespaces) == "by-annotation"
	_named({"namespace": "shop"}, {"shop": {"metadata": {"labels": {"customer": "by-label"}}}}) == "by-label"
	_named({}, {"default": {"metadata": {"labels": {"customer": "by-label"}}}}) == "by-label"
}

test_nobody_names_the_customer if {
	every metadata in [{}, {"namespace": "shop"}, {"namespace": "other", "labels": null, "annotations": null}] {
		answer := scenes.decided({"metadata": metadata}, scenes.world) with data.kubernetes.namespaces as {"shop": {"metadata": {}}}
		answer.weights == {}
		object.keys(answer.errors) == {"customer"}
		startswith(concat("", answer.errors.customer), "the workload names no customer, and neither does namespace")
	}
}

test_unknown_customers if {
	every name in ["other", "", 5, true, false, ["acme"], {"acme": 1}] {
		answer := scenes.answer({"customer": name}, scenes.world)
		answer.weights == {}
		startswith(concat("", answer.errors.customer), "customer ")
		every sentence in answer.explanation { sentence == "the customer is not known, so no cluster is allowed" }
	}
}

test_customers_with_wrong_data if {
	every record in [null, false, "de", [], {}, {"jurisdictions": "de"}, {"jurisdictions": [1]}, {"jurisdictions": null}] {
		answer := scenes.answer({"customer": "odd"}, object.union(scenes.world, {"customers": {"odd": record}}))
		answer.weights == {}
		count(answer.errors.customer) == 1
	}
	answer := scenes.answer({"customer": "odd"}, object.union(scenes.world, {"customers": {"odd": {"jurisdictions": ["de"], "certifications": "pci"}}}))
	answer.weights == {}
	answer.errors == {"customer": {`the certifications of customer "odd" are no list of texts`}}
}
