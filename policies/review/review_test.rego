package review_test

import data.review

_review(request) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": object.union({"uid": "42", "operation": "CREATE", "kind": {"group": "", "kind": "Pod"}}, request),
}

test_a_known_operation_is_no_problem if {
	every operation in ["CREATE", "UPDATE", "DELETE", "CONNECT"] {
		review.problems == set() with input as _review({"operation": operation})
	}
}

test_an_empty_subresource_counts_as_none if {
	every none in ["", null] {
		not review.subresource with input as _review({"subResource": none})
	}
}

test_a_subresource_is_no_problem if {
	review.subresource with input as _review({"subResource": "status"})
	review.problems == set() with input as _review({"subResource": "status"})
}

test_an_unknown_operation_is_a_problem if {
	every operation in ["PATCH", "", "create", 1, null] {
		review.problems == {"request.operation is not one of CREATE, UPDATE, DELETE, CONNECT: cannot tell what is asked"} with input as _review({"operation": operation})
	}
}

test_a_kind_without_a_name_is_a_problem if {
	every kind in [{}, {"kind": 1}, null, "Pod"] {
		review.problems == {"request.kind has no kind: cannot tell whether a policy applies"} with input as json.patch(_review({}), [{"op": "replace", "path": "/request/kind", "value": kind}])
	}
}

test_a_group_or_subresource_that_is_not_a_string_is_a_problem if {
	every group in [null, 7, []] {
		review.problems == {"request.kind.group is not a string: cannot tell whether a policy applies"} with input as _review({"kind": {"group": group, "kind": "Pod"}})
	}
	every sub_resource in [false, 7, []] {
		review.problems == {"request.subResource is not a string: cannot tell what is asked"} with input as _review({"subResource": sub_resource})
	}
}

_long := concat("", ["x" | some _ in numbers.range(1, 257)])

test_a_request_without_a_uid_is_a_problem if {
	every uid in ["", 42, null, _long] {
		review.problems == {"request.uid is not a string of 1 to 256 characters: the answer could not be matched to it"} with input as _review({"uid": uid})
	}
}

test_the_uid_is_the_requests_or_empty if {
	review.uid == "42" with input as _review({})
	review.uid == "" with input as _review({"uid": 42})
	review.uid == "" with input as {}
	review.uid == "" with input as _review({"uid": _long})
}

test_the_kind_has_its_group if {
	review.kind == ["", "Pod"] with input as _review({})
	review.kind == ["", "Pod"] with input as {"request": {"kind": {"kind": "Pod"}}}
	review.kind == ["apps", "Deployment"] with input as _review({"kind": {"group": "apps", "kind": "Deployment"}})
}

test_an_object_is_called_by_its_name_or_what_it_is_generated_from if {
	review.name == "web" with input as _review({"object": {"metadata": {"name": "web"}}})
	review.name == "web" with input as _review({"object": {"metadata": {"name": "web", "generateName": ""}}})
	review.name == "x-*" with input as _review({"object": {"metadata": {"name": "x-7d4b9", "generateName": "x-"}}})
	review.name == "x-7d4b9" with input as _review({
		"operation": "UPDATE",
		"object": {"metadata": {"name": "x-7d4b9", "generateName": "x-"}},
	})
	review.name == "web-*" with input as _review({"object": {"metadata": {"name": "", "generateName": "web-"}}})
	review.name == "web-*" with input as _review({"object": {"metadata": {"generateName": "web-"}}})
	long := concat("", [sprintf("%060d", [0]), "-"])
	generated := concat("", [substring(long, 0, 58), "7d4b9"])
	review.name == concat("", [long, "*"]) with input as _review({"object": {"metadata": {"name": generated, "generateName": long}}})
}

test_the_pod_of_a_stateful_set_has_its_own_name if {
	every name in ["web-0", "web-10000", "web-7d4b", "other"] {
		review.name == name with input as _review({"object": {"metadata": {"name": name, "generateName": "web-"}}})
	}
	review.name == "(unnamed)" with input as _review({"object": {"metadata": {}}})
	review.name == "(unnamed)" with input as _review({})
}

test_intents_that_are_no_list_are_a_problem if {
	every intents in [false, null, "node-pool", {"node-pool": true}] {
		asked := object.union(_review({}), {"intents": intents})
		review.problems == {"intents is not a list of names: cannot tell which policies are asked"} with input as asked
		not review.readable with input as asked
	}
	every intents in [[], ["node-pool"]] {
		review.problems == set() with input as object.union(_review({}), {"intents": intents})
	}
}

test_a_review_is_readable_if_no_problem_is_found if {
	every request in [
		{},
		{"uid": ""},
		{"uid": 42},
		{"uid": _long},
		{"kind": {}},
		{"kind": 7},
		{"kind": {"kind": "Pod", "group": 7}},
		{"operation": "LOOK"},
		{"operation": null},
		{"subResource": 7},
		{"subResource": null},
	] {
		problems := review.problems with input as _review(request)
		readable := [true | review.readable with input as _review(request)]
		count(readable) == 1 - min({1, count(problems)})
	}
}

test_a_reduced_review_is_no_problem_but_not_readable if {
	reduced := object.union(_review({}), {"apiVersion": "fairlead.dev/v1", "kind": "ReducedReview"})
	review.reduced with input as reduced
	review.problems == set() with input as reduced
	not review.readable with input as reduced
	not review.reduced with input as _review({})
	not review.reduced with input as object.union(reduced, {"intents": false})
	not review.reduced with input as object.union(reduced, {"apiVersion": "admission.k8s.io/v1"})
}
