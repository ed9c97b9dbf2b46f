# METADATA
# title: Readiness
# description: |
#   What OPA's `GET /health/ready` answers by: ready once every intent decides and the namespaces are there, so that a
#   Service never routes to an OPA that would have to guess.
package system.health

# METADATA
# description: Whether this OPA can decide.
# entrypoint: true
default ready := false

ready if {
	answer := data.system.main with input as _review
	answer.response.allowed
	is_object(data.kubernetes.namespaces)
}

# A request that every intent is asked about, and none has a say in.
_review := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "health",
		"operation": "CREATE",
		"kind": {"group": "fairlead.dev", "version": "v1", "kind": "Nothing"},
	},
}
