# The conditions of the parent. Their texts depend on nothing that changes by itself, because every change of a status is
# a write, after which Metacontroller asks again.
package lib.transient_access

import data.lib.instants

_effective_condition := _condition("effective", "True", "Granted", sprintf("until %s", [_cut(_spec.validUntil)])) if {
	_is_effective
	_phase == "Granted"
} else := _condition("effective", "True", "Ending", sprintf("a %s is still there, and is to be deleted", [_binding_kind])) if {
	_is_effective
} else := _condition("effective", "False", _reason, _message)

_reason := "NotObserved" if _phase == "Granted"

else := _phase

_message := "it is being deleted" if _phase == "Deleted"

_message := "the condition failed says why" if _phase == "Invalid"

_message := "an approver has to set approvedBy to the own name" if _phase == "NotApproved"

_message := sprintf("from %s", [_cut(_spec.validFrom)]) if _phase == "Pending"

_message := sprintf("since %s", [_cut(_spec.validUntil)]) if _phase == "Expired"

_message := sprintf(
	"no %s grants it yet. If this lasts, its name is taken, or the controller may not bind the role",
	[_binding_kind],
) if _phase == "Granted"

_failed_condition := _condition("failed", "True", "Invalid", concat("; ", sort(_mistakes))) if {
	count(_mistakes) > 0
} else := _condition("failed", "False", "Valid", "")

_condition(type, status, reason, message) := object.union(
	{
		"type": type,
		"status": status,
		"reason": reason,
		"message": message,
		"lastTransitionTime": _last_transition(type, status),
	},
	_of_generation,
)

_of_generation := {"observedGeneration": _metadata.generation} if {
	is_number(_metadata.generation)
} else := {}

_last_transition(type, status) := before[0].lastTransitionTime if {
	before := [condition | some condition in _parent.status.conditions; condition.type == type]
	before[0].status == status
	is_string(before[0].lastTransitionTime)
	instants.parse(before[0].lastTransitionTime)
} else := time.format([time.now_ns(), "UTC", "RFC3339"])
