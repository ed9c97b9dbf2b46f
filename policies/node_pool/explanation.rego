# Why node-pool placement decided so, in sentences for people who ask (`fairlead eval`); no admission evaluates them.
package node_pool

import data.review
import data.settings

# METADATA
# description: The facts that the decision rests on.
explanation contains sprintf("node-pool has no say in a %s of kind %s", [input.request.operation, review.kind[1]]) if {
	not _template
	review.kind != ["", "Namespace"]
}

explanation contains "a mirror pod of this node's own: left alone" if _mirror

explanation contains "the update leaves spec.nodeSelector as it is: left alone" if {
	_is_pod
	input.request.operation == "UPDATE"
	not _changed
	not _freed
}

explanation contains "its last scheduling gate goes, and no pool has placed it yet: decided as if it were created" if _freed

explanation contains "the update leaves the template as it is: left alone" if {
	_is_template
	input.request.operation == "UPDATE"
	not _comes
}

explanation contains "only its pods are placed, and a template that would make them in vain is warned of" if {
	_comes
	not _enforced
}

explanation contains sprintf("namespace %q has no pool: its pods are left alone", [_namespace]) if {
	_judged
	_known
	not _pool
}

explanation contains sprintf("its template has nodeSelector %s of an earlier decision, and not of its author", [given]) if {
	count(_inherited_selector) > 0
	given := _text(_inherited_selector)
}

explanation contains "what an earlier pool gave to its template is taken away" if _withdrawn

explanation contains sprintf("namespace %q belongs to pool %q by its label %s", [_namespace, _pool, settings.namespace_label]) if {
	_judged
	_label != null
}

explanation contains sprintf("namespace %q has no label %s: the default pool %q", [_namespace, settings.namespace_label, _pool]) if {
	_judged
	_label == null
}

explanation contains sprintf("pool %q gives nodeSelector %s and %d tolerations", [_pool, given, count(tolerations)]) if {
	_judged
	given := _text(_assignment.nodeSelector)
	tolerations := _assignment.tolerations
}

explanation contains "the pod has all of it already" if {
	_placed
	patch == []
}
