# What audit logs and `fairlead audit` say of a decision.
package node_pool

# METADATA
# description: The audit annotation of an admitted request; empty if this intent does not apply.
default audit := ""

audit := concat("", ["placed: ", pool_name]) if _is_in_pool

_is_in_pool if placed

_is_in_pool if update_checked

# METADATA
# description: The pool of the pod, and the labels of the pool's nodes; no labels if the pool is not declared.
placement := {"pool": pool_name, "nodeSelector": pool_gives.nodeSelector} if {
	readable
	applies
}
