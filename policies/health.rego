# METADATA
# title: Readiness
# description: |
#   What OPA's `GET /health/ready` answers by: ready once the decision and the namespaces are there, so that a Service
#   never routes to an OPA that would have to guess.
package system.health

# METADATA
# description: Whether this OPA can decide.
# entrypoint: true
default ready := false

ready if {
	data.system.main.response
	is_object(data.kubernetes.namespaces)
}
