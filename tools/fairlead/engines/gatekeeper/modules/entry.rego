# METADATA
# title: The entry of a ConstraintTemplate
# description: |
#   What Gatekeeper evaluates. It brings Gatekeeper's review into the form of an AdmissionReview, and asks main.rego,
#   which answers for the intent of this template alone. One constraint refuses (`answer: refusals`), and another one
#   warns (`answer: warnings`), because Gatekeeper knows one action for all violations of a constraint.
package fairlead

import data.lib.fairlead.system

violation contains {"msg": _answer.status.message} if {
	_given.answer == "refusals"
	not _answer.allowed
}

violation contains {"msg": message} if {
	_given.answer == "warnings"
	some message in _answer.warnings
}

# The mutators come before this. So what the policy would still add is something that they cannot add, or that a later
# webhook has removed.
violation contains {"msg": message} if {
	_given.answer == "refusals"
	_answer.allowed
	_answer.patch
	concat("/", [_request.kind.group, _request.kind.kind]) in _given.complete
	message := sprintf("%s %q lacks what %s adds to it, and no mutator added it: create it anew, or set it yourself", [
		lower(_request.kind.kind),
		object.get(input.review, "name", ""),
		_given.instance,
	])
}

violation contains {"msg": "the policy has no answer to this request: tell the administrators of Fairlead"} if {
	_given.answer == "refusals"
	not _decided
}

_given := input.parameters.fairlead

_answer := response if {
	response := system.main.response with input as _review
}

_review := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": _request,
	"finalState": true,
	"parameters": input.parameters,
}

# A helper, because `not` of an undefined value that holds a field is not a violation.
_decided if is_boolean(_answer.allowed)

# Gatekeeper also shows a deleted object as the new one. What it reviews outside of webhooks, as `gator` does, has no
# operation, no uid and no resource: it counts as created.
_request := object.remove(input.review, ["object"]) if input.review.operation == "DELETE"

else := input.review if object.get(input.review, "operation", "") != ""

else := object.union(input.review, {"operation": "CREATE", "uid": "none", "resource": {
	"group": input.review.kind.group,
	"version": input.review.kind.version,
	"resource": sprintf("%ss", [lower(input.review.kind.kind)]),
}})
