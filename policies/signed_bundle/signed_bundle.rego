# METADATA
# title: Signed bundles
# description: |
#   The decision of an OPA that takes its policies from signed bundles. OPA verifies who signed a bundle, but not when: it
#   activates an old bundle with a good signature. So this module refuses to decide by a bundle that was signed before
#   the time in OPA's label `bundles_signed_since`, or that has expired. Only signed bundles have this module, and the
#   OPA's setting `default_decision` names it.
package signed_bundle

# METADATA
# description: The AdmissionReview that answers the request; undefined, so that API servers fail closed, without `current`.
# entrypoint: true
main := data.system.main if current

# METADATA
# description: |
#   Whether all bundles of this OPA count at this moment. OPA keeps their manifests, which are signed, below
#   `data.system.bundles`, by the names that its configuration gives them.
current if {
	data.system.bundles.policies
	every bundle in data.system.bundles {
		bundle.manifest.metadata.signed >= _since
		time.now_ns() < object.get(bundle.manifest.metadata, "expires", _never) * 1000000000
	}
}

# METADATA
# description: Whether this OPA decides by signed bundles, and one of them does not count; for readiness.
refused if {
	trim_left(opa.runtime().config.default_decision, "/") == "signed_bundle/main"
	not current
}

_since := to_number(object.get(opa.runtime(), ["config", "labels", "bundles_signed_since"], "0"))

# In seconds of Unix time: in the year 2286.
_never := 10000000000
