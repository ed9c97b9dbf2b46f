# METADATA
# title: Node-pool placement
# description: |
#   Every pod of a namespace that is mapped to a node pool gets the pool's assignment (nodeSelector and tolerations),
#   and none gets around it. Contract: docs/node-pool.md.
# schemas:
#   - input: schema.admission_review
package node_pool

import data.namespaces
import data.review
import data.settings

# METADATA
# description: What this intent has to say of the request.
decision := {"deny": deny, "patch": patch, "warn": warn}

# METADATA
# description: Why the request is refused.
deny contains message if some message in _unreadable

deny contains sprintf("pod %q: namespace %q is not known to the policy yet: retry in a moment", [review.name, _namespace]) if {
	_judged
	not _known
}

deny contains sprintf(
	"namespace %q has %s=%s, which is no declared pool: relabel the namespace with one of %s",
	[_namespace, settings.namespace_label, _pool, concat(", ", sort(object.keys(settings.pools)))],
) if {
	_judged
	not _declared(_pool)
}

deny contains sprintf(
	"pod %q sets spec.nodeName=%s, which bypasses the scheduler and so pool %q of namespace %q: remove spec.nodeName",
	[review.name, input.request.object.spec.nodeName, _pool, _namespace],
) if {
	_placed
	not object.get(input.request.object.spec, "nodeName", "") in {"", null}
}

deny contains sprintf(
	"pod %q sets spec.nodeSelector %s, but namespace %q places its pods in pool %q: remove spec.nodeSelector, or set just %s",
	[review.name, _keys(object.keys(_selector)), _namespace, _pool, _text(_assignment.nodeSelector)],
) if {
	_placed
	settings.pod_selector == "reject"
	not _selector in [{}, _assignment.nodeSelector]
}

deny contains sprintf(
	"pod %q sets spec.nodeSelector %s against pool %q of namespace %q: remove the key, or set %s",
	[review.name, _keys(_conflicts), _pool, _namespace, _text(_assignment.nodeSelector)],
) if {
	_placed
	settings.pod_selector == "merge"
	count(_conflicts) > 0
}

deny contains sprintf(
	"pod %q changes spec.nodeSelector so that it leaves pool %q of namespace %q: keep %s",
	[review.name, _pool, _namespace, _text(_assignment.nodeSelector)],
) if {
	_moved
	some key, value in _assignment.nodeSelector
	object.get(_selector, key, null) != value
}

# METADATA
# description: What a user is told of an admitted request.
warn contains sprintf(
	"%s=%s is no declared pool, so every pod of namespace %q will be refused: use one of %s",
	[settings.namespace_label, _labelled, review.name, concat(", ", sort(object.keys(settings.pools)))],
) if {
	review.kind == ["", "Namespace"]
	not _declared(_labelled)
	object.get(input.request, ["oldObject", "metadata", "labels", settings.namespace_label], null) != _labelled
}

# METADATA
# description: The JSON Patch (RFC 6902) that adds the assignment; empty where the pod has it.
patch := array.concat(_selector_patch, _tolerations_patch)

_selector_patch := [{"op": "add", "path": "/spec/nodeSelector", "value": value} |
	_placed
	count(deny) == 0
	value := object.union(_selector, _assignment.nodeSelector)
	value != _selector
]

_tolerations_patch := [operation |
	_placed
	count(deny) == 0
	missing := [toleration |
		some toleration in _assignment.tolerations
		not toleration in _tolerations
	]
	some operation in _append(missing)
]

_append(missing) := [{"op": "add", "path": "/spec/tolerations", "value": missing}] if {
	count(missing) > 0
	count(_tolerations) == 0
} else := [{"op": "add", "path": "/spec/tolerations/-", "value": toleration} | some toleration in missing]

_namespace := input.request.namespace

_labels := namespaces.labels(_namespace)

_known if {
	_labels
	not _late
}

# Without a default pool the API server asks about mapped namespaces only. Where all namespaces are replicated and none
# can be looked up (kube-mgmt, FAIRLEAD_MAPPED_ONLY), one without a pool is one whose new label is still on its way.
_late if {
	object.get(_labels, settings.namespace_label, "") == ""
	settings.default_pool == ""
	opa.runtime().env.FAIRLEAD_MAPPED_ONLY == "true"
}

# An empty label opts out of the default pool.
_pool := _labels[settings.namespace_label] if _labels[settings.namespace_label] != ""

_pool := settings.default_pool if {
	settings.default_pool != ""
	not settings.namespace_label in object.keys(_labels)
}

_labelled := input.request.object.metadata.labels[settings.namespace_label] if {
	input.request.object.metadata.labels[settings.namespace_label] != ""
}

_assignment := {"nodeSelector": {settings.node_label: _pool}, "tolerations": []} if count(settings.pools) == 0

_assignment := object.get(settings.pools, _pool, {}) if object.get(settings.pools, _pool, null) != null

_declared(_) if count(settings.pools) == 0

_declared(pool) if object.get(settings.pools, pool, null) != null

_is_pod if review.kind == ["", "Pod"]

# Whether the namespace's pool decides anything here: a pod that comes, or one that is moved.
_judged if _created

_judged if _changed

_created if {
	_is_pod
	input.request.operation == "CREATE"
	count(_unreadable) == 0
	not _mirror
}

# All but a changed nodeSelector may be updated, also where the pod was placed by another label before. Only a gated
# pod's can change at all (KEP-3838).
_changed if {
	_is_pod
	input.request.operation == "UPDATE"
	count(_unreadable) == 0
	_selector != _selector_of(input.request.oldObject)
}

_placed if {
	_created
	_assignment
}

_moved if {
	_changed
	_assignment
}

# A mirror pod shows a static pod that runs on its node already. Anyone can set the annotation, so it counts only
# from the node itself.
_mirror if {
	input.request.object.metadata.annotations["kubernetes.io/config.mirror"]
	"system:nodes" in input.request.userInfo.groups
	input.request.userInfo.username == concat("", ["system:node:", input.request.object.spec.nodeName])
}

_selector := _selector_of(input.request.object)

_selector_of(pod) := _or_empty(object.get(pod.spec, "nodeSelector", {}), {})

_tolerations := _or_empty(object.get(input.request.object.spec, "tolerations", []), [])

_or_empty(null, empty) := empty

_or_empty(value, _) := value if value != null

_conflicts contains key if {
	some key, value in _assignment.nodeSelector
	object.get(_selector, key, value) != value
}

_unreadable contains "the request names no namespace: cannot tell which pool the pod belongs to" if {
	_is_pod
	not _named
}

_unreadable contains "request.object is not a pod with a spec: cannot tell where it would run" if {
	_is_pod
	not _has_spec(input.request, "object")
}

_unreadable contains "request.oldObject is not a pod with a spec: cannot tell what changed" if {
	_is_pod
	input.request.operation == "UPDATE"
	not _has_spec(input.request, "oldObject")
}

_unreadable contains sprintf("spec.%s of the pod is not of its type: cannot tell where it would run", [field]) if {
	_is_pod
	some field, type in {"nodeSelector": "object", "tolerations": "array", "nodeName": "string"}
	some side in ["object", "oldObject"]
	not type_name(object.get(input.request[side].spec, field, null)) in {type, "null"}
}

# A helper, because `not is_object(...)` of something undefined is undefined, and no deny.
_has_spec(request, side) if is_object(request[side].spec)

_named if {
	is_string(_namespace)
	_namespace != ""
}

_keys(keys) := concat(", ", sort(keys))

_text(selector) := concat(", ", [pair | some key, value in selector; pair := sprintf("%s=%s", [key, value])])
