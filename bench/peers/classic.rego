# A hand-written policy of the kind that many clusters have: rules for denials and patches, and a trace of what it works
# with. OPA formats that message for each request, with all namespaces, although nobody reads it.
package system

main := {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

default response := {"allowed": false, "status": {"message": "the policy does not know the namespace"}}

response := {"uid": input.request.uid, "allowed": false, "status": {"message": concat("; ", deny)}} if count(deny) > 0

response := {
	"uid": input.request.uid,
	"allowed": true,
	"patchType": "JSONPatch",
	"patch": base64.encode(json.marshal([patch | some patch in patches])),
} if {
	count(deny) == 0
	count(patches) > 0
}

deny contains message if {
	some key, value in input.request.object.spec.nodeSelector
	key != "agentpool"
	message := sprintf("the nodeSelector %s=%s is not allowed", [key, value])
}

deny contains message if {
	own := input.request.object.spec.nodeSelector.agentpool
	own != pool
	message := sprintf("the pool of namespace %s is %s, not %s", [input.request.namespace, pool, own])
}

patches contains {"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": pool}} if pool

pool := namespaces[input.request.namespace].metadata.labels.agentpool

namespaces := known if {
	known := data.kubernetes.namespaces
	trace(sprintf("namespaces: %v", [known]))
}
