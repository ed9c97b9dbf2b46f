# METADATA
# title: Readiness
# description: |
#   What OPA's `GET /health/ready` answers by: ready once every intent decides and the namespaces are there, so that a
#   Service never routes to an OPA that would have to guess; and where a setting bounds it, only while the data are
#   confirmed.
package system.health

# METADATA
# description: Whether this OPA can decide.
# entrypoint: true
default ready := false

ready if {
	answer := data.system.main with input as _review
	answer.response.allowed
	is_object(data.kubernetes.namespaces)
	_fresh
}

# The sidecar writes up to when all data are confirmed, by the clock that it shares with this OPA, and for how many
# seconds that counts (the setting maxStaleness). It comes from there, not from the settings: what bounds it and who
# keeps to it change together.
_fresh if not data.fairlead_confirmed.within

# A time to come confirms nothing: the clock was set back since.
_fresh if abs(time.now_ns() - data.fairlead_confirmed.at) <= data.fairlead_confirmed.within * 1000000000

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
