# Gives a pod its pool by one look-up of the namespace, and does nothing else: it refuses nothing, knows no updates, and
# lets in the pods of a namespace that it does not have.
package system

main := {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
	"uid": input.request.uid,
	"allowed": true,
	"patchType": "JSONPatch",
	"patch": base64.encode(json.marshal([{
		"op": "add",
		"path": "/spec/nodeSelector",
		"value": {"agentpool": pool},
	}])),
}} if {
	pool := data.kubernetes.namespaces[input.request.namespace].metadata.labels.agentpool
}
