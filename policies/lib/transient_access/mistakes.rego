# What is wrong with what the parent asks for, in sentences.
package lib.transient_access

import data.lib.instants

_from := instants.parse(_spec.validFrom) if is_string(_spec.validFrom)

_until := instants.parse(_spec.validUntil) if is_string(_spec.validUntil)

_mistakes contains "spec is not an object" if not is_object(_spec)

_mistakes contains sprintf("%s is missing: write a time such as 2026-11-21T20:44:36Z", [_field(name)]) if {
	is_object(_spec)
	some name in ["validFrom", "validUntil"]
	object.get(_spec, name, null) == null
}

_mistakes contains message if {
	some name in ["validFrom", "validUntil"]
	value := _spec[name]
	instants.has_leap_second(value)
	message := sprintf(
		"%s is %s, a leap second: write the second before or after it",
		[_field(name), _shown(value)],
	)
}

_mistakes contains message if {
	some name in ["validFrom", "validUntil"]
	value := _spec[name]
	value != null
	not _is_time(value)
	message := sprintf(
		"%s is %s, which is not a time of RFC 3339: write it like 2026-11-21T20:44:36Z or 2026-11-21T21:44:36.5+01:00",
		[_field(name), _shown(value)],
	)
}

_mistakes contains message if {
	_until <= _from
	message := sprintf(
		"%s is %s, which is not after %s, %s: access would end before it begins",
		[_field("validUntil"), _shown(_spec.validUntil), _field("validFrom"), _shown(_spec.validFrom)],
	)
}

_mistakes contains sprintf("%s is neither true nor false", [_field("needsApproval")]) if {
	not is_boolean(object.get(_spec, "needsApproval", false))
}

_mistakes contains message if {
	is_object(_spec)
	not _is_role(object.get(_spec, "roleRef", null))
	message := sprintf(
		"%s is not a role: it has a kind, one of %s, and the name of a role",
		[_field("roleRef"), concat(", ", _role_kinds)],
	)
}

_mistakes contains sprintf("%s is not a list with at least one subject", [_field("subjects")]) if {
	is_object(_spec)
	not _has_subjects
}

_mistakes contains message if {
	is_array(_spec.subjects)
	wrong := [subject | some subject in _spec.subjects; not _is_subject(subject)]
	count(wrong) > 0
	message := sprintf(
		"%s: %s is not a subject: it is a User or Group with a name, or a ServiceAccount with a name and a namespace%s",
		[_field("subjects"), _shown(wrong[0]), _and_more(wrong)],
	)
}

_is_time(value) if {
	is_string(value)
	instants.parse(value)
}

_is_time(value) if instants.has_leap_second(value)

_is_role(reference) if {
	reference.kind in _role_kinds
	object.get(reference, "apiGroup", "") in {"", _rbac}
	is_string(reference.name)
	regex.match(`^[^/%]+$`, reference.name)
	not reference.name in {".", ".."}
}

_role_kinds := {"ClusterRole"} if {
	_parent.kind == "TransientClusterRoleBinding"
} else := {"ClusterRole", "Role"}

_has_subjects if {
	is_array(_spec.subjects)
	count(_spec.subjects) > 0
}

_and_more(wrong) := "" if {
	count(wrong) == 1
} else := sprintf("; %d more have the same mistake", [count(wrong) - 1])

_is_subject(subject) if {
	subject.kind in {"Group", "User"}
	_is_name(subject.name)
	object.get(subject, "apiGroup", "") in {"", _rbac}
}

_is_subject(subject) if {
	subject.kind == "ServiceAccount"
	object.get(subject, "apiGroup", "") == ""
	is_string(subject.name)
	regex.match(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`, subject.name)
	_namespace_of(subject)
}
