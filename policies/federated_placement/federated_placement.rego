# METADATA
# title: Federated placement
# description: |
#   In the host cluster of a federation, a workload that carries a customer gets the clusters where it runs, as decided
#   by docs/placement.md, in its annotation federation.kubernetes.io/replica-set-preferences, whatever it says there
#   itself. It carries a customer if an annotation or a label of it, or of its namespace, names one. A workload without
#   a customer has no such annotation. What cannot be placed is refused with the reasons. An update that asks for nothing
#   new is admitted all the same, with a warning, and its clusters stay as they are. Objects that are being deleted are
#   left alone. The ReplicaSets of a Deployment have its clusters, as they get its annotations.
# schemas:
#   - input: schema.admission_review
package federated_placement

import data.lib.workload_placement.customers
import data.lib.workload_placement.decision as placement
import data.lib.workload_placement.request
import data.namespaces
import data.review

# METADATA
# description: What this intent has to say of the request.
decision := {"deny": deny, "patch": patch, "warn": warn}

# METADATA
# description: Why the request is refused.
deny contains sprintf("%s: %s", [review.subject, error]) if {
	not _asks_nothing_new
	some error in _errors
}

deny contains sprintf(
	"%s: namespace %q is not known to the policy yet: retry in a moment",
	[review.subject, input.request.namespace],
) if {
	_is_placed
	not _customer_is_known
}

# METADATA
# description: What the user should know about a request that is admitted.
warn contains sprintf("%s stays on its clusters, although it could not be placed now: %s", [review.subject, error]) if {
	_asks_nothing_new
	some error in _errors
}

warn contains sprintf("%s names no customer, so that its annotation %s is removed", [review.subject, _key]) if {
	_is_placed
	_customer == null
	_own_annotation != null
}

# METADATA
# description: What writes the decision into the annotation, or removes it.
default patch := []

patch := [{"op": "remove", "path": _path}] if {
	_decided_annotation == null
	_own_annotation != null
} else := [{"op": "add", "path": "/metadata/annotations", "value": {_key: _decided_annotation}}] if {
	_decided_annotation != _own_annotation
	not _has_annotations
} else := [{"op": "add", "path": _path, "value": _decided_annotation}] if _decided_annotation != _own_annotation

# METADATA
# description: Why the workload runs on some clusters and not on others.
explanation contains sprintf("cluster %s: %s", [name, sentence]) if some name, sentence in _answer.explanation

_key := "federation.kubernetes.io/replica-set-preferences"

_path := sprintf("/metadata/annotations/%s", [replace(_key, "/", "~1")])

_is_placed if {
	review.kind in {["apps", "Deployment"], ["apps", "StatefulSet"], ["apps", "ReplicaSet"], ["batch", "Job"]}
	not review.subresource
	input.request.operation in {"CREATE", "UPDATE"}
	not _is_being_deleted
}

_is_being_deleted if object.get(input.request.object.metadata, "deletionTimestamp", null) != null

_has_annotations if count(input.request.object.metadata.annotations) > 0

# The annotation as the object has it; null if it has none.
_own_annotation := _annotation_of(input.request.object)

_annotation_of(workload) := value if {
	value := workload.metadata.annotations[_key]
} else := null

# The annotation as it has to be; null for none. Undefined for what is refused, and for what is not placed.
_decided_annotation := null if _customer == null

_decided_annotation := json.marshal({"clusters": _answer.weights}) if count(_answer.errors) == 0

_decided_annotation := _annotation_of(input.request.oldObject) if {
	count(_errors) > 0
	_asks_nothing_new
}

_errors := {sprintf("%s: %s", [about, problem]) |
	some about, problems in _answer.errors
	some problem in problems
}

# All of the decision is asked for at once, because each `with` makes OPA evaluate all rules again.
_answer := answer if {
	_customer != null
	workload := _where_it_runs(_with_customer(input.request.object, _customer))
	answer := {
		"weights": placement.weights,
		"errors": placement.errors,
		"explanation": placement.explanation,
	} with input as {"resource": workload}
}

# Whose the workload is; null if nobody says so. Undefined while OPA cannot tell, and for what is not placed. If OPA has
# none of the namespace, it asks what the namespace has now, because a new one may not be replicated yet.
_customer := name if {
	_is_placed
	workload := _in_namespace(input.request.object)
	name := customers.name with input as {"resource": workload}
} else := _customer_of_namespace if _is_placed

_customer_of_namespace := name if {
	namespaces.can_look_up
	name := namespaces.looked_up_annotation(input.request.namespace, "customer")
	name != null
} else := namespaces.looked_up(input.request.namespace, "customer") if {
	namespaces.can_look_up
} else := null if {
	not namespaces.can_look_up
	namespaces.replicated(input.request.namespace, "customer") == null
}

# Null, for nobody, is known, too.
_customer_is_known if type_name(_customer) != ""

_in_namespace(workload) := object.union(workload, {"metadata": {"namespace": input.request.namespace}})

_with_customer(workload, name) := object.union(_in_namespace(workload), {"metadata": {"labels": {"customer": name}}})

# Where a workload runs is what its last decision says, and not what an update makes of the annotation, or leaves out.
_where_it_runs(workload) := object.union(workload, {"metadata": {"annotations": {_key: last}}}) if {
	input.request.operation == "UPDATE"
	last := _annotation_of(input.request.oldObject)
} else := workload

# Whether an update leaves all that a decision reads of the workload.
_asks_nothing_new if {
	input.request.operation == "UPDATE"
	_question(input.request.object) == _question(input.request.oldObject)
}

# What a decision reads of a workload.
_question(workload) := question if {
	question := {
		"stated": request.stated,
		"selector": [selector | selector := request.selector],
		"replicas": request.replicas,
		"demand": request.demand,
		"division": [request.parts, {"claims" | request.has_claims}],
		"tolerations": object.get(request.pod_spec, "tolerations", []),
	} with input as {"resource": workload}
}
