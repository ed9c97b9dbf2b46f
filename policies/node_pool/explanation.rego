# Why node-pool placement decided so, in sentences for people who ask (`fairlead eval`); no admission evaluates them.
package node_pool

import data.review
import data.settings

# METADATA
# description: The facts that the decision rests on.
explanation contains sprintf("node-pool has no say in a %s of kind %s", [input.request.operation, review.kind[1]]) if {
	not template_path
	review.kind != ["", "Namespace"]
}

explanation contains "a mirror pod of this node's own: left alone" if is_mirror

explanation contains "the update leaves spec.nodeSelector as it is: left alone" if {
	is_pod
	input.request.operation == "UPDATE"
	not update_matters
	not loses_last_gate
}

explanation contains "its last scheduling gate goes, and no pool has placed it yet: decided as if it were created" if loses_last_gate

explanation contains "the update leaves the template as it is: left alone" if {
	is_template
	input.request.operation == "UPDATE"
	not creates_pods
}

explanation contains "only its pods are placed, and a template that would make them in vain is warned of" if {
	creates_pods
	not gets_assignment
}

explanation contains sprintf("namespace %q has no pool: its pods are left alone", [namespace]) if {
	applies
	label_known
	not pool_name
}

explanation contains sprintf("its template has nodeSelector %s of an earlier decision, and not of its author", [given]) if {
	count(inherited_selector) > 0
	given := selector_text(inherited_selector)
}

explanation contains "what an earlier pool gave to its template is taken away" if pool_withdrawn

explanation contains sprintf("namespace %q belongs to pool %q by its label %s", [namespace, pool_name, settings.namespace_label]) if {
	applies
	namespace_label != null
}

explanation contains sprintf("namespace %q has no label %s: the default pool %q", [namespace, settings.namespace_label, pool_name]) if {
	applies
	namespace_label == null
}

explanation contains sprintf("pool %q gives nodeSelector %s and %d tolerations", [pool_name, given, count(tolerations)]) if {
	applies
	given := selector_text(assignment.nodeSelector)
	tolerations := assignment.tolerations
}

explanation contains "the pod has all of it already" if {
	placed
	patch == []
}
