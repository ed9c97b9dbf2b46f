# METADATA
# title: Scope
# description: |
#   Which intents have a say in a request. An API server calls OPA if any intent has. What each has a say in comes from
#   the METADATA of its package, as the webhooks' rules and selectors do.
# schemas:
#   - input: schema.admission_review
package scope

import data.exceptions
import data.intents
import data.lib.controllers
import data.lib.label_selectors
import data.namespaces
import data.review
import data.settings

# METADATA
# description: The intents that decide about the request.
concerned contains intent if {
	some intent, selectors in _candidates
	some selector in selectors
	not _judged_by_owner(intent, selector)
	_selects(selector)
}

# METADATA
# description: The intents that may have a say, while OPA cannot tell which labels the namespace has.
unclear contains intent if {
	some intent, selectors in _candidates
	not intent in concerned
	some selector in selectors
	not _judged_by_owner(intent, selector)
	not _excludes(selector)
}

# The intents that have a say in such objects, each with the selectors of its namespaces, if the caller asks for them. Each
# webhook belongs to one intent, which OPA's plugin names in `intents`. So an intent decides only where its own webhooks ask,
# by their rules, selectors and conditions, and not if they are disabled. Without `intents`, the caller asks for all. About an
# object that is too large, those have a say that may refuse it.
_candidates := {intent: selectors |
	some intent, selectors in _requests[input.request.operation][_kind]
	intent in object.get(input, "intents", [intent])
	not _exempt(intent)
	not exceptions.by_intent[intent]
}

_requests := intents.requests if review.readable

else := intents.refusals if {
	review.reduced
	review.changes
}

_kind := concat("/", array.concat(review.kind, [input.request.subResource])) if review.subresource

else := concat("/", review.kind)

# Whether the settings let the user do what the intent would refuse. The webhooks' conditions say the same.
_exempt(intent) if {
	exemptions := object.get(settings.exempt, intent, null)
	exemptions != null
	_lists_user(exemptions)
}

_lists_user(exemptions) if input.request.userInfo.username in exemptions.users

_lists_user(exemptions) if {
	some group in input.request.userInfo.groups
	group in exemptions.groups
}

# Whether a controller makes the object from a template about which the intent has a say itself: to refuse the object, too,
# would only stop the controller. The webhooks' conditions say the same. The kinds come first, because this is asked about
# each pod.
_judged_by_owner(intent, selector) if {
	input.request.kind.kind in {"ReplicaSet", "Job"}
	selector in intents.requests[input.request.operation][controllers.owner][intent]
}

# A selector is a list of expressions, all of which have to hold, as in a LabelSelector. No selector applies to objects
# that belong to no namespace.
_selects(selector) if selector == []

else if _namespace == ""

else if every expression in selector { _holds(expression, _replicated(expression.key)) }

else if {
	namespaces.can_look_up
	every expression in selector {
		_holds(expression, _current(expression.key))
	}
}

# Whether the namespace is known to be another one than those that the selector selects.
_excludes(selector) if {
	some expression in selector
	value := _known(expression.key)
	not _holds(expression, value)
}

_known(key) := _current(key) if namespaces.can_look_up

_known(key) := _replicated(key) if not namespaces.can_look_up

default _namespace := ""

_namespace := input.request.namespace if is_string(input.request.namespace)

# A label of the namespace, null if it has none, as it was replicated. Undefined if OPA cannot tell.
_replicated(key) := label if {
	label := _given(key)
} else := namespaces.replicated(_namespace, key)

# The same label as the API server has it now. OPA asks only if the replicated labels do not select the namespace,
# because they may be old.
_current(key) := label if {
	label := _given(key)
} else := namespaces.looked_up(_namespace, key)

# The same label, as far as the request says it: API servers set one to the name of the namespace, and the new labels of a
# Namespace that is created or updated decide about it.
_given(key) := _namespace if {
	key == "kubernetes.io/metadata.name"
} else := object.get(labels, key, null) if {
	review.kind == ["", "Namespace"]
	input.request.operation in {"CREATE", "UPDATE"}
	labels := _or_none(object.get(input.request.object.metadata, "labels", null))
}

_or_none(null) := {}

_or_none(labels) := labels if is_object(labels)

_holds(expression, value) if label_selectors.meets(expression.operator, object.get(expression, "values", []), value)
