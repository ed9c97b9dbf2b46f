# What a pod lacks of what its pool gives, and has of what its pool does not allow.
package node_pool

import data.lib.tolerations

# What a pool allows beside its own nodeSelector, key to values; undefined where that is anything.
allowed_selector := assignment.allowedNodeSelector

# A comprehension: OPA builds a rule with keys in the square of their number.
foreign_selector := {key: value |
	allowed_selector
	some key, value in own_selector
	not key in object.keys(assignment.nodeSelector)
	not value in object.get(allowed_selector, key, [])
	object.get(old_selector, key, null) != value
}

# Those of the pool that the pod has neither literally nor in a wider one.
missing_tolerations := [toleration |
	some toleration in assignment.tolerations
	not tolerations.covered(toleration, kept_tolerations)
]

# Undefined where the pool allows any.
allowed_tolerations := {tolerations.text(toleration) |
	some toleration in array.concat(assignment.allowedTolerations, assignment.tolerations)
}

foreign_tolerations contains tolerations.text(toleration) if {
	assignment.allowedTolerations
	some toleration in (new_tolerations - inherited_tolerations)
	not tolerations.covered(toleration, _permitted_tolerations)
}

_permitted_tolerations := array.flatten([assignment.allowedTolerations, assignment.tolerations, _added_by_cluster])

# What control planes add to pods by themselves: the plugin DefaultTolerationSeconds, PodTolerationRestriction for pods
# that request memory, and the controller of DaemonSets.
_added_by_cluster := array.concat(_added_to_all, [toleration | _of_daemon_set; some toleration in _added_to_daemons])

_added_to_all := [
	{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
	{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
	{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
]

_added_to_daemons := [
	{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
	{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
	{"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
	{"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
	{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
	{"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"},
]

# Who creates it tells; anyone can name a DaemonSet as the owner.
_of_daemon_set if input.request.userInfo.username == "system:serviceaccount:kube-system:daemon-set-controller"
