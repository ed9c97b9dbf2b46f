# METADATA
# title: Pod specs
# description: |
#   Where an object has its pod spec, and the containers of that. The object is a pod, or a workload with a template of
#   its pods.
# schemas:
#   - input: schema.admission_review
package lib.pod_specs

import data.review

# METADATA
# description: |
#   The path of the pod template in the request's object, as a list; undefined for other kinds. A pod is its own
#   template.
template_path := {
	"/Pod": [],
	"/ReplicationController": ["spec", "template"],
	"apps/DaemonSet": ["spec", "template"],
	"apps/Deployment": ["spec", "template"],
	"apps/ReplicaSet": ["spec", "template"],
	"apps/StatefulSet": ["spec", "template"],
	"batch/CronJob": ["spec", "jobTemplate", "spec", "template"],
	"batch/Job": ["spec", "template"],
}[concat("/", review.kind)]

# METADATA
# description: Whether the request is about a pod.
is_pod if review.kind == ["", "Pod"]

# METADATA
# description: Whether the request is about a workload with a template of its pods.
is_template if {
	template_path
	not is_pod
}

# METADATA
# description: The path of the pod spec, as messages show it, such as `spec.template.spec`.
path := concat(".", array.concat(template_path, ["spec"]))

# METADATA
# description: The pod template of an object of the request's kind; null if it has none.
template_of(workload) := object.get(workload, template_path, null)

# METADATA
# description: The pod spec of an object of the request's kind; null if it has none.
of(workload) := object.get(workload, array.concat(template_path, ["spec"]), null)

# METADATA
# description: |
#   All containers of a pod spec, in the order of _nouns. Each entry has the `list` and the `index` of a container, the
#   `container` itself, its `path` as messages show it, and its `title`, such as `init container "migrate"`.
containers(spec) := [entry |
	some list, noun in _nouns
	some index, container in spec[list]
	entry := {
		"list": list,
		"index": index,
		"container": container,
		"path": sprintf("%s.%s[%d]", [path, list, index]),
		"title": sprintf("%s %q", [noun, container.name]),
	}
]

_nouns := {
	"containers": "container",
	"ephemeralContainers": "ephemeral container",
	"initContainers": "init container",
}

# METADATA
# description: |
#   Why the pods of the request's object cannot be judged; empty for every object that an API server sends, and for
#   other kinds.
problems contains sprintf("%s is not an object: cannot tell what its pods would do", [path]) if not _has_spec

problems contains sprintf("%s.%s is not a list of containers with names: cannot tell what its pods would do", [path, list]) if {
	some list in object.keys(_nouns)
	value := object.get(of(input.request.object), list, null)
	not _is_list_of_containers(value)
}

# A helper, because `not is_object(...)` of an undefined value is undefined, and no problem.
_has_spec if is_object(of(input.request.object))

_is_list_of_containers(null)

_is_list_of_containers(value) if {
	is_array(value)
	every container in value { is_string(container.name) }
}
