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

template_path := _templates[concat("/", review.kind)]

is_pod if review.kind == ["", "Pod"]

is_template if {
	template_path
	not is_pod
}

# Whether the assignment is added to such an object. Of templates only DaemonSets' need it: their controller picks the
# node before there is a pod, and one for a node outside of the pool would stay Pending for ever.
gets_assignment if is_pod

gets_assignment if review.kind == ["apps", "DaemonSet"]

# How messages call the object, and what of it they speak of.
subject := sprintf("pod %q", [review.name]) if is_pod

subject := sprintf("%s %q", [review.kind[1], review.name]) if is_template

offender := subject if is_pod

offender := "its template" if is_template

# Whether the namespace's pool decides anything here.
applies if creates_pods

applies if update_matters

# A pod that is created, or a template by which pods will be.
creates_pods if {
	input.request.operation == "CREATE"
	_readable
	not is_mirror
	not _unread
}

creates_pods if {
	is_template
	input.request.operation == "UPDATE"
	_readable
	template_of(input.request.object) != template_of(input.request.oldObject)
	not _unread
}

creates_pods if loses_last_gate

# A pod that no pool decided on when it was created, and that runs once this update takes its last gate away: created
# while its namespace had no pool, it would be on any pool's node. One that has a pool's nodeSelector was placed, by
# this label or an earlier one.
loses_last_gate if {
	input.request.operation == "UPDATE"
	is_pod
	_gated(input.request.oldObject)
	not _gated(input.request.object)
	_readable
	not has_pool(node_selector_of(input.request.oldObject))
}

_gated(it) if {
	gates := object.get(_pod_spec_of(it), "schedulingGates", [])
	is_array(gates)
	count(gates) > 0
}

# All but a changed nodeSelector and further tolerations may be updated, also where the pod was placed by another label
# before. Only a gated pod's nodeSelector can change at all (KEP-3838).
update_matters if selector_changed

update_matters if {
	_is_old_pod
	restricts_tolerations
	count(new_tolerations) > 0
}

selector_changed if {
	_is_old_pod
	_readable
	node_selector != old_selector
}

# A mirror pod shows a static pod that runs on its node already. Anyone can set the annotation, so it counts only
# from the node itself.
is_mirror if {
	input.request.object.metadata.annotations["kubernetes.io/config.mirror"]
	"system:nodes" in input.request.userInfo.groups
	input.request.userInfo.username == concat("", ["system:node:", input.request.object.spec.nodeName])
}

# Nobody reads a warning to a controller, which makes a ReplicaSet or a Job of what somebody was warned of before.
_unread if {
	not gets_assignment
	some owner in input.request.object.metadata.ownerReferences
	owner.controller == true
}

pod_spec := _pod_spec_of(input.request.object)

_pod_spec_of(it) := object.get(it, array.concat(template_path, ["spec"]), null)

template_of(it) := object.get(it, template_path, null)

node_selector := node_selector_of(input.request.object)

pod_tolerations := _tolerations_of(input.request.object)

# What a pod had before; a template, and what is freed of its gates, is looked at as a whole.
old_selector := node_selector_of(input.request.oldObject) if _is_old_pod

old_selector := {} if not _is_old_pod

_old_tolerations := _tolerations_of(input.request.oldObject) if _is_old_pod

_old_tolerations := [] if not _is_old_pod

# As sets: to look for each in a list would cost the square of their number.
new_tolerations := {toleration | some toleration in pod_tolerations} - {toleration | some toleration in _old_tolerations}

_is_old_pod if {
	input.request.operation == "UPDATE"
	is_pod
	not loses_last_gate
}

node_selector_of(it) := or_empty(object.get(_pod_spec_of(it), "nodeSelector", {}), {})

_tolerations_of(it) := or_empty(object.get(_pod_spec_of(it), "tolerations", []), [])

or_empty(null, empty) := empty

or_empty(value, _) := value if value != null

# The path of a field of the pod's spec, as a JSON Pointer.
pointer(field) := concat("/", array.flatten(["", template_path, "spec", field]))

_readable if count(unreadable) == 0

unreadable contains "the request names no namespace: cannot tell which pool its pods belong to" if not _named

unreadable contains sprintf("request.%s has no spec of a pod: cannot tell where it would run", [side]) if {
	some side in _sides
	not _has_spec(side)
}

unreadable contains sprintf("spec.%s of the pod is not of its type: cannot tell where it would run", [field]) if {
	some side in _sides
	some field, type in {"nodeSelector": "object", "tolerations": "array", "nodeName": "string"}
	not type_name(object.get(_pod_spec_of(input.request[side]), field, null)) in {type, "null"}
}

_sides := ["object"] if input.request.operation != "UPDATE"

_sides := ["object", "oldObject"] if input.request.operation == "UPDATE"

# A helper, because `not is_object(...)` of something undefined is undefined, and no deny.
_has_spec(side) if is_object(_pod_spec_of(input.request[side]))

_named if {
	is_string(namespace)
	namespace != ""
}
