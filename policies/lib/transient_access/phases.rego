# Where the parent stands now, and whether anybody has access by it.
package lib.transient_access

# The beginning belongs to the window and the end does not. A parent that goes away has no access left, whatever its times.
_phase := "Deleted" if {
	_goes
} else := "Invalid" if {
	count(_mistakes) > 0
} else := "Expired" if {
	_until <= _now
} else := "NotApproved" if {
	_waits_for_approval
} else := "Pending" if {
	_now < _from
} else := "Granted"

# API servers let an approver set this, who is not the requester (86-access.yaml).
_waits_for_approval if {
	_spec.needsApproval == true
	not _is_name(object.get(_parent, "approvedBy", null))
}

_goes if input.finalizing == true

_goes if is_string(_metadata.deletionTimestamp)

# What is observed counts here, and not what the answer asks for: a child may be refused, or may outlive its time.
default _is_effective := false

_is_effective if {
	_phase == "Granted"
	some child in _observed
	_grants(child)
}

_is_effective if {
	_phase != "Granted"
	count(_observed) > 0
}

# Whether what is observed is what should be.
default _is_settled := false

_is_settled if {
	_phase == "Granted"
	count(_observed) == 1
	_is_as_wanted(_observed[0])
}

_is_settled if {
	_phase != "Granted"
	count(_observed) == 0
}
