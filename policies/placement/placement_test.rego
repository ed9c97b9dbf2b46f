package placement_test

_data := {"clusters": {"one": {"jurisdiction": "de", "location": "on-prem"}}, "customers": {"acme": {"jurisdictions": ["de"]}}}

test_the_whole_answer if {
	answer := data.k8s.placement with input as {"resource": {"metadata": {"annotations": {"customer": "acme"}}}}
		with data.placement as _data
	answer == {
		"annotations": {"replica-set-preferences": {"clusters": {"one": {"weight": 1}}}},
		"errors": {},
		"explanation": {"one": "allowed"},
	}
}

test_errors_leave_no_cluster if {
	answer := data.k8s.placement with input as {"resource": {"metadata": {"labels": {"customer": "other"}}}}
		with data.placement as _data
	answer == {
		"annotations": {"replica-set-preferences": {"clusters": {}}},
		"errors": {"customer": {`customer "other" is not known: it is not in placement.customers`}},
		"explanation": {"one": "the customer is not known, so no cluster is allowed"},
	}
}
