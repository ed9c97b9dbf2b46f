# The incoming object: a pod, or a workload with the template of its pods; and what the request changes about it.
package node_pool

import data.lib.mirror_pods
import data.lib.pod_specs
import data.review

# Whether the assignment is added to objects of this kind. Among templates only those of DaemonSets need it: their
# controller picks a pod's node before it creates the pod, and a pod for a node outside of the pool would stay Pending
# for ever.
gets_assignment if pod_specs.is_pod

gets_assignment if is_daemon_set

is_daemon_set if review.kind == ["apps", "DaemonSet"]

# How messages name the object, and the part of it that they are about.
subject := sprintf("pod %q", [review.name]) if pod_specs.is_pod

subject := sprintf("%s %q", [review.kind[1], review.name]) if pod_specs.is_template

offender := subject if pod_specs.is_pod

offender := "its template" if pod_specs.is_template

# Whether the namespace's pool decides anything here.
applies if {
	creates_pods
	readable
}

applies if {
	update_matters
	readable
}

# A pod that is created, or a template by which pods will be.
creates_pods if {
	input.request.operation == "CREATE"
	pod_specs.template_path
	not mirror_pods.is_mirror
}

creates_pods if {
	pod_specs.is_template
	input.request.operation == "UPDATE"
	readable
	pod_specs.template_of(input.request.object) != pod_specs.template_of(input.request.oldObject)
}

creates_pods if loses_last_gate

# Whether the update removes a pod's last scheduling gate before any pool placed the pod. Such a pod was created while
# its namespace had no pool, and could now run on any pool's node. A pod with a pool's nodeSelector was placed already,
# by this label or an earlier one.
loses_last_gate if {
	input.request.operation == "UPDATE"
	pod_specs.is_pod
	_gated(input.request.oldObject)
	not _gated(input.request.object)
	readable
	not has_pool(node_selector_of(input.request.oldObject))
}

_gated(pod) if {
	gates := object.get(pod_specs.of(pod), "schedulingGates", [])
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
	readable
	node_selector != old_selector
}

pod_spec := pod_specs.of(input.request.object)

# Undefined if it has another type.
node_selector := selector if {
	selector := object.get(pod_spec, "nodeSelector", {})
	is_object(selector)
} else := {} if object.get(pod_spec, "nodeSelector", {}) == null

pod_tolerations := written if {
	written := object.get(pod_spec, "tolerations", [])
	is_array(written)
} else := [] if object.get(pod_spec, "tolerations", []) == null

# What the pod had before the update. Empty for a template and for a pod that loses its last gate: all of these has to
# fit the pool, and not only what the update changes.
old_selector := node_selector_of(input.request.oldObject) if _is_old_pod

else := {}

_old_tolerations := _tolerations_of(input.request.oldObject) if _is_old_pod

else := []

# As sets: the difference of two lists would cost the product of their lengths.
new_tolerations := {toleration | some toleration in pod_tolerations} - {toleration | some toleration in _old_tolerations}

_is_old_pod if {
	input.request.operation == "UPDATE"
	pod_specs.is_pod
	not loses_last_gate
}

node_selector_of(value) := or_empty(object.get(pod_specs.of(value), "nodeSelector", {}), {})

_tolerations_of(value) := or_empty(object.get(pod_specs.of(value), "tolerations", []), [])

or_empty(value, empty) := empty if value == null

else := value

# The path of the pod's spec, as a JSON Pointer.
spec_pointer := concat("/", array.flatten(["", pod_specs.template_path, "spec"]))

pointer(field) := concat("/", [spec_pointer, field])

# Whether what is read has the right types, as in all that an API server sends.
readable if {
	_has_namespace
	_is_spec(pod_spec)
	_has_old_spec
}

_has_old_spec if input.request.operation != "UPDATE"

_has_old_spec if _is_spec(pod_specs.of(input.request.oldObject))

_is_spec(spec) if {
	is_object(spec)
	type_name(object.get(spec, "nodeSelector", null)) in {"object", "null"}
	type_name(object.get(spec, "tolerations", null)) in {"array", "null"}
	type_name(object.get(spec, "nodeName", null)) in {"string", "null"}
}

unreadable contains "the request has no namespace: cannot tell which pool its pods belong to" if not _has_namespace

unreadable contains sprintf("request.%s has no pod spec: cannot tell where the pod would run", [side]) if {
	some side in _sides
	not _has_spec(side)
}

unreadable contains sprintf("spec.%s of the pod has the wrong type: cannot tell where the pod would run", [field]) if {
	some side in _sides
	some field, type in {"nodeSelector": "object", "tolerations": "array", "nodeName": "string"}
	not type_name(object.get(pod_specs.of(input.request[side]), field, null)) in {type, "null"}
}

_sides := ["object", "oldObject"] if input.request.operation == "UPDATE"

else := ["object"]

# A helper, because `not is_object(...)` of an undefined value is undefined, and would not deny.
_has_spec(side) if is_object(pod_specs.of(input.request[side]))

_has_namespace if {
	is_string(namespace)
	namespace != ""
}
