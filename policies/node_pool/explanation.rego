# The reasons of a decision, in sentences for `fairlead eval`. Admission does not evaluate them.
package node_pool

import data.lib.mirror_pods
import data.lib.pod_specs
import data.review
import data.settings

# METADATA
# description: The facts that the decision is based on, one sentence each.
explanation contains sprintf("node-pool does not apply to a %s of kind %s", [input.request.operation, review.kind[1]]) if {
	not pod_specs.template_path
	review.kind != ["", "Namespace"]
}

explanation contains "a mirror pod that its node created: left alone" if mirror_pods.is_mirror

explanation contains "the update does not change spec.nodeSelector: left alone" if {
	pod_specs.is_pod
	input.request.operation == "UPDATE"
	not update_matters
	not loses_last_gate
}

explanation contains "its last scheduling gate is removed, and no pool has placed it yet: decided like a new pod" if {
	loses_last_gate
}

explanation contains "the update does not change the template: left alone" if {
	pod_specs.is_template
	input.request.operation == "UPDATE"
	not creates_pods
}

explanation contains sprintf("node-pool changes only the pods of a %s", [review.kind[1]]) if {
	readable
	creates_pods
	not gets_assignment
}

explanation contains sprintf("namespace %q has no pool: its pods are left alone", [namespace]) if {
	applies
	label_known
	not pool_name
}

explanation contains sprintf("its template has nodeSelector %s from an earlier decision, not from its author", [given]) if {
	count(inherited_selector) > 0
	given := selector_text(inherited_selector)
}

explanation contains "what an earlier pool gave to its template is removed" if pool_withdrawn

explanation contains sprintf(
	"namespace %q belongs to pool %q by its label %s",
	[namespace, pool_name, settings.namespace_label],
) if {
	applies
	namespace_label != null
}

explanation contains sprintf(
	"namespace %q has no label %s: the default pool %q",
	[namespace, settings.namespace_label, pool_name],
) if {
	applies
	namespace_label == null
}

explanation contains sprintf("pool %q gives nodeSelector %s and %s", [pool_name, given, _given_tolerations]) if {
	applies
	given := selector_text(assignment.nodeSelector)
}

explanation contains "the pod already has the whole assignment" if {
	placed
	patch == []
}

_given_tolerations := "1 toleration" if count(assignment.tolerations) == 1

else := sprintf("%d tolerations", [count(assignment.tolerations)])
