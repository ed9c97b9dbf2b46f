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
		every sentence in answer.explanation { sentence == "the workload names no customer, so no cluster is allowed" }
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

test_customers_with_wrong_data_are_explained_by_their_places if {
	odd := "placement.customers.odd"
	every record, places in {
		{"jurisdictions": "de"}: [".jurisdictions"],
		{"jurisdictions": null}: [".jurisdictions"],
		{"jurisdictions": [1]}: [".jurisdictions"],
		{}: [".jurisdictions"],
		{"jurisdictions": ["de"], "certifications": "pci"}: [".certifications"],
		{"jurisdictions": "de", "certifications": "pci"}: [".certifications", ".jurisdictions"],
		"de": [""],
		[]: [""],
		false: [""],
	} {
		answer := scenes.answer({"customer": "odd"}, object.union(scenes.world, {"customers": {"odd": record}}))
		listed := concat(", ", [sprintf("%s%s", [odd, place]) | some place in places])
		every sentence in answer.explanation {
			sentence == sprintf(`the data of customer "odd" are not valid (%s), so no cluster is allowed`, [listed])
		}
		count(answer.explanation) == count(scenes.world.clusters)
	}
}

_problems(record) := answer.errors.customer if {
	answer := scenes.answer({"customer": "odd"}, object.union(scenes.world, {"customers": {"odd": record}}))
	answer.weights == {}
}

test_texts_that_yaml_reads_as_something_else if {
	_problems({"jurisdictions": [false, "se"]}) == {`one of the jurisdictions of customer "odd" is false, as YAML reads no and off: quote it`}
	_problems({"jurisdictions": ["de", true]}) == {`one of the jurisdictions of customer "odd" is true, as YAML reads yes and on: quote it`}
	_problems({"jurisdictions": ["de"], "certifications": [27001]}) == {`one of the certifications of customer "odd" is the number 27001: quote it`}
}

test_a_misspelt_requirement_is_not_dropped if {
	every key in ["certification", "Certifications", "certifcations", "certificates", "certificaitons", "cert", "requiredCertifications"] {
		_problems({"jurisdictions": ["de"], key: ["pci"]}) == {sprintf(`customer "odd" has the key %q, which is not read: did you mean certifications?`, [key])}
	}
	every key in ["certifiedBy", "specifications", "jurisdictionNotes", "contact", "c"] {
		answer := scenes.answer({"customer": "odd"}, object.union(scenes.world, {"customers": {"odd": {"jurisdictions": ["de"], key: "x"}}}))
		answer.errors == {}
	}
}

test_a_requirement_under_a_name_of_its_own_is_not_dropped if {
	sentence := `customer "odd" has the key "compliance" with pci, which is not read: write it into certifications, or below labels if it is no requirement`
	every value in [["pci"], "pci", ["x", "pci", 1], {"first": "pci"}] {
		_problems({"jurisdictions": ["de"], "compliance": value}) == {sentence}
		_problems({"jurisdictions": ["de"], "certifications": [], "compliance": value}) == {sentence}
	}
	every record in [
		{"jurisdictions": ["de"], "labels": {"audit": "pci"}},
		{"jurisdictions": ["de"], "certifications": ["pci"], "compliance": ["pci"]},
		{"jurisdictions": ["de"], "country": "de", "tier": 1, "notes": null, "tags": [1]},
	] {
		answer := scenes.answer({"customer": "odd"}, object.union(scenes.world, {"customers": {"odd": record}}))
		answer.errors == {}
	}
}
