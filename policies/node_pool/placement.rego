# What is told of node-pool placement beyond the decision: to audit logs, and to `fairlead audit`.
package node_pool

# METADATA
# description: What audit logs are told of an admitted request; empty where this intent has no say in it.
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
