# METADATA
# title: Exceptions
# description: |
#   Objects that intents leave alone until some time: the PolicyExceptions of the request's namespace, which the sidecar
#   replicates. API servers have checked their form.
# schemas:
#   - input: schema.admission_review
package exceptions

import data.review

# METADATA
# description: The names of the exceptions by which an intent leaves the object alone, by the intent.
by_intent[intent] contains name if {
	some name, exception in data.kubernetes.policyexceptions[input.request.namespace]
	_includes(exception.spec.objects)
	time.parse_rfc3339_ns(exception.spec.until) > time.now_ns()
	some intent in exception.spec.intents
}

_includes(objects) if {
	_resource in object.get(objects, "resources", [_resource])
	some name in objects.names
	_fits(name)
}

_resource := object.get(input.request, ["resource", "resource"], "")

_fits(name) if name == _name

# A generated name is a prefix with a `*`, before and after API servers generate it.
_fits(name) if {
	endswith(name, "*")
	startswith(_name, trim_suffix(name, "*"))
}

_name := input.request.name if review.name == "(unnamed)"

else := review.name
