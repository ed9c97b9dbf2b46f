# What a workload needs: how many pods, what they request, and what they tolerate.
package lib.workload_placement

import data.lib.resources

# How many pods the workload runs at the same time.
default replicas := 1

replicas := _stated_replicas if _is_count(_stated_replicas)

_stated_replicas := input.resource.spec.replicas if not _is_job

_stated_replicas := input.resource.spec.parallelism if _is_job

_is_job if input.resource.kind == "Job"

# The spec of its pods; empty if it has none.
pod_spec := spec if {
	spec := object.get(input.resource, array.concat(_template_path, ["spec"]), {})
	spec != null
} else := {}

# Custom resources that run pods have their template where a Deployment has it.
_template_path := ["spec", "jobTemplate", "spec", "template"] if {
	input.resource.kind == "CronJob"
} else := [] if {
	input.resource.kind == "Pod"
} else := ["spec", "template"]

# What all pods request together of each resource, in billionths of its unit.
demand := {name: amount |
	some name, of_pod in _requests
	amount := of_pod * replicas
	amount > 0
}

# What each pod requests.
_requests := {name: amount |
	some name in _requested_resources
	amount := resources.total_of(pod_spec, "requests", name)
	amount > 0
}

# Of too many, none is counted, because for each one all containers and all clusters are looked at.
_requested_resources := _resource_names if {
	count(_resource_names) <= _most_resources
} else := set()

_resource_names := {name | some entry in _quantities; name := entry.name}

_most_resources := 32

_quantities := [{"name": name, "value": value} |
	some list in ["containers", "initContainers"]
	some container in pod_spec[list]
	some kind in ["limits", "requests"]
	some name, value in container.resources[kind]
]

_workload_problems contains "input.resource is no object" if not _has_resource

_has_resource if is_object(input.resource)

_workload_problems contains sprintf("%s is no object", [concat(".", path)]) if {
	_has_resource
	not _has_usual_objects
	some path in _objects
	not _is_object(input.resource, path)
}

# Nearly all workloads have them: to look at each path takes 140 allocations more.
_has_usual_objects if {
	_template_path == ["spec", "template"]
	is_object(object.get(input.resource.metadata, "annotations", {}))
	is_object(object.get(input.resource.metadata, "labels", {}))
	is_object(input.resource.spec.template.spec)
}

_workload_problems contains sprintf("metadata.namespace is %s, which is no name", [shown(_namespace_name)]) if {
	not is_string(_namespace_name)
}

_workload_problems contains sprintf("the number of replicas is %s: it is a whole number from 0 to 1000000", [shown(_stated_replicas)]) if {
	_stated_replicas != null
	not _is_count(_stated_replicas)
}

_workload_problems contains sprintf("%s is no list of containers", [concat(".", array.concat(_template_path, ["spec", list]))]) if {
	some list in ["containers", "initContainers"]
	not is_array(object.get(pod_spec, list, []))
	object.get(pod_spec, list, []) != null
}

_workload_problems contains sprintf("a container has %s %s, which is no quantity: write it like 500m or 1Gi", [entry.name, shown(entry.value)]) if {
	some entry in _quantities
	not _is_quantity(entry.value)
}

_workload_problems contains sprintf("its pods request %d resources: at most %d", [count(_resource_names), _most_resources]) if {
	count(_resource_names) > _most_resources
}

_objects := [
	["metadata"],
	["metadata", "annotations"],
	["metadata", "labels"],
	["spec"],
	_template_path,
	array.concat(_template_path, ["spec"]),
]

# Null is as good as nothing.
_is_object(parent, path) if object.get(parent, path, {}) in {null, {}}

_is_object(parent, path) if is_object(object.get(parent, path, {}))

_is_count(number) if {
	is_number(number)
	_is_short(number)
	number >= 0
	number <= 1000000
	number == floor(number)
}
