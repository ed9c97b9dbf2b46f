# METADATA
# title: The admission decision
# description: |
#   OPA's answer to `POST /`: one AdmissionReview v1, merged from the decisions of all intents. Read this module first.
#   A request that no intent applies to is allowed. A review that cannot be read is denied.
# schemas:
#   - input: schema.admission_review
package system

import data.intents
import data.review
import data.scope
import data.settings

# METADATA
# description: The AdmissionReview that answers the request.
# entrypoint: true
main := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"response": object.union_n([_answer, _warned, _audited]),
} if _decisions

_answer := _refused if count(_denials) > 0

else := {"uid": review.uid, "allowed": true} if _patch == []

else := {"uid": review.uid, "allowed": true, "patchType": "JSONPatch", "patch": base64.encode(json.marshal(_patch))}

_refused := {"uid": review.uid, "allowed": false, "status": {
	"code": 403,
	"reason": "Forbidden",
	"message": concat("", [_cut(concat("; ", sort(_denials))), _contact]),
}}

# The decisions of the intents that have a say in the request. While the module of one of them is not loaded, this object
# is undefined, and so is `main`. The API server then refuses the request: a missing policy must not count as consent. None
# is asked about an object that is too large: each refuses it.
_decisions := decisions if {
	review.readable
	intents.requests
	settings.enforcement
	decisions := {intent: decision | some intent in scope.concerned; decision := intents.decisions[intent]; is_object(decision)}
	count(decisions) == count(scope.concerned)
} else := {intent: {"deny": {review.too_large}, "patch": [], "warn": set()} | some intent in scope.concerned} if {
	not review.readable
	intents.requests
}

# METADATA
# description: |
#   True if every intent gives a decision without a refusal; health.rego uses it as a self-test. It is here because only
#   this module uses the intents' packages: a new revision takes over when one module is replaced.
admitted_by_all if {
	every intent in intents.names {
		count(intents.decisions[intent].deny) == 0
	}
}

# No intent applies to a review that cannot be read, so `enforcement: warn` does not admit it.
_denials contains message if {
	not review.readable
	some message in review.problems
}

# Nothing is admitted for want of a reason.
_denials contains "the review cannot be read" if {
	not review.readable
	not review.reduced
	count(review.problems) == 0
}

_denials contains sprintf("namespace %q is not known to the policy yet: retry in a moment", [input.request.namespace]) if {
	some intent in scope.unclear
	not _warns(intent)
}

_denials contains message if {
	some intent, decision in _decisions
	some message in decision.deny
	not _warns(intent)
}

# An intent that the settings do not list is enforced.
_warns(intent) if object.get(settings.enforcement, intent, "deny") == "warn"

_warnings contains message if {
	some decision in _decisions
	some message in (decision.warn | (decision.deny - _denials))
}

_patch := _operations if count(_decisions) == 1

else := [step |
	some number, operation in _operations
	some step in _after_others(number, operation)
]

_operations := [operation | some decision in _decisions; some operation in decision.patch]

# Two intents may add a list that the object lacks, and the second list would replace the first: append its items.
_after_others(number, operation) := [step |
	some item in operation.value
	step := {"op": "add", "path": concat("/", [operation.path, "-"]), "value": item}
] if {
	_adds_list(operation)
	some other in array.slice(_operations, 0, number)
	_adds_list(other)
	other.path == operation.path
} else := [operation]

_adds_list(operation) if {
	operation.op == "add"
	is_array(operation.value)
}

_warned := {"warnings": sort({_cut(message) | some message in _warnings})} if count(_warnings) > 0

else := {}

# For the API server's audit log and the decision log, by intent: the outcome, a colon, and the details. The uid stands
# here and not in the message: Kubernetes groups Events and shows conditions by their text, so equal requests get equal
# texts. It leads from an audit event to the decision log. No intent has this name, because intents have no capitals.
_audited := {"auditAnnotations": object.union(_outcomes, {"decisionUID": review.uid})} if count(_outcomes) > 0

else := {}

_outcomes := {intent: _cut(text) | some intent, decision in _decisions; text := _outcome(intent, decision)}

_outcome(intent, decision) := sprintf("%s: %s", [_verb(intent), concat("; ", sort(decision.deny))]) if {
	count(decision.deny) > 0
} else := text if {
	count(_denials) == 0
	text := intents.audits[intent]
	text != ""
}

_verb(intent) := "would be refused" if _warns(intent)

else := "refused"

# Messages quote the request, in which a name, a selector or a list of tolerations can have a megabyte.
_longest := 4096

_cut(message) := message if count(message) <= _longest

else := concat("", [substring(message, 0, _longest), "..."])

_contact := sprintf(" (ask %s)", [settings.contact]) if settings.contact != ""

else := ""
