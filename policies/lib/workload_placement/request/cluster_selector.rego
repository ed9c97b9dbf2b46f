# The workload's annotation cluster-selector.
package lib.workload_placement.request

import data.lib.label_selectors
import data.lib.values

_most_requirements := 100

# METADATA
# description: |
#   The workload's cluster-selector as it is written: the annotation of Kubernetes' Federation v1, with a list of requirements
#   about the labels of clusters as JSON, all of which have to hold. Undefined without one.
selector := input.resource.metadata.annotations["federation.alpha.kubernetes.io/cluster-selector"]

# METADATA
# description: Whether there is a cluster-selector.
has_selector if selector != null

_selector_list := values.unmarshalled(selector) if is_string(selector)

# A helper, because the list is undefined if the text is not JSON.
_is_selector_list if is_array(_selector_list)

# METADATA
# description: |
#   The requirements, each with its `key`, its `operator` in one spelling, its `values`, and the `text` that messages show.
#   Those that cannot be read are left out. If there are too many, none is read, because each is
#   compared with each cluster.
requirements := [{"key": requirement.key, "operator": operator, "values": texts, "text": text} |
	count(_selector_list) <= _most_requirements
	some requirement in _selector_list
	is_string(requirement.key)
	operator := _operators[lower(requirement.operator)]
	texts := _texts_or_none(object.get(requirement, "values", null))
	_fits(operator, texts)
	text := trim_space(sprintf("%s %s %s", [values.shown(requirement.key), operator, substring(concat(", ", texts), 0, 64)]))
]

_operators := {
	"in": "In",
	"=": "In",
	"==": "In",
	"notin": "NotIn",
	"!=": "NotIn",
	"exists": "Exists",
	"doesnotexist": "DoesNotExist",
	"!": "DoesNotExist",
	"gt": "Gt",
	"lt": "Lt",
}

_texts_or_none(null) := []

_texts_or_none(list) := list if values.texts(list)

_fits(operator, texts) if {
	operator in {"In", "NotIn"}
	count(texts) > 0
}

_fits(operator, []) if operator in {"Exists", "DoesNotExist"}

_fits(operator, [text]) if {
	operator in {"Gt", "Lt"}
	label_selectors.is_number_text(text)
}

# METADATA
# description: Why the cluster-selector cannot be read.
selector_problems contains sprintf(
	`%s is no list of requirements as JSON: write [{"key": "region", "operator": "In", "values": ["eu"]}]`,
	[values.shown(selector)],
) if {
	has_selector
	not _is_selector_list
}

selector_problems contains sprintf("it has %d requirements: at most %d", [count(_selector_list), _most_requirements]) if {
	count(_selector_list) > _most_requirements
}

selector_problems contains problem if {
	_is_selector_list
	count(_selector_list) <= _most_requirements
	count(requirements) < count(_selector_list)
	problem := "a requirement is malformed: it needs `key`, `operator` (In, NotIn, Exists, DoesNotExist, Gt, Lt) and `values`"
}
