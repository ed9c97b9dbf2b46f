# Which clusters the workload's selector leaves: an annotation of Kubernetes' Federation v1, with a list of requirements
# about the labels of clusters as JSON, all of which have to hold: `[{"key": "region", "operator": "In", "values": ["eu"]}]`.
package lib.workload_placement

# The fields of a cluster that are labels as well. A label of the same key does not count.
_label_fields := {"region", "jurisdiction", "location"}

_most_required := 100

_has_selector if selector != null

selector := input.resource.metadata.annotations["federation.alpha.kubernetes.io/cluster-selector"]

_selector_list := json.unmarshal(selector) if {
	is_string(selector)
	count(selector) <= _longest
}

# A helper, because the list is undefined if the text is no JSON.
_is_selector_list if is_array(_selector_list)

# Each requirement with its operator in one spelling, and as messages show it; those that cannot be read are left out. Of too
# many, none is read, because each is compared with each cluster.
_requirements := [{"key": requirement.key, "operator": operator, "values": values, "text": text} |
	count(_selector_list) <= _most_required
	some requirement in _selector_list
	is_string(requirement.key)
	operator := _operators[lower(requirement.operator)]
	values := _or_none(object.get(requirement, "values", null))
	_fits(operator, values)
	text := trim_space(sprintf("%s %s %s", [shown(requirement.key), operator, substring(concat(", ", values), 0, 64)]))
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

_or_none(null) := []

_or_none(values) := values if {
	is_array(values)
	every value in values { is_string(value) }
}

_fits(operator, values) if {
	operator in {"In", "NotIn"}
	count(values) > 0
}

_fits(operator, []) if operator in {"Exists", "DoesNotExist"}

_fits(operator, [value]) if {
	operator in {"Gt", "Lt"}
	_whole_number(value)
}

# Whether the value of a label, null for none, is as the requirement wants it.
_meets("In", values, value) if value in values

_meets("NotIn", values, value) if not value in values

_meets("Exists", _, value) if value != null

_meets("DoesNotExist", _, null)

_meets("Gt", [bound], value) if _whole_number(value) > _whole_number(bound)

_meets("Lt", [bound], value) if _whole_number(value) < _whole_number(bound)

_whole_number(text) := to_number(text) if regex.match(`^(0|-?[1-9][0-9]{0,17})$`, text)

_are_labels(labels) if {
	is_object(labels)
	every value in labels { is_string(value) }
}

_selector_problems contains sprintf("%s is no list of requirements as JSON: write [{\"key\": \"region\", \"operator\": \"In\", \"values\": [\"eu\"]}]", [shown(selector)]) if {
	_has_selector
	not _is_selector_list
}

_selector_problems contains sprintf("it has %d requirements: at most %d", [count(_selector_list), _most_required]) if {
	count(_selector_list) > _most_required
}

_selector_problems contains problem if {
	_is_selector_list
	count(_selector_list) <= _most_required
	count(_requirements) < count(_selector_list)
	problem := "a requirement is none: it has a key, an operator (In, NotIn, Exists, DoesNotExist, Gt or Lt) and the values of that"
}
