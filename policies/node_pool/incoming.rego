# What is placed: the pod of the request, or the template that a workload makes its pods of.
package node_pool

import data.review

# Where the template stands in an object of group/kind; a pod is its own.
_templates := {
	"/Pod": [],
	"/ReplicationController": ["spec", "template"],
	"apps/DaemonSet": ["spec", "template"],
	"apps/Deployment": ["spec", "template"],
	"apps/ReplicaSet": ["spec", "template"],
	"apps/StatefulSet": ["spec", "template"],
	"batch/CronJob": ["spec", "jobTemplate", "spec", "template"],
	"batch/Job": ["spec", "template"],
}

_template := _templates[concat("/", review.kind)]

_is_pod if review.kind == ["", "Pod"]

_is_template if {
	_template
	not _is_pod
}

# Whether the assignment is added to such an object. Of templates only DaemonSets' need it: their controller picks the
# node before there is a pod, and one for a node outside of the pool would stay Pending for ever.
_enforced if _is_pod

_enforced if review.kind == ["apps", "DaemonSet"]

# How messages call the object, and what of it they speak of.
_called := sprintf("pod %q", [review.name]) if _is_pod

_called := sprintf("%s %q", [review.kind[1], review.name]) if _is_template

_who := _called if _is_pod

_who := "its template" if _is_template

# Whether the namespace's pool decides anything here.
_judged if _comes

_judged if _changed

# A pod that is created, or a template by which pods will be.
_comes if {
	input.request.operation == "CREATE"
	_readable
	not _mirror
	not _unread
}

_comes if {
	_is_template
	input.request.operation == "UPDATE"
	_readable
	_spec_and_metadata(input.request.object) != _spec_and_metadata(input.request.oldObject)
	not _unread
}

_comes if _freed

# A pod that no pool decided on when it was created, and that runs once this update takes its last gate away: created
# while its namespace had no pool, it would be on any pool's node. One that has a pool's nodeSelector was placed, by
# this label or an earlier one.
_freed if {
	input.request.operation == "UPDATE"
	_is_pod
	_gated(input.request.oldObject)
	not _gated(input.request.object)
	_readable
	not _has_pool(_selector_of(input.request.oldObject))
}

_gated(it) if {
	gates := object.get(_spec_of(it), "schedulingGates", [])
	is_array(gates)
	count(gates) > 0
}

# All but a changed nodeSelector and further tolerations may be updated, also where the pod was placed by another label
# before. Only a gated pod's nodeSelector can change at all (KEP-3838).
_changed if _changed_selector

_changed if {
	_is_old_pod
	_restricts_tolerations
	count(_new_tolerations) > 0
}

_changed_selector if {
	_is_old_pod
	_readable
	_selector != _old_selector
}

# A mirror pod shows a static pod that runs on its node already. Anyone can set the annotation, so it counts only
# from the node itself.
_mirror if {
	input.request.object.metadata.annotations["kubernetes.io/config.mirror"]
	"system:nodes" in input.request.userInfo.groups
	input.request.userInfo.username == concat("", ["system:node:", input.request.object.spec.nodeName])
}

# Nobody reads a warning to a controller, which makes a ReplicaSet or a Job of what somebody was warned of before.
_unread if {
	not _enforced
	some owner in input.request.object.metadata.ownerReferences
	owner.controller == true
}

_spec := _spec_of(input.request.object)

_spec_of(it) := object.get(it, array.concat(_template, ["spec"]), null)

_spec_and_metadata(it) := object.get(it, _template, null)

_selector := _selector_of(input.request.object)

_tolerations := _tolerations_of(input.request.object)

# What a pod had before; a template, and what is freed of its gates, is looked at as a whole.
_old_selector := _selector_of(input.request.oldObject) if _is_old_pod

_old_selector := {} if not _is_old_pod

_old_tolerations := _tolerations_of(input.request.oldObject) if _is_old_pod

_old_tolerations := [] if not _is_old_pod

# As sets: to look for each in a list would cost the square of their number.
_new_tolerations := {toleration | some toleration in _tolerations} - {toleration | some toleration in _old_tolerations}

_is_old_pod if {
	input.request.operation == "UPDATE"
	_is_pod
	not _freed
}

_selector_of(it) := _or_empty(object.get(_spec_of(it), "nodeSelector", {}), {})

_tolerations_of(it) := _or_empty(object.get(_spec_of(it), "tolerations", []), [])

_or_empty(null, empty) := empty

_or_empty(value, _) := value if value != null

# The path of a field of the pod's spec, as a JSON Pointer.
_path(field) := concat("/", array.flatten(["", _template, "spec", field]))

_readable if count(_unreadable) == 0

_unreadable contains "the request names no namespace: cannot tell which pool its pods belong to" if not _named

_unreadable contains sprintf("request.%s has no spec of a pod: cannot tell where it would run", [side]) if {
	some side in _sides
	not _has_spec(side)
}

_unreadable contains sprintf("spec.%s of the pod is not of its type: cannot tell where it would run", [field]) if {
	some side in _sides
	some field, type in {"nodeSelector": "object", "tolerations": "array", "nodeName": "string"}
	not type_name(object.get(_spec_of(input.request[side]), field, null)) in {type, "null"}
}

_sides := ["object"] if input.request.operation != "UPDATE"

_sides := ["object", "oldObject"] if input.request.operation == "UPDATE"

# A helper, because `not is_object(...)` of something undefined is undefined, and no deny.
_has_spec(side) if is_object(_spec_of(input.request[side]))

_named if {
	is_string(_namespace)
	_namespace != ""
}
