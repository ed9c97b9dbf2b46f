# METADATA
# title: Node-pool placement
# description: |
#   Every pod of a namespace that is mapped to a node pool gets the pool's assignment (nodeSelector and tolerations),
#   and none gets around it. Of the templates that make pods, DaemonSets' get the assignment, too, and of the others one
#   that makes pods in vain is told of. Contract: docs/node-pool.md. Modules are loaded one by one, in the order of their
#   names, so what this one needs comes before it.
# schemas:
#   - input: schema.admission_review
package node_pool

import data.review
import data.settings

# METADATA
# description: What this intent has to say of the request.
decision := {"deny": deny, "patch": patch, "warn": warn}

# METADATA
# description: Why the request is refused.
deny contains message if {
	_enforced
	some message in _unreadable
}

deny contains sprintf("%s: namespace %q is not known to the policy yet: retry in a moment", [_called, _namespace]) if {
	_enforced
	_judged
	not _known
	not _withdrawn
}

deny contains message if {
	_is_pod
	some message in _refusals
}

# METADATA
# description: What a user is told of an admitted request.
warn contains sprintf("every pod of %s %s be refused: %s", [_called, _will, message]) if {
	_is_template
	some message in _refusals
}

warn contains sprintf(
	"%s=%s is no declared pool, so every pod of namespace %q %s be refused: use one of %s",
	[settings.namespace_label, _labelled, review.name, _will, _declared_pools],
) if {
	review.kind == ["", "Namespace"]
	not _declared(_labelled)
	object.get(input.request, ["oldObject", "metadata", "labels", settings.namespace_label], null) != _labelled
}

default _will := "will"

_will := "would" if settings.enforcement["node-pool"] == "warn"

# METADATA
# description: The JSON Patch (RFC 6902) that adds the assignment; empty where the pod has it.
patch := _mutation if _placed

else := _mutation if _withdrawn

else := []

# Whether the assignment is added, as far as it is missing.
_placed if {
	_enforced
	_comes
	_assignment
	count(_refusals) == 0
}

# Whether a pod's update has to satisfy the assignment.
_moved if {
	_changed
	_assignment
}

# Why the pod is refused, or every pod of the template will be.
_refusals contains sprintf(
	"namespace %q has %s=%s, which is no declared pool: relabel the namespace with one of %s",
	[_namespace, settings.namespace_label, _pool, _declared_pools],
) if {
	_judged
	not _declared(_pool)
}

_refusals contains sprintf(
	"%s sets spec.nodeName=%s, which bypasses the scheduler and so pool %q of namespace %q: remove spec.nodeName",
	[_who, _spec.nodeName, _pool, _namespace],
) if {
	_comes
	_assignment
	not object.get(_spec, "nodeName", "") in {"", null}
}

_refusals contains sprintf(
	"%s sets spec.nodeSelector %s, but namespace %q places its pods in pool %q: remove spec.nodeSelector, or set just %s%s",
	[_who, _sorted(object.keys(_own_selector)), _namespace, _pool, _text(_assignment.nodeSelector), _hint],
) if {
	_comes
	settings.pod_selector == "reject"
	not _fits
}

_refusals contains sprintf(
	"%s sets spec.nodeSelector %s against pool %q of namespace %q: remove the key, or set %s%s",
	[_who, _sorted(_conflicts), _pool, _namespace, _text(_assignment.nodeSelector), _hint],
) if {
	_comes
	settings.pod_selector == "merge"
	count(_conflicts) > 0
}

_refusals contains sprintf(
	"%s sets spec.nodeSelector %s, which pool %q of namespace %q does not allow: remove it, or use %s%s",
	[_who, _text(_foreign_selector), _pool, _namespace, _pairs(_allowed_selector), _hint],
) if {
	_judged
	count(_foreign_selector) > 0
}

_refusals contains sprintf(
	"%s changes spec.nodeSelector so that it leaves pool %q of namespace %q: keep %s",
	[_who, _pool, _namespace, _text(_assignment.nodeSelector)],
) if {
	_changed_selector
	some key, value in _assignment.nodeSelector
	object.get(_selector, key, null) != value
}

_refusals contains sprintf(
	"%s sets the toleration %s, which pool %q of namespace %q does not allow: remove it, or use %s",
	[_who, _sorted(_foreign_tolerations), _pool, _namespace, _sorted(_allowed_tolerations)],
) if {
	_judged
	count(_foreign_tolerations) > 0
}

_conflicts contains key if {
	some key, value in _assignment.nodeSelector
	object.get(_own_selector, key, value) != value
}

# Whether `reject` takes the nodeSelector. That of a gated pod may have been tightened within the pool (KEP-3838).
_fits if _own_selector in [{}, _assignment.nodeSelector]

_fits if {
	_freed
	_has(_selector, _assignment.nodeSelector)
}

# What to do about a nodeSelector that no manifest sets.
default _hint := ""

_hint := sprintf(`; if its manifest does not set it: kubectl -n %s patch daemonset %s --type json -p '[%s]'`, [
	_namespace,
	review.name,
	json.marshal({"op": "remove", "path": _path("nodeSelector")}),
]) if {
	_is_template
	_enforced
	_selector_of(input.request.oldObject) == _selector
}

_hint := sprintf("; an earlier pool gave it to DaemonSet %q: kubectl -n %s rollout restart daemonset %s", [
	daemon_sets[0],
	_namespace,
	daemon_sets[0],
]) if {
	_is_pod
	input.request.object.metadata.annotations[_note_key]
	daemon_sets := [owner.name |
		some owner in input.request.object.metadata.ownerReferences
		owner.controller == true
		owner.kind == "DaemonSet"
	]
}

_sorted(texts) := concat(", ", sort(texts))

_text(selector) := concat(", ", [pair | some key, value in selector; pair := sprintf("%s=%s", [key, value])])

_pairs(choices) := "none" if count(choices) == 0

_pairs(choices) := concat(", ", [pair |
	some key, values in choices
	some value in values
	pair := sprintf("%s=%s", [key, value])
]) if {
	count(choices) > 0
}
