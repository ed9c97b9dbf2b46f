# METADATA
# title: Namespaces
# description: |
#   A label of a namespace: as it was replicated, a single look-up however many namespaces there are; or as the API
#   server has it at this moment, asked of the sidecar, where that offers it.
package namespaces

# METADATA
# description: |
#   The label `key` of the namespace `name` as replicated, null where it has no such label. Undefined where OPA does not
#   have the namespace, or not what became of this label: a sidecar replicates the labels that it was told to, and says
#   in `absentLabels` which of those a namespace lacks. Any other that is not there may well be there.
replicated(name, key) := value if {
	value := data.kubernetes.namespaces[name].metadata.labels[key]
} else := null if {
	namespace := data.kubernetes.namespaces[name]
	_lacks(namespace, key)
}

# METADATA
# description: The same as the API server has it now; undefined where the sidecar gives no answer.
looked_up(name, key) := object.get(_asked(name), ["metadata", "labels", key], null)

# METADATA
# description: Whether a sidecar looks namespaces up.
can_look_up if opa.runtime().env.FAIRLEAD_NAMESPACES_URL

# METADATA
# description: |
#   Whether only API servers ask, about namespaces with a pool (and elsewhere about DaemonSets that had one), and nobody
#   looks any up (kube-mgmt): what is replicated without a pool is taken to be older than the question.
mapped_only if opa.runtime().env.FAIRLEAD_MAPPED_ONLY == "true"

_lacks(namespace, key) if key in namespace.metadata.absentLabels

# Elsewhere namespaces are whole.
_lacks(_, _) if not can_look_up

# The sidecar answers on loopback (FAIRLEAD_NAMESPACES_URL), verified with our own CA; no credential leaves OPA.
_asked(name) := response.body if {
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
