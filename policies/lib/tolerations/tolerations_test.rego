package lib.tolerations_test

import data.lib.tolerations

_covers(wide, toleration) if tolerations.covered(toleration, [wide])

test_tolerations_are_named_as_taints_are_written if {
	every toleration, named in {
		{"key": "a", "operator": "Exists"}: "a",
		{"key": "a", "value": "b"}: "a=b",
		{"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 30}: "a=b:NoExecute for 30 s",
		{"operator": "Exists", "effect": "NoSchedule", "key": null}: "*:NoSchedule",
	} {
		tolerations.text(toleration) == named
	}
	tolerations.text("text") == `"text"`
}

test_a_wider_toleration_covers_a_narrower_one if {
	every wide in [
		{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
		{"key": "gpu", "operator": "Exists"},
		{"operator": "Exists", "effect": "NoSchedule"},
		{"operator": "Exists"},
		{"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
		{"key": "gpu", "value": "a"},
	] {
		_covers(wide, {"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"})
		_covers(wide, {"key": "gpu", "value": "a", "effect": "NoSchedule"})
	}
	_covers({"key": "load", "operator": "Gt", "value": "5"}, {"key": "load", "operator": "Gt", "value": "5"})
}

test_another_or_narrower_toleration_covers_nothing if {
	every wide in [
		{"key": "other", "operator": "Exists"},
		{"key": "gpu", "operator": "Exists", "effect": "NoExecute"},
		{"key": "gpu", "value": "b"},
		{"key": "gpu"},
		{"operator": "Exists", "effect": "PreferNoSchedule"},
		{"key": "gpu", "operator": "Gt", "value": "a"},
	] {
		not _covers(wide, {"key": "gpu", "value": "a", "effect": "NoSchedule"})
	}
	not _covers({"key": "gpu", "value": "a"}, {"key": "gpu", "operator": "Exists"})
	not _covers({"key": "load", "value": "5"}, {"key": "load", "operator": "Gt", "value": "5"})
}

test_seconds_cover_as_many_and_fewer if {
	_for := {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}
	wide := object.union(_for, {"tolerationSeconds": 60})
	_covers(wide, object.union(_for, {"tolerationSeconds": 60}))
	_covers(wide, object.union(_for, {"tolerationSeconds": 59}))
	not _covers(wide, object.union(_for, {"tolerationSeconds": 61}))
	not _covers(wide, _for)
	_covers(_for, wide)
}
