# METADATA
# title: Applications
# description: |
#   Where workloads run, and whose they are. `data.inventory` has the objects of each cluster as sidecars replicate them:
#   `inventory[cluster].deployments[namespace][name]`; custom kinds with a template of pods are under their kind and group,
#   such as `rollout.argoproj.io`, and objects without pods under `objects`, by kind and name. Those under the name "" are of
#   no cluster: they are manifests. A workload is named by `[resources, namespace, name]`, such as
#   `["deployments", "shop", "web"]`.
# schemas:
#   - data.placement: schema.placement_data
package lib.applications

import data.lib.placement_questions as questions
import data.lib.values

_kinds := {
	"cronjobs": "CronJob",
	"daemonsets": "DaemonSet",
	"deployments": "Deployment",
	"jobs": "Job",
	"pods": "Pod",
	"replicasets": "ReplicaSet",
	"replicationcontrollers": "ReplicationController",
	"statefulsets": "StatefulSet",
}

_resources_of := {kind: resources | some resources, kind in _kinds}

# METADATA
# description: The kind of the workload.
kind([resources, _, _]) := _kinds[resources]

kind([resources, namespace, name]) := min(kinds) if {
	not _kinds[resources]
	kinds := {_object(cluster, [resources, namespace, name]).kind | some cluster, _ in data.inventory}
}

# The resources in each cluster that run pods.
_resources := {cluster: names |
	some cluster, tree in data.inventory
	names := object.keys(tree) - {"namespaces", "nodes", "objects"}
}

# METADATA
# description: The clusters whose objects are known.
observed := {cluster | some cluster, _ in data.inventory; cluster != ""}

# METADATA
# description: All workloads.
workloads := {workload |
	some cluster, _ in data.inventory
	some workload in _in_inventory(cluster)
}

# METADATA
# description: The workloads that run in the cluster, by its objects, or else by what is known of the manifests.
running_in(cluster) := _in_inventory(cluster) if {
	cluster in observed
} else := {workload |
	some workload in _in_inventory("")
	cluster in _assigned(workload).clusters
}

_in_inventory(cluster) := {[resources, namespace, name] |
	some resources in _resources[cluster]
	some namespace, workloads in data.inventory[cluster][resources]
	some name, _ in workloads
	not _is_left_out(cluster, [resources, namespace, name])
}

# METADATA
# description: |
#   The customer's workloads in the cluster, as objects with `workload` and `source`, which says how it is known:
#   `object`, `annotation` or `decision`.
of_customer(customer, cluster) := {{"workload": workload, "source": "object"} |
	some workload in _belonging(customer, cluster)
} if {
	cluster in observed
} else := {{"workload": workload, "source": assigned.source} |
	some workload in _belonging(customer, "")
	assigned := _assigned(workload)
	cluster in assigned.clusters
}

_belonging(customer, cluster) := {workload |
	some workload in _mentioning(customer, cluster)
	owner(cluster, workload) == customer
	not _is_left_out(cluster, workload)
}

# Where the name stands; which of several names counts, placement says. This takes much less time than to ask about each.
_mentioning(customer, cluster) := {[resources, namespace, name] |
	some resources in _resources[cluster]
	some field in ["annotations", "labels"]
	some namespace, name
	data.inventory[cluster][resources][namespace][name].metadata[field].customer == customer
} | {[resources, namespace, name] |
	source := describing(cluster)
	some field in ["annotations", "labels"]
	some namespace
	data.inventory[source].namespaces[namespace].metadata[field].customer == customer
	some resources in _resources[cluster]
	some name, _ in data.inventory[cluster][resources][namespace]
}

# METADATA
# description: The workloads in the cluster of which nobody says whose they are.
unowned_in(cluster) := {workload |
	some workload in _in_inventory(cluster)
	not owner(cluster, workload)
	not _controller(cluster, workload)
}

# METADATA
# description: |
#   What an answer about the cluster does not rest upon, in a sentence; undefined if it has all objects with their owners.
note_about(cluster) := note if {
	not cluster in observed
	note := sprintf(
		"no objects of cluster %s were given: what runs there is what manifests say, or placement decides",
		[cluster],
	)
} else := note if {
	number := count(unowned_in(cluster))
	number > 0
	note := sprintf(
		"cluster %s: nobody says whose %d applications there are, by themselves or by their namespaces",
		[cluster, number],
	)
}

# METADATA
# description: |
#   How many objects without pods the customer has in the cluster, by kind. They may hold what belongs to the customer.
others_of(customer, cluster) := {kind: number |
	kinds := [manifest.kind |
		some namespace, manifests in data.inventory[cluster].objects
		some manifest in manifests
		questions.owner(_stated(manifest), namespace, namespaces(cluster, namespace)) == customer
	]
	some kind in kinds
	number := count([1 | some other in kinds; other == kind])
}

# METADATA
# description: The name of the customer, by the rules of placement; undefined if nobody names one.
owner(cluster, workload) := questions.owner(stated, workload[1], namespaces(cluster, workload[1])) if {
	stated := _stated(_object(cluster, workload))
}

_stated(manifest) := {field: {"customer": customer} |
	some field in ["annotations", "labels"]
	customer := manifest.metadata[field].customer
}

# METADATA
# description: This namespace of the cluster, by its name; nothing if it is not known.
namespaces(cluster, namespace) := {namespace: described} if {
	source := describing(cluster)
	described := data.inventory[source].namespaces[namespace]
} else := {}

# METADATA
# description: |
#   Whose namespaces say whose the workloads of the cluster are: its own, or those of the manifests if its objects have no
#   namespaces.
describing(cluster) := cluster if {
	data.inventory[cluster].namespaces
} else := ""

# METADATA
# description: The answers of placement to these questions, without explanations. One call takes less time than many.
decisions(asked) := {workload: questions.outcome(question) | some workload, question in asked}

# METADATA
# description: The same, with what they cost.
priced_decisions(asked) := {workload: questions.priced(question) | some workload, question in asked}

# METADATA
# description: What to ask placement about each of these workloads.
questions_about(workloads) := {workload: _question(workload) | some workload in workloads}

_question(workload) := questions.question(resource(workload), namespaces(_holder(workload), workload[1]))

# METADATA
# description: The answer of placement about the workload, without its explanation.
decision(workload) := questions.outcome(_question(workload))

# METADATA
# description: The workload as its manifest has it, or else as the first cluster has it, with the replicas of all.
resource(workload) := manifest if {
	_has_manifests
	manifest := _object("", workload)
} else := whole if {
	# Nearly always, one cluster has all replicas.
	_is_complete(workload)
	whole := _object(_holder(workload), workload)
} else := object.union(_object(_holder(workload), workload), {"spec": {field: sum([number |
	some cluster in _holders(workload)
	number := replicas(cluster, workload)
])}}) if {
	field := _counting(workload)
}

_is_complete(workload) if not _counting(workload)

_is_complete(workload) if {
	count(_holders(workload)) == 1
	is_number(_object(_holder(workload), workload).spec[_counting(workload)])
}

# To ask this once takes less time than to look for the manifest of each workload: OPA forgets what it does not find.
_has_manifests if is_object(data.inventory[""])

# The cluster whose object stands for the workload.
_holder(workload) := "" if {
	_has_manifests
	_object("", workload)
} else := min(_holders(workload))

# OPA looks names up in a local variable with fewer allocations than in `data`, and takes all clusters in one expression in
# less time than one by one.
_holders([resources, namespace, name]) := {cluster |
	inventory := data.inventory
	some cluster
	_ = inventory[cluster][resources][namespace][name]
	cluster != ""
} if {
	resources != "jobs"
} else := {cluster |
	some cluster, _ in data.inventory
	_ = data.inventory[cluster].jobs[namespace][name]
	cluster != ""
	not _has_ended(cluster, namespace, name)
}

# METADATA
# description: The clusters where the workload runs.
clusters_of(workload) := _holders(workload) | {cluster |
	some cluster in _assigned(workload).clusters
	not cluster in observed
}

# METADATA
# description: |
#   How many pods the cluster's object runs; undefined if they are not a number, and for a DaemonSet whose status does not say
#   it.
replicas(cluster, workload) := number if {
	number := object.get(_object(cluster, workload), ["spec", _counting(workload)], 1)
	is_number(number)
} else := 1 if {
	workload[0] == "pods"
	_object(cluster, workload)
} else := number if {
	workload[0] == "cronjobs"
	number := object.get(_object(cluster, workload), ["spec", "jobTemplate", "spec", "parallelism"], 1)
	is_number(number)
} else := number if {
	number := _object(cluster, workload).status.desiredNumberScheduled
	is_number(number)
}

# The field of the spec that counts the pods of a workload, which may be in several clusters.
_counting([resources, _, _]) := {
	"deployments": "replicas",
	"jobs": "parallelism",
	"replicasets": "replicas",
	"replicationcontrollers": "replicas",
	"statefulsets": "replicas",
}[resources]

_counting([resources, _, _]) := "replicas" if contains(resources, ".")

# Where the workload's manifest says that it runs; without the annotation, or if nobody can read that, where it would.
_assigned(workload) := {"clusters": set()} if {
	not _has_manifests
} else := {"clusters": object.keys(values.weights(choices)), "source": "annotation"} if {
	written := _object("", workload).metadata.annotations["federation.kubernetes.io/replica-set-preferences"]
	choices := values.choices(values.unmarshalled(written))
} else := {"clusters": object.keys(weights), "source": "decision"} if {
	_object("", workload)
	weights := decision(workload).annotations["replica-set-preferences"].clusters
} else := {"clusters": set()}

_object(cluster, [resources, namespace, name]) := data.inventory[cluster][resources][namespace][name]

# METADATA
# description: |
#   The controller of the workload that is not among the objects, such as `Cluster pg`; undefined without one.
unlisted_controller(cluster, workload) := sprintf("%s %s", [reference.kind, reference.name]) if {
	not _controller(cluster, workload)
	some reference in _object(cluster, workload).metadata.ownerReferences
	reference.controller == true
}

# Whether a workload among the objects made it, which stands for it. Anyone who may edit an object may write any owner into
# it; it is hidden so only by a workload of the same customer.
_is_left_out(cluster, workload) if {
	controller := _controller(cluster, workload)
	_has_no_other_owner(cluster, workload, controller)
}

_is_left_out(cluster, ["pods", namespace, name]) if {
	_object(cluster, ["pods", namespace, name]).status.phase in {"Failed", "Succeeded"}
}

_is_left_out(cluster, ["jobs", namespace, name]) if _has_ended(cluster, namespace, name)

_controller(cluster, [resources, namespace, name]) := controller if {
	some reference in _object(cluster, [resources, namespace, name]).metadata.ownerReferences
	reference.controller == true
	controller := [_owning(reference), namespace, reference.name]
	_object(cluster, controller)
}

_owning(reference) := _resources_of[reference.kind] if {
	_group(reference) in {"", "apps", "batch"}
} else := sprintf("%s.%s", [lower(reference.kind), _group(reference)])

_group(reference) := substring(version, 0, max([0, indexof(version, "/")])) if {
	version := object.get(reference, "apiVersion", "")
}

_has_no_other_owner(cluster, workload, _) if not owner(cluster, workload)

_has_no_other_owner(cluster, workload, controller) if owner(cluster, workload) == owner(cluster, controller)

# Whether the status of the Job says that it has ended, and so does not run.
_has_ended(cluster, namespace, name) if {
	some condition in _object(cluster, ["jobs", namespace, name]).status.conditions
	condition.type in {"Complete", "Failed"}
	condition.status == "True"
}

_has_ended(cluster, namespace, name) if is_string(_object(cluster, ["jobs", namespace, name]).status.completionTime)
