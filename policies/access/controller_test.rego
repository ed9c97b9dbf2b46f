package access_test

import data.controller

_request := {
	"parent": {
		"kind": "TransientRoleBinding",
		"metadata": {"name": "night", "namespace": "shop"},
		"spec": {
			"validFrom": "2026-11-21T10:00:00Z",
			"validUntil": "2026-11-21T11:00:00Z",
			"roleRef": {"kind": "Role", "name": "view"},
			"subjects": [{"kind": "User", "name": "alice"}],
		},
	},
	"finalizing": true,
}

test_the_whole_answer if {
	answer := controller with input as _request with time.now_ns as 0
	answer.children == []
	answer.resyncAfterSeconds == 0
	answer.finalized
	[condition.type | some condition in answer.status.conditions] == ["effective", "failed"]
	count(answer) == 4
}

# Two values of `children` are an error, which tests cannot catch. tools/tests/policy/test_access_decisions.py does.
test_an_answer_has_one_value_of_children if {
	controller.children == [] with input as _request
}
