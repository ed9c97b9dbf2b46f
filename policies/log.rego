# METADATA
# title: What decision logs show
# description: |
#   OPA asks this of all that it logs. It lists what is shown, not what is hidden: a secret can stand in an environment,
#   an argument, a probe's header, an annotation, a volume, and where nobody thought of. Shown is who asks for what, and
#   what policies decide by. As the guard, OPA reads it from a file, so it holds from the start.
package system.log

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
mask := [{"op": "upsert", "path": "/input", "value": _shown}]

# Nothing is shown of what is no review.
default _shown := {}

_shown := {"apiVersion": input.input.apiVersion, "kind": input.input.kind, "request": object.union(
	object.filter(_request, ["uid", "kind", "operation", "namespace", "name", "subResource", "dryRun"]),
	{
		"userInfo": _only(object.get(_request, "userInfo", null), ["username", "groups"]),
		"object": _object(object.get(_request, "object", null)),
		"oldObject": _object(object.get(_request, "oldObject", null)),
	},
)} if {
	input.input.apiVersion == "admission.k8s.io/v1"
	input.input.kind == "AdmissionReview"
}

_request := input.input.request

_object(it) := object.union(_only(it, ["apiVersion", "kind"]), {
	"metadata": _metadata(object.get(it, "metadata", null)),
	"spec": _spec(object.get(it, "spec", null)),
}) if {
	is_object(it)
} else := null

_metadata(it) := object.union(
	_only(it, ["name", "generateName", "namespace", "labels", "ownerReferences"]),
	{"annotations": _only(object.get(it, "annotations", null), ["kubernetes.io/config.mirror"])},
) if {
	is_object(it)
} else := null

# Of a pod, or of a workload with the template of its pods.
_spec(it) := object.union(_only(it, _placement), _template(it)) if {
	is_object(it)
} else := null

_placement := ["nodeName", "nodeSelector", "tolerations"]

_template(it) := {"template": _pod(it.template)} if {
	it.template
} else := {"jobTemplate": {"spec": {"template": _pod(object.get(it, ["jobTemplate", "spec", "template"], null))}}} if {
	it.jobTemplate
} else := {}

_pod(it) := {"spec": _only(object.get(it, "spec", null), _placement)} if {
	is_object(it)
} else := null

_only(it, fields) := object.filter(it, fields) if {
	is_object(it)
} else := null
