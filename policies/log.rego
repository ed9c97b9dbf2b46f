# METADATA
# title: What decision logs show
# description: |
#   OPA asks this of all that it logs. It lists what is shown, not what is hidden: a secret can stand in an environment,
#   an argument, a probe's header, an annotation, a volume, and where nobody thought of. Shown is who asks for what, and
#   what policies decide by, as few small values: anyone who reaches OPA can send it a megabyte, and it is not for them to
#   fill a disk. As the guard, OPA reads it from a file, so it holds from the start.
package system.log

# Characters of a text, and entries of a list or map, that are shown; legal names and nearly all labels are shorter.
_longest := 256

_most := 32

# Characters of all that is shown of a review, as JSON; where it would be more, its objects are left out.
_longest_review := 16384

# Characters of a patch, which holds a nodeSelector that `podSelector: merge` keeps.
_longest_patch := 8192

# METADATA
# description: Whether an entry is left out - all but admission decisions are, such as what the sidecar reads.
# entrypoint: true
default drop := true

drop := false if input.path == "system/main"

# METADATA
# description: |
#   What is put in the place of the review. It is one rule, so that another module with other rules is a conflict,
#   whereupon OPA logs nothing.
# entrypoint: true
mask := array.concat([{"op": "upsert", "path": "/input", "value": _fitting}], _long_patch)

_long_patch := [{"op": "upsert", "path": "/result/response/patch", "value": text}] if {
	length := count(input.result.response.patch)
	length > _longest_patch
	text := sprintf("%d characters, left out", [length])
} else := []

_fitting := _shown if {
	count(json.marshal(_shown)) <= _longest_review
} else := object.union(_shown, {"request": {"object": "left out", "oldObject": "left out"}})

# Nothing is shown of what is no review.
default _shown := {}

_shown := {"apiVersion": input.input.apiVersion, "kind": input.input.kind, "request": object.union_n([
	_small(_request, ["uid", "operation", "namespace", "name", "subResource", "dryRun"]),
	{"kind": _small(object.get(_request, "kind", null), ["group", "version", "kind"])},
	{
		"userInfo": _user(object.get(_request, "userInfo", null)),
		"object": _object(object.get(_request, "object", null)),
		"oldObject": _object(object.get(_request, "oldObject", null)),
	},
])} if {
	input.input.apiVersion == "admission.k8s.io/v1"
	input.input.kind == "AdmissionReview"
	is_object(_request)
}

_request := input.input.request

_user(it) := object.union(_small(it, ["username"]), _texts(it, "groups")) if {
	is_object(it)
} else := null

_object(it) := object.union(_small(it, ["apiVersion", "kind"]), {
	"metadata": _metadata(object.get(it, "metadata", null)),
	"spec": _spec(object.get(it, "spec", null)),
}) if {
	is_object(it)
} else := null

_metadata(it) := object.union_n([
	_small(it, ["name", "generateName", "namespace"]),
	_pairs(it, "labels"),
	_smalls(it, "ownerReferences", ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"]),
	{"annotations": _annotations(object.get(it, "annotations", null))},
]) if {
	is_object(it)
} else := null

_annotations(it) := _small(it, ["kubernetes.io/config.mirror"]) if {
	is_object(it)
} else := null

# Of a pod, or of a workload with the template of its pods.
_spec(it) := object.union(_placement(it), _template(it)) if {
	is_object(it)
} else := null

_placement(it) := object.union_n([
	_small(it, ["nodeName"]),
	_pairs(it, "nodeSelector"),
	_smalls(it, "tolerations", ["key", "operator", "value", "effect", "tolerationSeconds"]),
	_smalls(it, "schedulingGates", ["name"]),
]) if {
	is_object(it)
} else := null

_template(it) := {"template": _pod(it.template)} if {
	it.template
} else := {"jobTemplate": {"spec": {"template": _pod(object.get(it, ["jobTemplate", "spec", "template"], null))}}} if {
	it.jobTemplate
} else := {}

_pod(it) := object.union({"spec": _placement(object.get(it, "spec", null))}, _note(it)) if {
	is_object(it)
} else := null

# Node-pool placement decides by its note on the template, and by where a note can stand.
_note(it) := {"metadata": _noted(it.metadata)} if {
	is_object(it.metadata)
} else := {}

_noted(metadata) := {"annotations": _small(metadata.annotations, ["fairlead.dev/assigned"])} if {
	is_object(metadata.annotations)
} else := {}

# The fields of an object that are one small value.
_small(it, fields) := {field: value | some field in fields; value := _value(it[field])}

_value(it) := it if is_boolean(it)

# A number can have a million digits.
_value(it) := it if {
	is_number(it)
	count(json.marshal(it)) <= _longest
}

_value(it) := it if {
	is_string(it)
	count(it) <= _longest
}

_value(it) := concat("", [substring(it, 0, _longest), "..."]) if {
	is_string(it)
	count(it) > _longest
}

# A field that is a map of texts. Of one with too many just their number is shown: to pick some, all would be read. A key
# is shown as a whole or not at all: two that begin alike would be in conflict, and nothing would be logged.
_pairs(it, field) := _counted(field, it[field], shown) if {
	is_object(it[field])
	count(it[field]) <= _most
	shown := {key: _value(value) | some key, value in it[field]; count(key) <= _longest}
} else := _counted(field, it[field], {}) if {
	is_object(it[field])
} else := {}

# A field that is a list of texts.
_texts(it, field) := _counted(field, it[field], shown) if {
	is_array(it[field])
	shown := [_value(value) | some value in array.slice(it[field], 0, _most)]
} else := {}

# A field that is a list of objects, of which these fields are shown.
_smalls(it, field, fields) := _counted(field, it[field], shown) if {
	is_array(it[field])
	shown := [_small(value, fields) | some value in array.slice(it[field], 0, _most); is_object(value)]
} else := {}

# A field with what is shown of it, and how many entries are not.
_counted(field, all, shown) := {field: shown} if {
	count(all) == count(shown)
} else := {field: shown, concat("", [field, "LeftOut"]): count(all) - count(shown)}
