# METADATA
# title: Node-pool placement
# description: |
#   Every pod of a namespace that is mapped to a node pool gets the pool's assignment (nodeSelector and tolerations),
#   and a pod that would evade it is refused. The templates of DaemonSets get the assignment, too. The template of
#   another workload gets a warning if its pods would be refused. docs/node-pool.md has the contract.
# schemas:
#   - input: schema.admission_review
package node_pool

import data.lib.pod_specs
import data.lib.templates
import data.review
import data.settings

# METADATA
# description: The decision of this intent - `deny` and `warn` are sets of messages, `patch` is a list of operations.
decision := {"deny": set(), "patch": patch, "warn": set()} if fits

else := {"deny": deny, "patch": patch, "warn": warn}

# Whether the pod, or each pod of the template, may have all that it asks for in its namespace's pool. This alone decides
# about them. The reasons that follow say what is wrong if it does not hold, and none of them admits anything.
fits if {
	creates_pods
	assignment
	object.get(pod_spec, "nodeName", null) in {"", null}
	is_array(pod_tolerations)
	_selector_fits
	_within_limits
}

fits if {
	update_matters
	readable
	assignment
	_stays_in_pool
	_within_limits
}

_selector_fits if {
	settings.pod_selector == "reject"
	own_selector in [{}, assignment.nodeSelector]
}

# A gated pod may have tightened its own nodeSelector within the pool (KEP-3838).
_selector_fits if {
	loses_last_gate
	includes(node_selector, assignment.nodeSelector)
}

_selector_fits if {
	settings.pod_selector == "merge"
	is_object(own_selector) # otherwise there are no conflicts, either
	count(_conflicts) == 0
}

_within_limits if {
	not assignment.allowedNodeSelector
	not assignment.allowedTolerations
}

_within_limits if {
	count(foreign_selector) == 0
	count(foreign_tolerations) == 0
}

_stays_in_pool if not selector_changed

_stays_in_pool if includes(node_selector, assignment.nodeSelector)

# METADATA
# description: The reasons why the request is refused.
deny contains message if {
	gets_assignment
	not readable
	some message in unreadable
}

deny contains sprintf("%s: namespace %q is not known to the policy yet: retry in a moment", [subject, namespace]) if {
	gets_assignment
	applies
	not label_known
	not pool_withdrawn
}

deny contains message if {
	pod_specs.is_pod
	some message in _reasons
}

# METADATA
# description: The warnings that the user sees if the request is admitted.
warn contains templates.warning("node-pool", message) if {
	pod_specs.is_template
	some message in _reasons
}

warn contains sprintf(
	"%s=%s is not a declared pool, so every pod of namespace %q %s be refused: use one of %s",
	[settings.namespace_label, reviewed_label, review.name, templates.will("node-pool"), declared_pools],
) if {
	review.kind == ["", "Namespace"]
	not is_declared(reviewed_label)
	object.get(input.request, ["oldObject", "metadata", "labels", settings.namespace_label], null) != reviewed_label
}

# METADATA
# description: The JSON Patch (RFC 6902) that adds or removes an assignment; empty if there is nothing to change.
patch := mutation if placed

else := mutation if pool_withdrawn

else := [] if {
	not placed
	not pool_withdrawn
}

# Whether the object gets what it lacks of the assignment.
placed if {
	gets_assignment
	creates_pods
	fits
}

# Whether the update of a pod has to satisfy the assignment.
update_checked if {
	update_matters
	assignment
}

# The reasons why the pod is refused, or why every pod of the template would be. Nothing is admitted for want of one.
_reasons := set() if not readable

else := _refusals if count(_refusals) > 0

else := {sprintf("%s does not fit pool %q of namespace %q", [offender, pool_name, namespace])} if {
	applies
	pool_name
	not fits
} else := set()

_refusals contains sprintf(
	"namespace %q has %s=%s, which is not a declared pool: relabel the namespace with one of %s",
	[namespace, settings.namespace_label, pool_name, declared_pools],
) if {
	applies
	not is_declared(pool_name)
}

_refusals contains sprintf(
	"%s sets spec.nodeName=%s, but namespace %q places its pods in pool %q: remove spec.nodeName",
	[offender, pod_spec.nodeName, namespace, pool_name],
) if {
	creates_pods
	assignment
	not object.get(pod_spec, "nodeName", "") in {"", null}
}

_refusals contains sprintf(
	"%s sets spec.nodeSelector %s, but namespace %q places its pods in pool %q%s: remove spec.nodeSelector, or set just %s%s",
	[offender, selector_text(own_selector), namespace, pool_name, _lack, selector_text(assignment.nodeSelector), _hint],
) if {
	creates_pods
	settings.pod_selector == "reject"
	not _selector_fits
}

_refusals contains sprintf(
	"%s sets spec.nodeSelector %s, but pool %q of namespace %q requires %s: remove the key, or set the required value%s",
	[offender, selector_text(_conflicts), pool_name, namespace, selector_text(assignment.nodeSelector), _hint],
) if {
	creates_pods
	settings.pod_selector == "merge"
	count(_conflicts) > 0
}

_refusals contains sprintf(
	"%s sets spec.nodeSelector %s, which pool %q of namespace %q does not allow: remove it, or use %s%s",
	[offender, selector_text(foreign_selector), pool_name, namespace, _pairs(allowed_selector), _hint],
) if {
	applies
	count(foreign_selector) > 0
}

_refusals contains sprintf(
	"%s changes spec.nodeSelector so that it leaves pool %q of namespace %q: keep %s",
	[offender, pool_name, namespace, selector_text(assignment.nodeSelector)],
) if {
	selector_changed
	some key, value in assignment.nodeSelector
	object.get(node_selector, key, null) != value
}

_refusals contains sprintf(
	"%s sets the toleration %s, which pool %q of namespace %q does not allow: remove it, or use %s",
	[offender, _sorted(foreign_tolerations), pool_name, namespace, _sorted(allowed_tolerations)],
) if {
	applies
	count(foreign_tolerations) > 0
}

# The author's values of the keys that the pool sets otherwise.
_conflicts := {key: own_selector[key] |
	some key, value in assignment.nodeSelector
	object.get(own_selector, key, value) != value
}

# What the nodeSelector lacks, if all is right that it has.
default _lack := ""

_lack := sprintf(", which also requires %s", [selector_text(missing)]) if {
	object.subset(assignment.nodeSelector, own_selector)
	missing := object.remove(assignment.nodeSelector, own_selector)
}

# The way out for a nodeSelector that no manifest sets.
default _hint := ""

_hint := sprintf(
	`; if its manifest does not set it: kubectl -n %s patch daemonset %s --type json -p '[%s]'`,
	[namespace, review.name, json.marshal({"op": "remove", "path": pointer("nodeSelector")})],
) if {
	pod_specs.is_template
	gets_assignment
	node_selector_of(input.request.oldObject) == node_selector
}

_hint := sprintf(
	"; an earlier pool gave it to DaemonSet %q: kubectl -n %s rollout restart daemonset %s",
	[daemon_sets[0], namespace, daemon_sets[0]],
) if {
	pod_specs.is_pod
	input.request.object.metadata.annotations[note_key]
	daemon_sets := [owner.name |
		some owner in input.request.object.metadata.ownerReferences
		owner.controller == true
		owner.kind == "DaemonSet"
	]
}

_sorted(texts) := concat(", ", sort(texts))

selector_text(selector) := concat(", ", [pair | some key, value in selector; pair := sprintf("%s=%s", [key, value])])

_pairs(choices) := "none" if count(choices) == 0

_pairs(choices) := concat(", ", [pair |
	some key, values in choices
	some value in values
	pair := sprintf("%s=%s", [key, value])
]) if count(choices) > 0
