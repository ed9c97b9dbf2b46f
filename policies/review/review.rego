# METADATA
# title: The request under review
# description: What all intents ask of an AdmissionReview, and whether it can be read at all.
# schemas:
#   - input: schema.admission_review
package review

# METADATA
# description: The request's uid, which the answer repeats; empty where it has none. API servers send 36 characters.
default uid := ""

uid := input.request.uid if {
	is_string(input.request.uid)
	count(input.request.uid) <= 256
}

# METADATA
# description: Whether policies have a say - a readable CREATE or UPDATE of an object itself, not of a subresource.
default concerned := false

concerned if {
	count(problems) == 0
	input.request.operation in {"CREATE", "UPDATE"}
	not subresource
}

# METADATA
# description: Whether the request is for a part of an object, such as its status or its binding.
default subresource := false

subresource if not object.get(input.request, "subResource", "") in {"", null}

# METADATA
# description: What kind of object the request is for, as `[group, kind]`; the group of core/v1 is empty.
kind := [object.get(input.request.kind, "group", ""), input.request.kind.kind]

# METADATA
# description: How a message calls the object - by its name, or by the name that it is generated from.
default name := "(unnamed)"

name := input.request.object.metadata.name if not object.get(input.request.object.metadata, "name", "") in {"", null}

else := concat("", [input.request.object.metadata.generateName, "*"])

# METADATA
# description: Why the review cannot be read; empty for one that an API server sends.
problems contains "the review is not an AdmissionReview of admission.k8s.io/v1" if not _is_review

problems contains "request.kind names no kind: cannot tell whether a policy applies" if {
	_is_review
	not _kind_known
}

problems contains "request.operation is not one of CREATE, UPDATE, DELETE, CONNECT: cannot tell what is asked" if {
	_is_review
	not _operation_known
}

problems contains "request.uid is no text of 1 to 256 characters: the answer could not be matched to it" if {
	_is_review
	uid == ""
}

problems contains "request.kind.group is no text: cannot tell whether a policy applies" if {
	_is_review
	not is_string(object.get(object.get(input.request, "kind", {}), "group", ""))
}

problems contains "request.subResource is no text: cannot tell what is asked" if {
	_is_review
	not type_name(object.get(input.request, "subResource", "")) in {"string", "null"}
}

_is_review if {
	input.apiVersion == "admission.k8s.io/v1"
	input.kind == "AdmissionReview"
	is_object(input.request)
}

# Helpers, because `not` of a function of something undefined is undefined, and no problem.
_kind_known if is_string(input.request.kind.kind)

_operation_known if input.request.operation in {"CREATE", "UPDATE", "DELETE", "CONNECT"}
