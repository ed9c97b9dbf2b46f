# METADATA
# title: Transient access
# description: |
#   The answer to `POST /v0/data/controller`, Metacontroller's sync hook: which binding a transient role binding has now,
#   its status, and when to ask again. The package `lib.transient_access` decides. Every rule here is a part of the
#   answer, so helpers belong there.
# schemas:
#   - input: schema.transient_access
# entrypoint: true
package controller

import data.lib.transient_access as decision

# METADATA
# description: The conditions `effective` and `failed`, as Kubernetes writes conditions.
status := decision.status

# METADATA
# description: |
#   The bindings that there have to be, which are one or none. Without a decision (the request cannot be read, or a module
#   is not loaded yet), OPA answers with an error, because these are two values of one rule. Metacontroller then keeps the
#   children. An answer without `children` would delete them.
children := value if {
	decided := [bindings | bindings := decision.children]
	because := [why | why := decision.unreadable]
	undecided := array.concat(because, ["there is no decision, so that OPA answers with an error", "and no child is deleted"])
	some value in {0: undecided, 1: decided}[count(decided)]
}

# METADATA
# description: The seconds until the next transition, at most an hour; 0 if there is none.
resyncAfterSeconds := decision.resync_after_seconds # regal ignore:prefer-snake-case

# METADATA
# description: Whether the parent may go; only an answer to a request that finalizes has it.
finalized := decision.finalized
