# What audit logs and `fairlead audit` report of node-pool placement.
package node_pool

# METADATA
# description: The audit annotation of an admitted request; empty if this intent does not apply.
default audit := ""

audit := sprintf("placed: %s", [pool_name]) if placed

audit := sprintf("placed: %s", [pool_name]) if update_checked

# METADATA
# description: The pool that decides on a pod, and the labels of its nodes; no labels where it is no declared pool.
placement := {"pool": pool_name, "nodeSelector": object.get(assignment, "nodeSelector", {})} if {
	applies
} else := {"pool": pool_name, "nodeSelector": {}} if {
	applies
}
