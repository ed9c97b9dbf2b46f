# METADATA
# title: Namespaces
# description: |
#   The labels of a namespace, from one of two sources: OPA's replicated data, where the cost does not depend on the
#   number of namespaces, or a lookup by the sidecar, which asks the API server at this moment. Not every sidecar offers
#   lookups.
# schemas:
#   - input: schema.admission_review
package namespaces

import data.intents
import data.review

# METADATA
# description: |
#   The replicated label `key` of the namespace `name`; null if the namespace lacks it. Undefined if OPA does not have
#   the namespace, or if its data do not show whether the namespace has the label. A sidecar replicates only the labels
#   that it is configured for, and lists those that a namespace lacks in `absentLabels`. For any other label the data
#   show nothing.
replicated(name, key) := value if {
	value := data.kubernetes.namespaces[name].metadata.labels[key]
} else := null if {
	namespace := data.kubernetes.namespaces[name]
	_lacks(namespace, key)
}

# METADATA
# description: The same label as the API server has it now; undefined if the sidecar gives no answer.
looked_up(name, key) := object.get(_lookup(name), ["metadata", "labels", key], null)

# METADATA
# description: The annotation `key` of a namespace as the API server has it now; null if it has none, undefined as above.
looked_up_annotation(name, key) := object.get(_lookup(name), ["metadata", "annotations", key], null)

# METADATA
# description: Whether the sidecar answers lookups.
can_look_up if opa.runtime().env.FAIRLEAD_NAMESPACES_URL

# METADATA
# description: |
#   Whether only API servers ask, and the sidecar (kube-mgmt) answers no lookups. API servers ask for node-pool placement
#   about mapped namespaces, and elsewhere only about DaemonSets that an earlier pool changed. So a namespace that is
#   replicated without a pool is probably out of date. A caller that asks for all intents may be a webhook of another
#   intent with a say in such objects, which API servers ask about other namespaces as well.
mapped_only if {
	opa.runtime().env.FAIRLEAD_MAPPED_ONLY == "true"
	_of_placement
}

_of_placement if input.intents

_of_placement if count(object.get(intents.requests, [input.request.operation, concat("/", review.kind)], {})) < 2

_lacks(namespace, key) if key in namespace.metadata.absentLabels

# Without lookups, the sidecar is kube-mgmt, which replicates whole namespaces: a label that is not there is absent.
_lacks(_, _) if not can_look_up

# The sidecar answers on loopback (FAIRLEAD_NAMESPACES_URL). OPA verifies it with our own CA and sends no credential.
_lookup(name) := response.body if {
	env := opa.runtime().env
	response := http.send({
		"method": "GET",
		"url": concat("/", [env.FAIRLEAD_NAMESPACES_URL, urlquery.encode(name)]),
		"tls_ca_cert_file": env.FAIRLEAD_CA_FILE,
		"timeout": "2s",
		"raise_error": false,
	})
	response.status_code == 200
}
