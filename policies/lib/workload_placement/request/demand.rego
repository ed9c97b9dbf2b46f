# The replicas of a workload, and the resources that they request.
package lib.workload_placement.request

import data.lib.quantities
import data.lib.resources
import data.lib.values

_most_resources := 32

_most_clusters := 1000

# METADATA
# description: How many pods the workload runs at the same time. A Job runs no more pods than it has to complete.
replicas := min([_parallel, completions]) if {
	_is_count(completions)
} else := _parallel

default _parallel := 1

_parallel := _stated_replicas if _is_count(_stated_replicas)

# A number of another kind may mean something else.
_stated_replicas := number if {
	number := object.get(input.resource, _replicas_path, null)
	not _is_of_others(number)
}

_is_of_others(number) if {
	kind == ""
	not _is_count(number)
}

_replicas_path := array.concat(_job_path, ["parallelism"]) if {
	count(_job_path) > 0
} else := ["spec", "replicas"]

# METADATA
# description: How many pods of a Job have to succeed; undefined for other workloads, and for a Job that does not say it.
completions := number if {
	count(_job_path) > 0
	number := object.get(input.resource, array.concat(_job_path, ["completions"]), null)
	number != null
}

_job_path := {"CronJob": ["spec", "jobTemplate", "spec"], "Job": ["spec"]}[kind]

# METADATA
# description: How many pods are divided among clusters. A workload that is scaled to zero gets the clusters that it needs later.
pods := replicas if {
	replicas > 0
	not is_copied
} else := least_clusters if {
	least_clusters
	not is_whole
} else := 1

# METADATA
# description: On how many clusters the workload says that it has to run, at least; undefined if it does not say it.
least_clusters := number if {
	number := values.whole(stated["min-clusters"])
	number <= _most_clusters
}

# METADATA
# description: How many pods the workload says that may run in a cluster, at most; undefined if it does not say it.
most_pods := values.part_of(pods, stated["max-replicas-per-cluster"])

# METADATA
# description: The spec of its pods; empty if it has none.
pod_spec := spec if {
	spec := object.get(input.resource, array.concat(_template_path, ["spec"]), {})
	spec != null
} else := {}

# Custom resources that run pods have their template where a Deployment has it.
_template_path := ["spec", "jobTemplate", "spec", "template"] if {
	kind == "CronJob"
} else := [] if {
	kind == "Pod"
} else := ["spec", "template"]

# METADATA
# description: What all pods request together of each resource, in billionths of its unit.
demand := {name: amount |
	some name, of_pod in requests
	amount := of_pod * replicas
	amount > 0
}

# METADATA
# description: |
#   What each pod requests of each resource, in billionths of its unit. If there are too many resources, none is counted.
requests := {name: amount | # regal ignore:rule-name-repeats-package
	count(_resource_names) <= _most_resources
	some name in _resource_names
	amount := resources.total_of(pod_spec, "requests", name)
	amount > 0
}

_resource_names := {quantity.resource | some quantity in _quantities}

# Of the containers, of the pod as a whole, and of what its runtime takes.
_quantities := array.concat(_of_containers, [{"holder": "the pod", "resource": resource, "value": value} |
	some path in [["overhead"], ["resources", "limits"], ["resources", "requests"]]
	some resource, value in object.get(pod_spec, path, {})
])

_of_containers := [{"holder": "a container", "resource": resource, "value": value} |
	some list in ["containers", "initContainers"]
	some container in pod_spec[list]
	some kind_of_amount in ["limits", "requests"]
	some resource, value in container.resources[kind_of_amount]
]

# METADATA
# description: Why the workload cannot be read.
problems contains "input.resource is no object" if not _is_resource

problems contains sprintf("%s is no object", [concat(".", path)]) if {
	_is_resource
	some path in _objects
	part := object.get(input.resource, path, null)
	part != null
	not is_object(part)
}

problems contains sprintf("metadata.namespace is %s, which is no name", [values.shown(namespace)]) if not is_string(namespace)

problems contains _no_count("replicas", _stated_replicas) if not _is_count(_stated_replicas)

problems contains sprintf("%s is no list of containers", [concat(".", array.concat(_template_path, ["spec", list]))]) if {
	some list in ["containers", "initContainers"]
	containers := pod_spec[list]
	containers != null
	not is_array(containers)
}

problems contains _no_count("completions", completions) if not _is_count(completions)

problems contains problem if {
	some quantity in _quantities
	not _is_quantity(quantity.value)
	problem := sprintf(
		"%s has %s %s, which is no quantity: write it like 500m or 1Gi",
		[quantity.holder, quantity.resource, values.shown(quantity.value)],
	)
}

problems contains sprintf("its pods request %d resources: at most %d", [count(_resource_names), _most_resources]) if {
	count(_resource_names) > _most_resources
}

_is_resource if is_object(input.resource)

_objects := [
	["metadata"],
	["metadata", "annotations"],
	["metadata", "labels"],
	["spec"],
	_template_path,
	array.concat(_template_path, ["spec"]),
]

_no_count(noun, number) := problem if {
	number != null
	problem := sprintf("the number of %s is %s: it is a whole number from 0 to 1000000", [noun, values.shown(number)])
}

_is_quantity(value) if quantities.nano(value) >= 0

_is_count(number) if {
	values.is_short(number)
	number >= 0
	number <= 1000000
	number == floor(number)
}
