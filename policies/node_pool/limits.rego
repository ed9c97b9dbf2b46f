# The limits of a pool: which of its tolerations a pod lacks, and which keys and tolerations of a pod it does not allow.
package node_pool

import data.lib.tolerations

# The further nodeSelector keys that the pool allows, each with its values; undefined if it allows any.
allowed_selector := assignment.allowedNodeSelector

# A comprehension, because the time that OPA takes for a rule with keys grows with the square of their number.
foreign_selector := {key: value |
	allowed_selector
	some key, value in own_selector
	not key in object.keys(assignment.nodeSelector)
	not value in object.get(allowed_selector, key, [])
	object.get(old_selector, key, null) != value
}

# The pool's tolerations that no toleration of the pod covers.
missing_tolerations := [toleration |
	some toleration in assignment.tolerations
	not tolerations.covered(toleration, kept_tolerations)
]

# The allowed tolerations, as text; undefined if the pool allows any.
allowed_tolerations := {tolerations.text(toleration) |
	some toleration in array.concat(assignment.allowedTolerations, assignment.tolerations)
}

foreign_tolerations contains tolerations.text(toleration) if {
	assignment.allowedTolerations
	some toleration in (new_tolerations - inherited_tolerations)
	not tolerations.covered(toleration, _permitted_tolerations)
}

_permitted_tolerations := array.flatten([assignment.allowedTolerations, assignment.tolerations, _added_by_cluster])

# The tolerations that control planes add to pods: by the plugin DefaultTolerationSeconds, by PodTolerationRestriction
# for pods that request memory, and by the DaemonSet controller.
_added_by_cluster := array.concat(_added_to_all, [toleration | _by_daemon_set_controller; some toleration in _added_to_daemons])

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

# The user shows that the pod belongs to a DaemonSet. The owner reference does not: anyone can write one.
_by_daemon_set_controller if input.request.userInfo.username == "system:serviceaccount:kube-system:daemon-set-controller"
