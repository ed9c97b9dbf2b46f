# METADATA
# title: The request under review
# description: The parts of an AdmissionReview that all intents use, and whether the review can be read at all.
# schemas:
#   - input: schema.admission_review
package review

# METADATA
# description: The request's uid, which the answer repeats; empty if it has none. API servers send 36 characters.
default uid := ""

uid := input.request.uid if {
	is_string(input.request.uid)
	count(input.request.uid) <= 256
}

# METADATA
# description: Whether the request is for a subresource of an object, such as its status or its binding.
default subresource := false

subresource if not object.get(input.request, "subResource", "") in {"", null}

# METADATA
# description: The kind of the object that the request is for, as `[group, kind]`; the group of core/v1 is empty.
kind := [object.get(input.request.kind, "group", ""), input.request.kind.kind]

# METADATA
# description: |
#   The object's name for messages. If the name of a new object is generated, it is the prefix with a `*`: the final name
#   differs in each attempt of a controller, and a refused object never gets it. A StatefulSet's pod has a prefix, too, but
#   keeps its name.
default name := "(unnamed)"

name := concat("", [input.request.object.metadata.generateName, "*"]) if _generated

else := input.request.object.metadata.name if not object.get(input.request.object.metadata, "name", "") in {null, ""}

# METADATA
# description: The object as messages name it, such as `deployment "web"`.
subject := sprintf("%s %q", [lower(input.request.kind.kind), name])

_generated if {
	input.request.operation != "UPDATE"
	metadata := input.request.object.metadata
	not object.get(metadata, "generateName", "") in {"", null}
	_is_random(object.get(metadata, "name", null), substring(metadata.generateName, 0, _longest_prefix))
}

# Whether the name was generated from the prefix, or will be (k8s.io/apiserver/pkg/storage/names).
_is_random(name, _) if name in {"", null}

_is_random(name, prefix) if {
	startswith(name, prefix)
	regex.match(`^[2456789bcdfghjklmnpqrstvwxz]{5}$`, substring(name, count(prefix), -1))
}

_longest_prefix := 58

# METADATA
# description: Whether the review can be read, as any that an API server sends. `problems` says why not.
readable if {
	input.apiVersion == "admission.k8s.io/v1"
	input.kind == "AdmissionReview"
	is_string(input.request.kind.kind)
	is_string(object.get(input.request.kind, "group", ""))
	input.request.operation in {"CREATE", "UPDATE", "DELETE", "CONNECT"}
	type_name(object.get(input.request, "subResource", "")) in {"string", "null"}
	uid != ""
	is_array(object.get(input, "intents", []))
}

# METADATA
# description: |
#   Whether OPA's plugin left the objects out, because one of them is too large to be judged. Such a review has a kind of its
#   own: so it is not `readable`, and policies that do not know it refuse it.
reduced if {
	_is_reduced
	count(problems) == 0
}

# METADATA
# description: Whether a reduced review changes an object in a way that policies judge; its finalizers and status are not.
changes if not input.changes == false

# METADATA
# description: Why an object that changes is refused (tools/fairlead/deployment/review_limits.py).
too_large := concat("", [
	"it has more than 10000 entries in its lists and maps (env, args, labels, tolerations and all others), or more than 1000 ",
	"containers and volumes: Fairlead places no object of that size. Make it smaller, for example by envFrom or a mounted ",
	"ConfigMap",
])

# METADATA
# description: Why the review cannot be read; empty if it can.
problems contains "the review is not an AdmissionReview of admission.k8s.io/v1" if not _is_review

problems contains "request.kind has no kind: cannot tell whether a policy applies" if {
	_is_review
	not _kind_known
}

problems contains "request.operation is not one of CREATE, UPDATE, DELETE, CONNECT: cannot tell what is asked" if {
	_is_review
	not _operation_known
}

problems contains "request.uid is not a string of 1 to 256 characters: the answer could not be matched to it" if {
	_is_review
	uid == ""
}

problems contains "request.kind.group is not a string: cannot tell whether a policy applies" if {
	_is_review
	not is_string(object.get(object.get(input.request, "kind", {}), "group", ""))
}

problems contains "request.subResource is not a string: cannot tell what is asked" if {
	_is_review
	not type_name(object.get(input.request, "subResource", "")) in {"string", "null"}
}

problems contains "intents is not a list of names: cannot tell which policies are asked" if {
	_is_review
	not is_array(object.get(input, "intents", []))
}

_is_review if {
	input.apiVersion == "admission.k8s.io/v1"
	input.kind == "AdmissionReview"
	is_object(input.request)
}

_is_review if {
	_is_reduced
	is_object(input.request)
}

_is_reduced if {
	input.apiVersion == "fairlead.dev/v1"
	input.kind == "ReducedReview"
}

# Helpers, because `not` of a function of something undefined is undefined, and no problem.
_kind_known if is_string(input.request.kind.kind)

_operation_known if input.request.operation in {"CREATE", "UPDATE", "DELETE", "CONNECT"}
