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
# custom:
#   enabled: false
#   parameters:
#     required: [container]
#     properties:
#       container:
#         description: The sidecar, with the fields of a container in a pod.
#         type: object
#         additionalProperties: false
#         required: [name, image]
#         properties:
#           name: {type: string, maxLength: 63, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'}
#           image: {type: string, minLength: 1, maxLength: 1000}
#           restartPolicy: {type: string, enum: [Always], default: Always}
#           command: &texts {type: array, maxItems: 100, items: {type: string, maxLength: 10000}}
#           args: *texts
#           workingDir: {type: string}
#           imagePullPolicy: {type: string, enum: [Always, IfNotPresent, Never]}
#           env:
#             type: array
#             items:
#               type: object
#               additionalProperties: false
#               required: [name]
#               properties:
#                 name: {type: string, minLength: 1}
#                 value: {type: string}
#                 valueFrom: &any {type: object, x-kubernetes-preserve-unknown-fields: true}
#           envFrom: {type: array, items: *any}
#           ports:
#             type: array
#             items:
#               type: object
#               additionalProperties: false
#               required: [containerPort]
#               properties:
#                 containerPort: &port {type: integer, minimum: 1, maximum: 65535}
#                 hostPort: *port
#                 hostIP: {type: string}
#                 name: {type: string, maxLength: 15}
#                 protocol: {type: string, enum: [SCTP, TCP, UDP]}
#           resources:
#             type: object
#             additionalProperties: false
#             properties:
#               limits: &quantities {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}
#               requests: *quantities
#           volumeMounts:
#             type: array
#             maxItems: 50
#             items:
#               type: object
#               additionalProperties: false
#               required: [name, mountPath]
#               properties:
#                 name: &name {type: string, minLength: 1, maxLength: 63}
#                 mountPath: {type: string, minLength: 1}
#                 mountPropagation: {type: string, enum: [Bidirectional, HostToContainer, None]}
#                 readOnly: {type: boolean}
#                 recursiveReadOnly: {type: string, enum: [Disabled, Enabled, IfPossible]}
#                 subPath: {type: string}
#                 subPathExpr: {type: string}
#           lifecycle: *any
#           livenessProbe: *any
#           readinessProbe: *any
#           startupProbe: *any
#           securityContext:
#             type: object
#             additionalProperties: false
#             properties:
#               allowPrivilegeEscalation: {type: boolean}
#               appArmorProfile: *any
#               capabilities: *any
#               privileged: {type: boolean}
#               procMount: {type: string}
#               readOnlyRootFilesystem: {type: boolean}
#               runAsGroup: &id {type: integer, minimum: 0}
#               runAsNonRoot: {type: boolean}
#               runAsUser: *id
#               seLinuxOptions: *any
#               seccompProfile: *any
#               windowsOptions: *any
#           terminationMessagePath: {type: string}
#           terminationMessagePolicy: {type: string, enum: [FallbackToLogsOnError, File]}
#         examples: [{name: mesh-proxy, image: "mesh/proxy:v1.0.0", args: [proxy, sidecar]}]
#       volumes:
#         description: The volumes that the sidecar mounts, each with its name and its source.
#         type: array
#         maxItems: 50
#         items:
#           type: object
#           x-kubernetes-preserve-unknown-fields: true
#           required: [name]
#           properties:
#             name: *name
#         default: []
#       position:
#         description: |-
#           Where among the init containers the sidecar is inserted. The `first` runs while all others do their work; the
#           `last` can use what they prepared.
#         type: string
#         enum: [first, last]
#         default: first
#       on_conflict:
#         description: |-
#           What happens to a pod that uses the name of the sidecar or of one of its volumes for something else: it is
#           admitted without the sidecar and with a warning (`warn`), or refused (`refuse`).
#         type: string
#         enum: [warn, refuse]
#         default: warn
#     x-kubernetes-validations:
#       - rule: >-
#           !has(self.container.volumeMounts)
#           || self.container.volumeMounts.all(mount, self.volumes.exists(volume, volume.name == mount.name))
#         message: container.volumeMounts names a volume that volumes does not have
#   requests:
#     - kinds: [v1/Pod]
#       operations: [CREATE]
#       # Where conflicts are refused, later webhooks may not change or remove the sidecar, either.
#       webhooks: "{{ ['mutating', 'validating'] if parameters.on_conflict == 'refuse' else ['mutating'] }}"
#       conditions:
#         # A mirror pod shows a static pod, which its node runs whatever the API server has.
#         - name: no-mirror-pod
#           expression: >-
#             !('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({})
#             && 'system:nodes' in request.userInfo.?groups.orValue([])
#             && request.userInfo.username == 'system:node:' + object.spec.?nodeName.orValue(''))
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
