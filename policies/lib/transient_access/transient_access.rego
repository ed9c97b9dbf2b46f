# METADATA
# title: Transient access
# description: |
#   Who has a role by a TransientRoleBinding or a TransientClusterRoleBinding now: nobody before `validFrom`, its subjects
#   from then on, and nobody from `validUntil` on. The decision depends on the request and the time alone. docs/access.md
#   explains it.
# schemas:
#   - input: schema.transient_access
package lib.transient_access

import data.lib.instants

# METADATA
# description: The bindings that there have to be. Undefined if the request cannot be read.
children := _children if not unreadable

_children := [_binding] if {
	_phase == "Granted"
} else := []

# METADATA
# description: The new status of the parent.
status := {"conditions": [_effective_condition, _failed_condition]} if not unreadable

# METADATA
# description: |
#   When to ask again: at the next transition, or earlier if a child is missing or still there. 0 if nothing is to come.
resync_after_seconds := _wait if not unreadable

_wait := min(_waits) if {
	count(_waits) > 0
} else := 0

_waits contains instants.seconds_until(_now, _next, _longest_wait) if _next

_waits contains _retry if not _is_settled

_next := _from if _phase == "Pending"

_next := _until if _phase in {"Granted", "NotApproved"}

# Metacontroller computes with nanoseconds in 64 bits, and a far larger number makes it ask again at once.
_longest_wait := 3600

# Events tell of nearly every change; this is for what they do not tell of. It takes ever longer, because the reason may
# last: a name that is taken, or a missing right.
_retry := max([1, min([60, _now[0] - _since[0]])]) if {
	_since
} else := 1

_since := _from if _phase == "Granted"

_since := _until if _phase == "Expired"

# METADATA
# description: Whether no child is left; undefined for a request that does not finalize.
finalized := count(_observed) == 0 if { # regal ignore:boolean-assignment
	input.finalizing == true
	not unreadable
}
