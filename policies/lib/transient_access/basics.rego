# What the other modules share. In this package, a file uses only those before it by name: sidecars load one file at a
# time in this order, and OPA takes a file only if all that it names of its own package is there.
package lib.transient_access

import data.lib.instants

_rbac := "rbac.authorization.k8s.io"

# The only place where the time comes from, so that a request is decided at one instant.
_now := instants.of_nanoseconds(time.now_ns())

_parent := input.parent if is_object(input.parent)

_metadata := _parent.metadata if {
	is_object(_parent.metadata)
} else := {}

# The published example's parents have the fields at their top.
_spec := object.get(_parent, "spec", _parent)

# Where a field stands, for sentences.
_field(name) := concat(".", ["spec", name]) if {
	"spec" in object.keys(_parent)
} else := name

_binding_kind := {
	"TransientRoleBinding": "RoleBinding",
	"TransientClusterRoleBinding": "ClusterRoleBinding",
}[_parent.kind]

# METADATA
# description: |
#   Why the request has no answer, in a sentence. API servers and Metacontroller never send such a request. What users can
#   write is one of the `_mistakes` instead.
unreadable := "input.parent is not an object: send the request of a sync hook" if {
	not _parent
} else := sprintf(
	"input.parent has the kind %s: only TransientRoleBinding and TransientClusterRoleBinding have a decision",
	[_shown(object.get(_parent, "kind", null))],
) if {
	not _binding_kind
} else := "input.parent.metadata.name is not a name" if {
	not _is_name(object.get(_metadata, "name", null))
} else := "input.parent.metadata.namespace is not a name" if not _is_name(object.get(_metadata, "namespace", "none"))

_is_name(value) if {
	is_string(value)
	value != ""
}

# A value in a sentence, cut, because it may have a megabyte.
_shown(value) := _cut(json.marshal(value))

_cut(text) := concat("", [substring(text, 0, _longest), "..."]) if {
	count(text) > _longest
} else := text

_longest := 100
