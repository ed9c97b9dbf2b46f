# The incoming object: a pod, or a workload with the template of its pods; and what the request changes about it.
package node_pool

import data.review

# The path of the pod template in an object, by group/kind. A pod is its own template.
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

# Whether the assignment is added to objects of this kind. Among templates only those of DaemonSets need it: their
# controller picks a pod's node before it creates the pod, and a pod for a node outside of the pool would stay Pending
# for ever.
gets_assignment if is_pod

gets_assignment if review.kind == ["apps", "DaemonSet"]

# How messages name the object, and the part of it that they are about.
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
	not _warned_on_owner
}

creates_pods if {
	is_template
	input.request.operation == "UPDATE"
	_readable
	template_of(input.request.object) != template_of(input.request.oldObject)
	not _warned_on_owner
}

creates_pods if loses_last_gate

# Whether the update removes a pod's last scheduling gate before any pool placed the pod. Such a pod was created while
# its namespace had no pool, and could now run on any pool's node. A pod with a pool's nodeSelector was placed already,
# by this label or an earlier one.
loses_last_gate if {
	input.request.operation == "UPDATE"
	is_pod
	_gated(input.request.oldObject)
	not _gated(input.request.object)
	_readable
	not has_pool(node_selector_of(input.request.oldObject))
}

_gated(pod) if {
	gates := object.get(_pod_spec_of(pod), "schedulingGates", [])
	is_array(gates)
	count(gates) > 0
}

# Whether the update of a pod has to fit the pool: only a changed nodeSelector or new tolerations have to. Any other
# update is allowed, even of a pod that another pool placed. Kubernetes itself lets only a gated pod's nodeSelector
# change (KEP-3838).
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

# Whether the pod is a mirror pod, which represents a static pod that already runs on its node. Anyone can set the
# annotation, so it counts only if the node itself creates the pod.
is_mirror if {
	input.request.object.metadata.annotations["kubernetes.io/config.mirror"]
	"system:nodes" in input.request.userInfo.groups
	input.request.userInfo.username == concat("", ["system:node:", input.request.object.spec.nodeName])
}

# Whether the template's author was already warned. A controller creates a ReplicaSet or a Job from the template of a
# Deployment or a CronJob, and nobody reads the warnings that a controller gets.
_warned_on_owner if {
	not gets_assignment
	some owner in input.request.object.metadata.ownerReferences
	owner.controller == true
}

pod_spec := _pod_spec_of(input.request.object)

_pod_spec_of(value) := object.get(value, array.concat(template_path, ["spec"]), null)

template_of(value) := object.get(value, template_path, null)

node_selector := node_selector_of(input.request.object)

pod_tolerations := _tolerations_of(input.request.object)

# What the pod had before the update. Empty for a template and for a pod that loses its last gate: all of these has to
# fit the pool, and not only what the update changes.
old_selector := node_selector_of(input.request.oldObject) if _is_old_pod

old_selector := {} if not _is_old_pod

_old_tolerations := _tolerations_of(input.request.oldObject) if _is_old_pod

_old_tolerations := [] if not _is_old_pod

# As sets: the difference of two lists would cost the product of their lengths.
new_tolerations := {toleration | some toleration in pod_tolerations} - {toleration | some toleration in _old_tolerations}

_is_old_pod if {
	input.request.operation == "UPDATE"
	is_pod
	not loses_last_gate
}

node_selector_of(value) := or_empty(object.get(_pod_spec_of(value), "nodeSelector", {}), {})

_tolerations_of(value) := or_empty(object.get(_pod_spec_of(value), "tolerations", []), [])

or_empty(null, empty) := empty

or_empty(value, _) := value if value != null

# The path of a field of the pod's spec, as a JSON Pointer.
pointer(field) := concat("/", array.flatten(["", template_path, "spec", field]))

_readable if count(unreadable) == 0

unreadable contains "the request has no namespace: cannot tell which pool its pods belong to" if not _has_namespace

unreadable contains sprintf("request.%s has no pod spec: cannot tell where the pod would run", [side]) if {
	some side in _sides
	not _has_spec(side)
}

unreadable contains sprintf("spec.%s of the pod has the wrong type: cannot tell where the pod would run", [field]) if {
	some side in _sides
	some field, type in {"nodeSelector": "object", "tolerations": "array", "nodeName": "string"}
	not type_name(object.get(_pod_spec_of(input.request[side]), field, null)) in {type, "null"}
}

_sides := ["object"] if input.request.operation != "UPDATE"

_sides := ["object", "oldObject"] if input.request.operation == "UPDATE"

# A helper, because `not is_object(...)` of an undefined value is undefined, and would not deny.
_has_spec(side) if is_object(_pod_spec_of(input.request[side]))

_has_namespace if {
	is_string(namespace)
	namespace != ""
}
