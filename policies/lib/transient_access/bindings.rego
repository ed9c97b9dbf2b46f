# The binding that the parent asks for, and what is observed of it.
package lib.transient_access

# As an API server stores it, so that what is there compares equal, and the same parent always gives the same bytes.
_binding := {
	"apiVersion": _api_version,
	"kind": _binding_kind,
	"metadata": object.union_n([{"name": _metadata.name}, _in_namespace, _labelled]),
	"roleRef": _role(_spec.roleRef),
	"subjects": [subject | some subject in _subjects(_spec.subjects)],
}

_api_version := version if {
	version := input.controller.spec.childResources[0].apiVersion
	_is_name(version)
} else := concat("/", [_rbac, "v1"])

_in_namespace := {"namespace": _metadata.namespace} if {
	_parent.kind == "TransientRoleBinding"
	_metadata.namespace
} else := {}

# Metacontroller finds children by these labels: with generateSelector by the parent's uid, otherwise by its selector.
_labelled := {"labels": labels} if {
	input.controller.spec.generateSelector == false
	labels := _parent.spec.selector.matchLabels
	is_object(labels)
} else := {} if {
	input.controller.spec.generateSelector == false
} else := {"labels": {"controller-uid": _metadata.uid}} if {
	_is_name(_metadata.uid)
} else := {}

_role(reference) := {"apiGroup": _rbac, "kind": reference.kind, "name": reference.name}

# A set, which OPA sorts: lists that differ only in their order are the same, and Recreate would replace the binding.
_subjects(list) := {_subject(subject) | some subject in list}

_subject(subject) := {"kind": "ServiceAccount", "name": subject.name, "namespace": namespace} if {
	subject.kind == "ServiceAccount"
	namespace := _namespace_of(subject)
}

_subject(subject) := {"apiGroup": _rbac, "kind": subject.kind, "name": subject.name} if subject.kind in {"Group", "User"}

# A RoleBinding means its own namespace if a service account has none.
_namespace_of(account) := account.namespace if {
	_is_name(account.namespace)
} else := _in_namespace.namespace

# All children that there are. Any of them may grant something, whatever its name.
_observed := [child | some children in input.children; some child in children; is_object(child)]

# Whether a child gives all subjects the role. By hand, it may give it to others, too.
_grants(child) if {
	child.kind == _binding_kind
	object.get(child.metadata, "namespace", null) == object.get(_binding.metadata, "namespace", null)
	_role(child.roleRef) == _binding.roleRef
	count(_subjects(_binding.subjects) - _subjects(child.subjects)) == 0
}

_is_as_wanted(child) if {
	_grants(child)
	child.metadata.name == _binding.metadata.name
	count(child.subjects) == count(_binding.subjects)
}
