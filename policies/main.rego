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

_response := object.union_n([{"uid": review.uid, "allowed": count(_denials) == 0}, _patched, _warned, _status])

# The intents. While the module of one is not loaded, the array and so `main` are undefined, which the API server
# refuses: a policy that is missing must not pass for consent.
_decisions := [node_pool.decision] if review.concerned

_decisions := [] if not review.concerned

_refusals := review.problems | {message | some decision in _decisions; some message in decision.deny}

_denials := _refusals if settings.enforcement == "deny"

_denials := set() if settings.enforcement == "warn"

_warnings := (_refusals - _denials) | {message | some decision in _decisions; some message in decision.warn}

_patch := [operation | count(_denials) == 0; some decision in _decisions; some operation in decision.patch]

_patched := {"patchType": "JSONPatch", "patch": base64.encode(json.marshal(_patch))} if count(_patch) > 0

_patched := {} if count(_patch) == 0

_warned := {"warnings": sort(_warnings)} if count(_warnings) > 0

_warned := {} if count(_warnings) == 0

_status := {"status": {"code": 403, "reason": "Forbidden", "message": concat("; ", sort(_denials))}} if {
	count(_denials) > 0
}

_status := {} if count(_denials) == 0
