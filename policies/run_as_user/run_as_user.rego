# METADATA
# title: Run as user
# description: |
#   Every container runs as an allowed user; as any but root, unless the parameters say otherwise. What a container sets
#   takes the place of what its pod sets. A container without runAsUser runs as the user of its image, which nobody knows
#   at admission: that is allowed if all users are, or all but root and runAsNonRoot is true. Init containers and
#   ephemeral containers count, and the templates of workloads; an update of a template that leaves its users gets a warning
#   about them. Pods with os.name windows are left alone, because Windows has no such users, and mirror pods, because their
#   nodes run them anyway.
# schemas:
#   - input: schema.admission_review
package run_as_user

import data.lib.mirror_pods
import data.lib.pod_specs
import data.lib.templates
import data.review
import data.settings

# METADATA
# description: What this intent has to say of the request.
decision := {"deny": deny, "patch": [], "warn": warn}

# METADATA
# description: Why the request is refused.
deny contains sprintf("%s: %s", [review.subject, problem]) if {
	input.request.operation in {"CREATE", "UPDATE"}
	not mirror_pods.is_mirror
	some problem in (pod_specs.problems | _new_problems)
}

# METADATA
# description: What an update leaves wrong in a template.
warn contains templates.warning("run-as-user", problem) if {
	_is_left
	some problem in _problems
}

_new_problems := _problems if not _is_left

else := set()

# Whether the update makes new pods with the same containers as before.
_is_left if {
	templates.changes
	_containers(input.request.object) == _containers(input.request.oldObject)
}

_problems contains sprintf(
	"%s runs as user %v, which is not within %s: set its securityContext.runAsUser to one of these users",
	[container.title, container.user, _allowed],
) if {
	some container in _checked
	container.user != null
	not _within(container.user, container.user)
}

_problems contains sprintf("%s sets no user, so that its image decides: %s", [container.title, _way_out]) if {
	some container in _checked
	container.user == null
	not _image_may_decide(container)
}

_image_may_decide(container) if {
	not settings.parameters.run_as_user.require_user
	_within(_least[container.non_root], _most)
}

# The least user that an image can name, by whether runAsNonRoot is true.
_least := {true: 1, false: 0}

_most := 2147483647

_way_out := sprintf("set securityContext.runAsNonRoot to true, or securityContext.runAsUser to a user within %s", [_allowed]) if {
	_image_may_decide({"non_root": true})
} else := sprintf("set securityContext.runAsUser to a user within %s", [_allowed])

_within(least, most) if {
	some range in settings.parameters.run_as_user.users
	range.min <= least
	most <= range.max
}

_allowed := concat(" or ", [_range(range.min, range.max) | some range in settings.parameters.run_as_user.users])

_range(least, most) := sprintf("%d or more", [least]) if most == _most

else := sprintf("%d", [least]) if least == most

else := sprintf("%d..%d", [least, most])

# The containers that the request is about, by their paths.
_checked := _containers(input.request.object) if input.request.operation == "CREATE"

_checked := _containers(input.request.object) if templates.changes

_checked := object.remove(_containers(input.request.object), object.keys(_containers(input.request.oldObject))) if {
	input.request.operation == "UPDATE"
	pod_specs.is_pod
}

_containers(workload) := {entry.path: container |
	spec := pod_specs.of(workload)
	object.get(spec, ["os", "name"], "") != "windows"
	some entry in pod_specs.containers(spec)
	container := {
		"title": entry.title,
		"user": _field(entry.container, spec, "runAsUser"),
		"non_root": _field(entry.container, spec, "runAsNonRoot") == true,
	}
}

# A field of a container's securityContext, or of its pod's; null if neither has it.
_field(container, spec, name) := value if {
	value := object.get(container, ["securityContext", name], null)
	value != null
} else := object.get(spec, ["securityContext", name], null)
