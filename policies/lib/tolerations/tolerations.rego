# METADATA
# title: Tolerations
# description: |
#   How tolerations compare, as in Kubernetes' own admission plugin PodTolerationRestriction, and how messages name them.
package lib.tolerations

# METADATA
# description: Whether `toleration` is one of `others`, or narrower than one of them.
covered(toleration, others) if {
	some other in others
	_covers(other, toleration)
}

# METADATA
# description: |
#   The toleration as taints are written, `key=value:effect`, where `*` is every key. A value that is not a toleration is
#   shown as JSON.
text(toleration) := concat("", [_key_text(_field(toleration, "key")), value, effect, seconds]) if {
	value := _prefixed("=", _field(toleration, "value"))
	effect := _prefixed(":", _field(toleration, "effect"))
	seconds := _prefixed(" for ", _seconds_text(_field(toleration, "tolerationSeconds")))
} else := json.marshal(toleration)

# The rules of isSuperset in Kubernetes' pkg/util/tolerations.
_covers(wide, toleration) if wide == toleration

_covers(wide, toleration) if {
	_covers_key(wide, toleration)
	_field(wide, "effect") in {"", _field(toleration, "effect")}
	_covers_seconds(wide, toleration)
	_covers_value(wide, toleration)
}

_covers_key(wide, toleration) if _field(wide, "key") == _field(toleration, "key")

# Exists without a key matches every key.
_covers_key(wide, _) if {
	_field(wide, "key") == ""
	wide.operator == "Exists"
}

_covers_seconds(wide, _) if _field(wide, "tolerationSeconds") == ""

_covers_seconds(wide, toleration) if toleration.tolerationSeconds <= wide.tolerationSeconds

_covers_value(wide, _) if wide.operator == "Exists"

# Without an operator, a toleration means Equal. Lt and Gt cover only themselves.
_covers_value(wide, toleration) if {
	_field(wide, "operator") in {"", "Equal"}
	_field(toleration, "operator") in {"", "Equal"}
	_field(wide, "value") == _field(toleration, "value")
}

# An API server treats null as absent.
_field(toleration, name) := "" if object.get(toleration, name, null) == null

_field(toleration, name) := toleration[name] if toleration[name] != null

_key_text("") := "*"

_key_text(key) := key if key != ""

_seconds_text("") := ""

_seconds_text(seconds) := sprintf("%d s", [seconds]) if seconds != ""

_prefixed(_, "") := ""

_prefixed(mark, text) := concat("", [mark, text]) if text != ""
