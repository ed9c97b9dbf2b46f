# What is told of node-pool placement beyond the decision: to audit logs, and to `fairlead audit`.
package node_pool

# METADATA
# description: What audit logs are told of an admitted request; empty where this intent has no say in it.
default audit := ""

audit := sprintf("placed: %s", [_pool]) if _placed

audit := sprintf("placed: %s", [_pool]) if _moved

# METADATA
# description: The pool that decides on a pod, and the labels of its nodes; no labels where it is no declared pool.
placement := {"pool": _pool, "nodeSelector": object.get(_assignment, "nodeSelector", {})} if {
	_judged
} else := {"pool": _pool, "nodeSelector": {}} if {
	_judged
}
