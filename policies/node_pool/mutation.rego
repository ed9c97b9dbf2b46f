# The patch of a pod or a DaemonSet's template. It adds what is missing of the assignment, removes what an earlier
# decision added and the pool no longer gives, and notes what it did. Without a pool, the assignment is empty.
package node_pool

import data.lib.pod_specs

mutation := array.flatten([_selector_operations, _tolerations_operations, _pod_note_operations]) if pod_specs.is_pod

else := array.flatten([_selector_operations, _tolerations_operations, _note_operations])

_selector_after := object.union(own_selector, pool_gives.nodeSelector)

_selector_operations := [] if _selector_after == node_selector

else := [{"op": "remove", "path": pointer("nodeSelector")}] if count(_selector_after) == 0

else := [{"op": "add", "path": pointer("nodeSelector"), "value": _selector_after}]

_tolerations_after := array.concat(kept_tolerations, missing_tolerations)

_tolerations_operations := _append(missing_tolerations) if count(kept_tolerations) == count(pod_tolerations)

else := [{"op": "remove", "path": pointer("tolerations")}] if count(_tolerations_after) == 0

else := [{"op": "add", "path": pointer("tolerations"), "value": _tolerations_after}]

_append(missing) := [{"op": "add", "path": pointer("tolerations"), "value": missing}] if {
	count(missing) > 0
	count(pod_tolerations) == 0
} else := [{"op": "add", "path": pointer("tolerations/-"), "value": toleration} | some toleration in missing]

# A new pod that the decision changes is noted with what it then has: the API server asks about the final state only if
# that differs from the note (finalState in intent.yaml). A note that came with the pod is replaced, because anyone can
# write one. A pod with very many keys and tolerations has no note, because annotations are limited.
_pod_note_operations := [] if not _is_noted

else := [{"op": "add", "path": "/metadata/annotations", "value": {note_key: _pod_note}}] if {
	object.get(input.request.object.metadata, "annotations", null) == null
	_pod_note
} else := [{"op": "add", "path": _pod_note_path, "value": _pod_note}] if {
	is_object(input.request.object.metadata.annotations)
	_note_before != _pod_note
} else := [{"op": "remove", "path": _pod_note_path}] if {
	_note_before != null
	not _pod_note
} else := []

_is_noted if {
	input.request.operation == "CREATE"
	not input.finalState
	[_selector_operations, _tolerations_operations, _note_before] != [[], [], null]
}

_note_before := object.get(input.request.object, ["metadata", "annotations", note_key], null)

_pod_note := json.marshal({"nodeSelector": _selector_after, "tolerations": _tolerations_after}) if {
	count(_selector_after) + count(_tolerations_after) <= 100
}

# JSON Pointers write a slash within a key as ~1 (RFC 6901).
_pod_note_path := "/metadata/annotations/fairlead.dev~1assigned"

# The parts of a template that come from a decision and not from the author, for the next decision.
_note_after := {
	"nodeSelector": {key: value |
		some key, value in pool_gives.nodeSelector
		object.get(own_selector, key, null) != value
	},
	"tolerations": array.concat(
		[toleration | some toleration in kept_tolerations; toleration in inherited_tolerations],
		missing_tolerations,
	),
}

_note_operations := [operation | note_text; operation := {"op": "remove", "path": _note_path}] if _is_empty_note

else := [{"op": "add", "path": _note_path, "value": json.marshal(_note_after)}] if {
	is_object(template_metadata.annotations)
	json.marshal(_note_after) != object.get(template_metadata.annotations, note_key, null)
}

else := [{"op": "add", "path": _annotations_path, "value": {note_key: json.marshal(_note_after)}}] if {
	object.get(template_metadata, "annotations", null) == null
}

else := []

_is_empty_note if _note_after == {"nodeSelector": {}, "tolerations": []}

_annotations_path := concat("/", array.flatten(["", pod_specs.template_path, "metadata", "annotations"]))

_note_path := concat("/", [_annotations_path, replace(note_key, "/", "~1")])
