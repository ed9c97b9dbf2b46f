# What is made of a pod or a DaemonSet's template: the assignment is added, as far as it is missing, and what an earlier
# decision gave is taken away, as far as the pool does not give it any more. A namespace without a pool gives nothing.
package node_pool

# A pod needs no note: nobody applies it again.
_mutation := array.concat(_selector_operations, _tolerations_operations) if _is_pod

else := array.flatten([_selector_operations, _tolerations_operations, _note_operations])

_selector_after := object.union(_own_selector, _given.nodeSelector)

_selector_operations := [] if _selector_after == _selector

else := [{"op": "remove", "path": _path("nodeSelector")}] if count(_selector_after) == 0

else := [{"op": "add", "path": _path("nodeSelector"), "value": _selector_after}]

_tolerations_after := array.concat(_kept_tolerations, _missing_tolerations)

_tolerations_operations := _append(_missing_tolerations) if count(_kept_tolerations) == count(_tolerations)

else := [{"op": "remove", "path": _path("tolerations")}] if count(_tolerations_after) == 0

else := [{"op": "add", "path": _path("tolerations"), "value": _tolerations_after}]

_append(missing) := [{"op": "add", "path": _path("tolerations"), "value": missing}] if {
	count(missing) > 0
	count(_tolerations) == 0
} else := [{"op": "add", "path": _path("tolerations/-"), "value": toleration} | some toleration in missing]

# What the next decision must know to be of this one, and not of the author.
_note_after := {
	"nodeSelector": {key: value |
		some key, value in _given.nodeSelector
		object.get(_own_selector, key, null) != value
	},
	"tolerations": array.concat(
		[toleration | some toleration in _kept_tolerations; toleration in _inherited_tolerations],
		_missing_tolerations,
	),
}

_note_operations := [operation | _note_text; operation := {"op": "remove", "path": _note_path}] if _is_empty_note

else := [{"op": "add", "path": _note_path, "value": json.marshal(_note_after)}] if {
	is_object(_template_metadata.annotations)
	json.marshal(_note_after) != object.get(_template_metadata.annotations, _note_key, null)
}

else := [{"op": "add", "path": _annotations_path, "value": {_note_key: json.marshal(_note_after)}}] if {
	object.get(_template_metadata, "annotations", null) == null
}

else := []

_is_empty_note if _note_after == {"nodeSelector": {}, "tolerations": []}

_annotations_path := concat("/", array.flatten(["", _template, "metadata", "annotations"]))

# A slash within a key is written ~1 (RFC 6901).
_note_path := concat("/", [_annotations_path, replace(_note_key, "/", "~1")])
