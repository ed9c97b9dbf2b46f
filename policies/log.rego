# METADATA
# title: The contents of decision logs
# description: |
#   OPA evaluates this package for each decision before it logs it. The package lists what is shown, not what is hidden:
#   a secret can stand in an environment, an argument, a probe's header, an annotation, a volume, or in a place that
#   nobody thought of. An entry shows who requests what, and the values that policies decide by. It is bounded in size,
#   because anyone who reaches OPA can send it a megabyte and would otherwise fill a disk. OPA reads this package from a
#   file, as it does the authz policy, so that it applies from the start.
package system.log

# The most characters of a string, and entries of a list or map, that are shown. Legal names and nearly all labels are
# shorter.
_longest := 256

_most := 32

# The most characters that are shown of a review, as JSON. The objects of a larger one are left out.
_longest_review := 16384

# The most characters of a patch that are shown. A patch can be long: it holds the keys that `podSelector: merge` keeps.
_longest_patch := 8192

# METADATA
# description: |
#   Whether a decision is not logged. Only admission decisions are, and those of PlacementPolicies; the sidecar's reads of
#   data are not.
# entrypoint: true
default drop := true

drop := false if {
	input.path in {"system/main", "signed_bundle/main"}
	not _beyond_sample
}

# The setting decisionLogs.sample comes as a label of OPA, which has it from the start. Refusals, warnings and requests
# without an answer are logged whatever it is. Drawing comes last, so that it costs nothing without the label.
_beyond_sample if {
	share := to_number(input.labels.decision_sample)
	input.result.response.allowed == true
	not input.result.response.warnings
	rand.intn(input.decision_id, 1000000) >= share * 1000000
}

drop := false if _of_policy

# PlacementPolicies are asked by their path. The sidecar says which packages are theirs (tools/fairlead/sync/reconcile.py).
# An admission decision is none of theirs. To split its path, too, would take 40 allocations.
_of_policy if {
	not input.path in {"system/main", "signed_bundle/main"}
	some length in numbers.range(1, count(_path))
	data.fairlead_sync.packages[concat("/", array.slice(_path, 0, length))]
}

_path := split(input.path, "/")

# METADATA
# description: |
#   The operations that replace the review by the part that is shown. It is a complete rule on purpose: if another
#   module adds one, the two conflict, and OPA logs nothing. Of a PlacementPolicy, whose input and result can have any
#   form, only the request's kind and name and the outcome are shown.
# entrypoint: true
mask := [{"op": "upsert", "path": "/input", "value": _plain}] if {
	input.path in {"system/main", "signed_bundle/main"}
	count(object.get(input, ["result", "response", "patch"], "")) <= 8192 # _longest_patch: its name costs 20 allocations
} else := [
	{"op": "upsert", "path": "/input", "value": _subject},
	{"op": "upsert", "path": "/result", "value": _outcome},
] if {
	_of_policy
} else := array.concat([{"op": "upsert", "path": "/input", "value": _fitting}], _long_patch)

_subject := object.union(
	_small(_request, ["namespace", "name"]),
	_small(object.get(_request, "kind", null), ["kind"]),
) if {
	is_object(_request)
} else := object.union(
	_small(_resource, ["kind"]),
	_small(object.get(_resource, "metadata", null), ["namespace", "name"]),
) if {
	is_object(_resource)
} else := {}

_resource := input.input.resource if {
	is_object(input.input.resource)
} else := input.input

_outcome := "refused" if {
	_refused
} else := "allowed" if {
	_allowed
} else := "answered"

# What the caller asked for: one of these rules, or the package with all of its rules.
_asked := {name: input.result} if {
	name := _path[count(_path) - 1]
	name in array.concat(_refusing, _allowing)
} else := input.result

_refused if count(_asked[_refusing[_]]) > 0

_refused if _asked[_allowing[_]] == false

_allowed if count(_asked[_refusing[_]]) == 0

_allowed if _asked[_allowing[_]] == true

_refusing := ["deny", "violation"]

_allowing := ["allow", "allowed"]

_long_patch := [{"op": "upsert", "path": "/result/response/patch", "value": text}] if {
	length := count(input.result.response.patch)
	length > _longest_patch
	text := sprintf("%d characters, left out", [length])
} else := []

# What is shown of a plain review, as nearly all are: of a pod whose values are so few and short that all of them are shown.
# The rules below show the same at up to three times the allocations: `python -m lab fuzz log` compares the two. A call of a function
# costs 15 to 40 allocations and a named constant 20, so the fields and limits stand here as they are, and one check is for
# the values of all fields.
_plain := {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": object.union(request, {
	"kind": kind,
	"userInfo": {"username": asked.userInfo.username, "groups": groups},
	"object": new.shown,
	"oldObject": old.shown,
})} if {
	input.input.apiVersion == "admission.k8s.io/v1"
	input.input.kind == "AdmissionReview"
	asked := input.input.request
	asked.kind.kind == "Pod"
	request := {field: value | some field in ["uid", "operation", "namespace", "name", "subResource", "dryRun"]; value := asked[field]}
	is_object(asked.kind)
	kind := {field: value | some field in ["group", "version", "kind"]; value := asked.kind[field]}
	groups := asked.userInfo.groups
	is_array(groups)
	count(groups) <= 32
	new := _plain_pod(asked.object)
	old := _plain_pod(object.get(asked, "oldObject", null))
	is_boolean(object.get(asked, "dryRun", false))
	own := [object.remove(request, ["dryRun"]), kind, [asked.userInfo.username], groups]
	texts := [text | some part in array.concat(own, array.concat(new.texts, old.texts)); some text in part]

	# They have at most 10,800 characters as JSON, and all else less than 5,400: less than _longest_review together.
	count(concat("", texts)) <= 1800 # undefined if anything is not a text
	[text | some text in texts; count(text) > 256] == []
}

# What is shown of a plain pod, and lists or maps of all the texts in it.
_plain_pod(pod) := {"shown": null, "texts": []} if {
	pod == null
} else := {
	"shown": object.union(typed, {"metadata": object.union(metadata, {"annotations": annotations}), "spec": spec}),
	"texts": array.concat(
		[
			typed, object.remove(metadata, ["labels", "ownerReferences"]), labels, object.keys(labels),
			object.remove(spec, ["nodeSelector", "tolerations"]), selector, object.keys(selector),
		],
		array.concat(owner_texts, [object.remove(toleration, ["tolerationSeconds"]) | some toleration in others]),
	),
} if {
	typed := {field: value | some field in ["apiVersion", "kind"]; value := pod[field]}
	metadata := {field: value |
		some field in ["name", "generateName", "namespace", "labels", "ownerReferences"]
		value := pod.metadata[field]
	}
	labels := object.get(metadata, "labels", {})
	is_object(labels)
	count(labels) <= 32
	owners := object.get(metadata, "ownerReferences", [])
	is_array(owners)
	count(owners) <= 1
	owner_texts := [object.remove(owner, ["controller", "blockOwnerDeletion"]) |
		some owner in owners
		is_boolean(owner.controller)
		is_boolean(owner.blockOwnerDeletion)
		object.remove(owner, ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"]) == {}
	]
	count(owner_texts) == count(owners)
	annotations := {true: {}, false: null}[is_object(object.get(pod.metadata, "annotations", null))]
	object.get(pod.metadata, ["annotations", "kubernetes.io/config.mirror"], null) == null

	spec := {field: value | some field in ["nodeName", "nodeSelector", "tolerations"]; value := pod.spec[field]}
	object.get(pod.spec, "schedulingGates", null) == null
	object.get(pod.spec, "template", false) == false
	object.get(pod.spec, "jobTemplate", false) == false
	selector := object.get(spec, "nodeSelector", {})
	is_object(selector)
	count(selector) <= 32
	tolerations := object.get(spec, "tolerations", [])
	is_array(tolerations)
	count(tolerations) <= 8

	# API servers give nearly every pod these two.
	others := [toleration |
		some toleration in tolerations
		toleration != {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
		toleration != {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
	]
	count([toleration |
		some toleration in others
		object.remove(toleration, ["key", "operator", "value", "effect", "tolerationSeconds"]) == {}
	]) == count(others)
	seconds := json.marshal([toleration.tolerationSeconds | some toleration in tolerations])
	count(seconds) <= 256
	regex.match(`^\[[0-9,]*\]$`, seconds) # only numbers; even one that equals 300 can have a million digits
}

_fitting := _shown if {
	count(json.marshal(_shown)) <= _longest_review
} else := object.union(_shown, {"request": {"object": "left out", "oldObject": "left out"}})

# Nothing is shown of an input that is not a review.
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
	[input.input.apiVersion, input.input.kind] in {["admission.k8s.io/v1", "AdmissionReview"], ["fairlead.dev/v1", "ReducedReview"]}
	is_object(_request)
}

_request := input.input.request

_user(user) := object.union(_small(user, ["username"]), _texts(user, "groups")) if {
	is_object(user)
} else := null

_object(resource) := object.union(_small(resource, ["apiVersion", "kind"]), {
	"metadata": _metadata(object.get(resource, "metadata", null)),
	"spec": _spec(object.get(resource, "spec", null)),
}) if {
	is_object(resource)
} else := null

_metadata(metadata) := object.union_n([
	_small(metadata, ["name", "generateName", "namespace"]),
	_pairs(metadata, "labels"),
	_smalls(metadata, "ownerReferences", ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"]),
	{"annotations": _annotations(object.get(metadata, "annotations", null))},
]) if {
	is_object(metadata)
} else := null

_annotations(annotations) := _small(annotations, ["kubernetes.io/config.mirror"]) if {
	is_object(annotations)
} else := null

# The spec of a pod, or of a workload with a template of its pods.
_spec(spec) := object.union(_placement(spec), _template(spec)) if {
	is_object(spec)
} else := null

_placement(spec) := object.union_n([
	_small(spec, ["nodeName"]),
	_pairs(spec, "nodeSelector"),
	_smalls(spec, "tolerations", ["key", "operator", "value", "effect", "tolerationSeconds"]),
	_smalls(spec, "schedulingGates", ["name"]),
]) if {
	is_object(spec)
} else := null

_template(spec) := {"template": _pod(spec.template)} if {
	spec.template
} else := {"jobTemplate": {"spec": {"template": _pod(object.get(spec, ["jobTemplate", "spec", "template"], null))}}} if {
	spec.jobTemplate
} else := {}

_pod(template) := object.union({"spec": _placement(object.get(template, "spec", null))}, _note(template)) if {
	is_object(template)
} else := null

# Node-pool placement decides by its note in the template's annotations, and by whether there are annotations.
_note(template) := {"metadata": _noted(template.metadata)} if {
	is_object(template.metadata)
} else := {}

_noted(metadata) := {"annotations": _small(metadata.annotations, ["fairlead.dev/assigned"])} if {
	is_object(metadata.annotations)
} else := {}

# The given fields of an object, each as one short value.
_small(parent, fields) := {field: value | some field in fields; value := _value(parent[field])}

_value(value) := value if is_boolean(value)

# A number can have a million digits.
_value(value) := value if {
	is_number(value)
	count(json.marshal(value)) <= _longest
}

_value(value) := value if {
	is_string(value)
	count(value) <= _longest
}

_value(value) := concat("", [substring(value, 0, _longest), "..."]) if {
	is_string(value)
	count(value) > _longest
}

# A field that is a map of strings. If it has too many entries, only their number is shown, because OPA would read all
# of them to pick some. Keys are not cut: two that begin alike would conflict, and nothing would be logged.
_pairs(parent, field) := _counted(field, parent[field], shown) if {
	is_object(parent[field])
	count(parent[field]) <= _most
	shown := {key: _value(value) | some key, value in parent[field]; count(key) <= _longest}
} else := _counted(field, parent[field], {}) if {
	is_object(parent[field])
} else := {}

# A field that is a list of strings.
_texts(parent, field) := _counted(field, parent[field], shown) if {
	is_array(parent[field])
	shown := [_value(value) | some value in array.slice(parent[field], 0, _most)]
} else := {}

# A field that is a list of objects; the given fields of each object are shown.
_smalls(parent, field, fields) := _counted(field, parent[field], shown) if {
	is_array(parent[field])
	shown := [_small(value, fields) | some value in array.slice(parent[field], 0, _most); is_object(value)]
} else := {}

# A field with the entries that are shown, and the number of those that are not.
_counted(field, all, shown) := {field: shown} if {
	count(all) == count(shown)
} else := {field: shown, concat("", [field, "LeftOut"]): count(all) - count(shown)}
