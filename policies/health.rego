# METADATA
# title: Readiness
# description: |
#   OPA's answer to `GET /health/ready`. OPA is ready once every intent decides and the namespaces are loaded, so that a
#   Service never routes to an OPA that would have to guess. With the setting maxStaleness, it is ready only while its
#   data are confirmed.
package system.health

# METADATA
# description: Whether this OPA can decide.
# entrypoint: true
default ready := false

ready if {
	answer := data.system.main with input as _review
	answer.response.allowed
	data.system.admitted_by_all with input as _review
	is_object(data.kubernetes.namespaces)
	_fresh
	not data.signed_bundle.refused # only an OPA that follows signed bundles has this rule
}

# The sidecar writes up to which time all data are confirmed (`at`, in nanoseconds of the clock that it shares with this
# OPA), and for how many seconds that counts (`within`, from the setting maxStaleness). The limit comes from the sidecar
# and not from the settings module, so that a new limit applies only once the sidecar keeps to it.
_fresh if not data.fairlead_confirmed.within

# The absolute value, because a time in the future confirms nothing: the clock was set back.
_fresh if abs(time.now_ns() - data.fairlead_confirmed.at) <= data.fairlead_confirmed.within * 1000000000

# A request that every intent has nothing to say about.
_review := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "health",
		"operation": "CREATE",
		"kind": {"group": "fairlead.dev", "version": "v1", "kind": "Nothing"},
	},
}
