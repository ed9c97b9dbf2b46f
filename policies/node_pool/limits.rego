# What a pod lacks of what its pool gives, and has of what its pool does not allow.
package node_pool

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
	not _covered(toleration, kept_tolerations)
]

# Undefined where the pool allows any.
allowed_tolerations := {_toleration_text(toleration) |
	some toleration in array.concat(assignment.allowedTolerations, assignment.tolerations)
}

foreign_tolerations contains _toleration_text(toleration) if {
	assignment.allowedTolerations
	some toleration in (new_tolerations - inherited_tolerations)
	not _covered(toleration, _permitted_tolerations)
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

# As in Kubernetes' own admission plugin PodTolerationRestriction (pkg/util/tolerations, isSuperset).
_covered(toleration, others) if {
	some other in others
	_covers(other, toleration)
}

_covers(wide, toleration) if wide == toleration

_covers(wide, toleration) if {
	_covers_key(wide, toleration)
	_field(wide, "effect") in {"", _field(toleration, "effect")}
	_covers_seconds(wide, toleration)
	_covers_value(wide, toleration)
}

_covers_key(wide, toleration) if _field(wide, "key") == _field(toleration, "key")

# No key and Exists is every key.
_covers_key(wide, _) if {
	_field(wide, "key") == ""
	wide.operator == "Exists"
}

_covers_seconds(wide, _) if _field(wide, "tolerationSeconds") == ""

_covers_seconds(wide, toleration) if toleration.tolerationSeconds <= wide.tolerationSeconds

_covers_value(wide, _) if wide.operator == "Exists"

# No operator is Equal; Lt and Gt cover just themselves.
_covers_value(wide, toleration) if {
	_field(wide, "operator") in {"", "Equal"}
	_field(toleration, "operator") in {"", "Equal"}
	_field(wide, "value") == _field(toleration, "value")
}

_field(toleration, name) := or_empty(object.get(toleration, name, ""), "")

# As `key=value:effect`, the way taints are written; `*` is every key.
_toleration_text(toleration) := concat("", [_key_text(_field(toleration, "key")), value, effect, seconds]) if {
	value := _prefixed("=", _field(toleration, "value"))
	effect := _prefixed(":", _field(toleration, "effect"))
	seconds := _prefixed(" for ", _seconds_text(_field(toleration, "tolerationSeconds")))
} else := json.marshal(toleration)

_key_text("") := "*"

_key_text(key) := key if key != ""

_seconds_text("") := ""

_seconds_text(seconds) := sprintf("%d s", [seconds]) if seconds != ""

_prefixed(_, "") := ""

_prefixed(mark, text) := concat("", [mark, text]) if text != ""
