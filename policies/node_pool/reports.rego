# What audit logs and `fairlead audit` say of a decision.
package node_pool

# METADATA
# description: The audit annotation of an admitted request; empty if this intent does not apply.
audit := _placed_in_pool if placed

else := _placed_in_pool if update_checked

else := ""

_placed_in_pool := concat("", ["placed: ", pool_name])

# METADATA
# description: The pool of the pod, and the labels of the pool's nodes; no labels if the pool is not declared.
placement := {"pool": pool_name, "nodeSelector": pool_gives.nodeSelector} if {
	applies
}
