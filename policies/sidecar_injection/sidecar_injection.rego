# METADATA
# title: Sidecar injection
# description: |
#   Every new pod gets a sidecar: an init container with restartPolicy Always, which starts before the containers and
#   runs beside them (Kubernetes 1.29 or newer), and the volumes that it mounts. A pod that has it already, with the same
#   image, command and args, is left alone. What else has the name of the sidecar or of one of its volumes stays as it
#   is, with a warning and without a sidecar, or is refused.
# schemas:
#   - input: schema.admission_review
#   - input.request.object: schema.kubernetes.core.v1.Pod
package sidecar_injection

import data.lib.mirror_pods
import data.review
import data.settings

# METADATA
# description: What this intent has to say of the request.
decision := {"deny": deny, "patch": patch, "warn": warn}

# METADATA
# description: Why the request is refused.
deny contains sprintf("pod %q: %s: rename it or remove it", [review.name, conflict]) if {
	settings.parameters.sidecar_injection.on_conflict == "refuse"
	some conflict in _conflicts
}

# METADATA
# description: Why a pod does not get the sidecar.
warn contains sprintf("pod %q: %s, so that no sidecar is injected: rename it or remove it", [review.name, conflict]) if {
	settings.parameters.sidecar_injection.on_conflict == "warn"
	some conflict in _conflicts
}

# METADATA
# description: What adds the sidecar and its volumes.
default patch := []

patch := array.concat(_volume_operations, _container_operations) if {
	_applies
	count(_conflicts) == 0
}

_applies if {
	review.kind == ["", "Pod"]
	not review.subresource
	input.request.operation == "CREATE"
	not mirror_pods.is_mirror
}

_sidecar := settings.parameters.sidecar_injection.container

_init_containers := _list("initContainers")

_volumes := _list("volumes")

_list(field) := _or_empty(object.get(input.request.object, ["spec", field], []))

_or_empty(null) := []

_or_empty(list) := list if list != null

_conflicts contains sprintf(`container "%s" has the name of a sidecar`, [_sidecar.name]) if {
	_applies
	some container in _list("containers")
	container.name == _sidecar.name
}

_conflicts contains sprintf(`init container "%s" differs from the sidecar of that name`, [_sidecar.name]) if {
	_applies
	some container in _init_containers
	container.name == _sidecar.name
	not _runs_the_same(container)
}

_conflicts contains sprintf(`volume "%s" differs from that of sidecar "%s"`, [volume.name, _sidecar.name]) if {
	_applies
	some volume in settings.parameters.sidecar_injection.volumes
	some other in _volumes
	other.name == volume.name
	count(object.keys(volume) - object.keys(other)) > 0
}

# Whether a container runs the same program as the sidecar. API servers and other webhooks set further fields, such as
# resources and volumeMounts, in each container.
_runs_the_same(container) if {
	every field in ["image", "restartPolicy", "command", "args"] {
		_or_empty(object.get(container, field, [])) == object.get(_sidecar, field, [])
	}
}

_missing_volumes := [volume |
	some volume in settings.parameters.sidecar_injection.volumes
	not volume.name in {other.name | some other in _volumes}
]

_volume_operations := [{"op": "add", "path": "/spec/volumes", "value": _missing_volumes}] if {
	count(_volumes) == 0
	count(_missing_volumes) > 0
} else := [{"op": "add", "path": "/spec/volumes/-", "value": volume} | some volume in _missing_volumes]

_container_operations := [] if {
	some container in _init_containers
	container.name == _sidecar.name
} else := [{"op": "add", "path": "/spec/initContainers", "value": [_sidecar]}] if {
	count(_init_containers) == 0
} else := [{"op": "add", "path": path, "value": _sidecar}] if {
	path := {"first": "/spec/initContainers/0", "last": "/spec/initContainers/-"}[settings.parameters.sidecar_injection.position]
}
