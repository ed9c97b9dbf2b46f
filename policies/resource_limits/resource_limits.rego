# METADATA
# title: Resource limits
# description: |
#   Every container requests resources and has limits, and neither is above a maximum for a container or for a pod.
#   Quantities compare by their values, so 1Gi is more than 1G. A pod's amount is what the scheduler counts: sidecars add
#   up with containers, the other init containers run one after another, and the pod's overhead comes on top. Pod-level
#   resources count for all containers. A quantity of 0 is the same as none. An update, such as a resize, is refused only
#   for what it makes wrong; if it makes new pods, what it leaves wrong gets a warning. Mirror pods are left alone, because
#   their nodes run them anyway.
# schemas:
#   - input: schema.admission_review
package resource_limits

import data.lib.mirror_pods
import data.lib.pod_specs
import data.lib.quantities
import data.lib.resources
import data.lib.templates
import data.review
import data.settings

# METADATA
# description: What this intent has to say of the request.
decision := {"deny": deny, "patch": [], "warn": warn}

# METADATA
# description: Why the request is refused.
deny contains sprintf("%s: %s", [review.subject, problem]) if {
	not mirror_pods.is_mirror
	some problem in (pod_specs.problems | _problems)
}

# METADATA
# description: What an update leaves wrong in a template.
warn contains templates.warning("resource-limits", problem) if {
	templates.changes
	some problem in (_of(pod_specs.of(input.request.object)) & _of(pod_specs.of(input.request.oldObject)))
}

_problems := _of(pod_specs.of(input.request.object)) if input.request.operation == "CREATE"

# What was wrong before, somebody else has to put right.
_problems := _of(pod_specs.of(input.request.object)) - _of(pod_specs.of(input.request.oldObject)) if {
	input.request.operation == "UPDATE"
}

_of(spec) := ((_unreadable(spec) | _missing(spec)) | _large_containers(spec)) | _large_pods(spec)

_unreadable(spec) := {problem |
	some entry in _containers(spec)
	some list, names in _names
	some name in names
	value := entry.container.resources[list][name]
	not _is_quantity(value)
	problem := sprintf(
		"%s has the %s %s %s, which is not a quantity: write it like 500m or 1Gi",
		[entry.title, name, _nouns[list], json.marshal(value)],
	)
} | {problem |
	some path in [["resources", "requests"], ["resources", "limits"], ["overhead"]]
	some name, value in object.get(spec, path, {})
	name in (_names.requests | _names.limits)
	not _is_quantity(value)
	problem := sprintf("the pod has %s %s, which is not a quantity: write it like 500m or 1Gi", [name, json.marshal(value)])
}

_is_quantity(value) if quantities.nano(value) >= 0

_missing(spec) := {problem |
	some list, names in _required
	some name in names
	not resources.pod_level(spec, list, name)
	some entry in _containers(spec)
	not resources.amount_of(entry.container, list, name)
	problem := sprintf("%s has no %s %s: set resources.%s.%s", [entry.title, name, _nouns[list], list, name])
}

_large_containers(spec) := {problem |
	some list, rules in _rules
	some name, most in rules.container_max
	some entry in _containers(spec)
	holder := _holder(spec, entry.container, list, name)
	resources.amount_of(holder, list, name) > quantities.nano(most)
	problem := sprintf(
		"%s has the %s %s %s, above the maximum %s: set resources.%s.%s to at most %s",
		[entry.title, name, _nouns[list], _shown(resources.written(holder, list, name)), most, list, name, most],
	)
}

# A container without a limit of its own may use the limit of its pod.
_holder(spec, container, list, name) := container if {
	resources.amount_of(container, list, name)
} else := spec if {
	list == "limits"
	resources.pod_level(spec, list, name)
}

_large_pods(spec) := {problem |
	some list, rules in _rules
	some name, most in rules.pod_max
	total := resources.total_of(spec, list, name)
	total > quantities.nano(most)
	problem := sprintf(
		"all containers together have the %s %s %s, above the maximum %s: lower resources.%s.%s",
		[name, _nouns[list], quantities.text(total), most, list, name],
	)
}

# Ephemeral containers have no resources.
_containers(spec) := [entry | some entry in pod_specs.containers(spec); entry.list != "ephemeralContainers"]

_nouns := {"limits": "limit", "requests": "request"}

_rules[list] := settings.parameters.resource_limits[list] if some list, _ in _nouns

_required["requests"] := {name | some name in _rules.requests.required}

_required["limits"] := {name | some name in _rules.limits.required} | {name |
	some name in ["cpu", "ephemeral-storage", "memory"]
	name in _limited
}

_limited := object.keys(_rules.limits.container_max) | object.keys(_rules.limits.pod_max)

_names[list] := (names | object.keys(_rules[list].container_max)) | object.keys(_rules[list].pod_max) if {
	some list, names in _required
}

_shown(value) := value if is_string(value)

_shown(value) := json.marshal(value) if not is_string(value)
