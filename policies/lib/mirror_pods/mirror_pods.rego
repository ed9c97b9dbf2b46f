# METADATA
# title: Mirror pods
# description: Which pods only show what a node runs by itself.
# schemas:
#   - input: schema.admission_review
package lib.mirror_pods

# METADATA
# description: |
#   Whether the pod is a mirror pod, which represents a static pod that already runs on its node. Anyone can set the
#   annotation, so it counts only if the node itself creates the pod.
is_mirror if {
	input.request.object.metadata.annotations["kubernetes.io/config.mirror"]
	"system:nodes" in input.request.userInfo.groups
	input.request.userInfo.username == concat("", ["system:node:", input.request.object.spec.nodeName])
}
