# METADATA
# title: The admission decision
# description: |
#   What OPA answers to `POST /`: one AdmissionReview v1, merged from the intents that have a say. Read this page first.
#   A request in which no intent has a say is allowed, a review that cannot be read is denied.
# schemas:
#   - input: schema.admission_review
package system

import data.node_pool
import data.review
import data.settings

# METADATA
# description: The answer, with the uid of the request; allowed, patched, warned of or denied.
# entrypoint: true
main := {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": _response} if _decisions

_response := object.union_n([{"uid": review.uid, "allowed": count(_denials) == 0}, _patched, _warned, _audited, _status])

# The intents by name. While the module of one is not loaded, the object and so `main` are undefined, which the API
# server refuses: a policy that is missing must not pass for consent.
_decisions := {"node-pool": node_pool.decision} if review.concerned

_decisions := {} if not review.concerned

# A review that cannot be read is no intent's, so no enforcement lets it through.
_denials := review.problems | {message |
	some intent, decision in _decisions
	not _warns(intent)
	some message in decision.deny
} if settings.enforcement

# An intent that the settings do not list is enforced. OPA rejects a reference to a key that a constant lacks.
_warns(intent) if object.get(settings.enforcement, intent, "deny") == "warn"

_warnings := (_refusals - _denials) | {message | some decision in _decisions; some message in decision.warn}

_refusals := {message | some decision in _decisions; some message in decision.deny}

_patch := [operation | count(_denials) == 0; some decision in _decisions; some operation in decision.patch]

_patched := {"patchType": "JSONPatch", "patch": base64.encode(json.marshal(_patch))} if count(_patch) > 0

_patched := {} if count(_patch) == 0

_warned := {"warnings": sort({_cut(message) | some message in _warnings})} if count(_warnings) > 0

_warned := {} if count(_warnings) == 0

# What the API server's audit log and the decision log are told, by intent: an outcome, a colon, and what it is about.
_audited := {"auditAnnotations": _annotations} if count(_annotations) > 0

_audited := {} if count(_annotations) == 0

# What each intent says of a request that it admits; empty where it has no say.
_audits := {"node-pool": node_pool.audit}

_annotations := {intent: _cut(_outcome(intent, decision)) | some intent, decision in _decisions}

_outcome(intent, decision) := sprintf("would be refused: %s", [concat("; ", sort(decision.deny))]) if {
	count(decision.deny) > 0
	_warns(intent)
} else := sprintf("refused: %s", [concat("; ", sort(decision.deny))]) if {
	count(decision.deny) > 0
} else := _audits[intent] if {
	count(_denials) == 0
	_audits[intent] != ""
}

_status := {"status": {"code": 403, "reason": "Forbidden", "message": concat("", [_told, _contact, _traced])}} if {
	count(_denials) > 0
}

_status := {} if count(_denials) == 0

_told := _cut(concat("; ", sort(_denials)))

# Messages quote the request, where a name, a selector or a list of tolerations can be a megabyte.
_longest := 4096

_cut(message) := message if count(message) <= _longest

_cut(message) := concat("", [substring(message, 0, _longest), "..."]) if count(message) > _longest

_contact := sprintf(" (ask %s)", [settings.contact]) if settings.contact != ""

_contact := "" if settings.contact == ""

# By the uid an admin finds the request in OPA's decision log, and in an audit log that has reviews.
_traced := sprintf(" [decision %s]", [review.uid]) if review.uid != ""

_traced := "" if review.uid == ""
