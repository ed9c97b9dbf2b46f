# METADATA
# title: Required labels
# description: |
#   Objects of the kinds that the settings name have labels, with values as the settings want them. An update is refused
#   only if it removes such a label or gives it a wrong value, so that objects from before can still be changed. An
#   update of the status counts, because it can write labels, too. An update of a template that leaves pods without a
#   label which they need gets a warning.
# schemas:
#   - input: schema.admission_review
package required_labels

import data.lib.pod_specs
import data.lib.templates
import data.review
import data.settings

# METADATA
# description: What this intent has to say of the request.
decision := {"deny": deny, "patch": [], "warn": warn}

# METADATA
# description: Why the request is refused.
deny contains sprintf("%s: %s", [review.subject, problem]) if {
	review.kind in _kinds
	some path in _paths
	some label in settings.parameters.required_labels.labels
	_is_about(path, label.key)
	problem := _problem(path, label)
}

# METADATA
# description: What an update leaves wrong in a template, if pods need the labels, too.
warn contains templates.warning("required-labels", problem) if {
	["", "Pod"] in _kinds
	templates.changes
	some path in (_paths - {["metadata", "labels"]})
	some label in settings.parameters.required_labels.labels
	not _is_about(path, label.key)
	problem := _problem(path, label)
}

_kinds contains ["", kind] if {
	some written in settings.parameters.required_labels.kinds
	[_, kind] := split(written, "/")
}

_kinds contains [group, kind] if {
	some written in settings.parameters.required_labels.kinds
	[group, _, kind] := split(written, "/")
}

_kinds contains [resource.group, resource.kind] if {
	some resource in settings.parameters.required_labels.custom_resources
}

# Where the labels stand: those of the object, and those of the pods that it creates.
_paths contains ["metadata", "labels"]

_paths contains array.concat(pod_specs.template_path, ["metadata", "labels"]) if {
	settings.parameters.required_labels.templates
	pod_specs.is_template
}

# Whether the request decides about the label: a new object does, and an update that changes it.
_is_about(_, _) if input.request.operation == "CREATE"

_is_about(path, key) if {
	input.request.operation == "UPDATE"
	_value(input.request.object, path, key) != _value(input.request.oldObject, path, key)
}

# The value of a label, null if it is missing.
_value(object_with_labels, path, key) := object.get(object_with_labels, array.concat(path, [key]), null)

_problem(path, label) := problem if {
	_value(input.request.object, path, label.key) == null
	problem := sprintf(`label "%s" is missing: add it to %s with %s`, [label.key, concat(".", path), _expected(label)])
} else := problem if {
	value := _value(input.request.object, path, label.key)
	not _allows(label, value)
	problem := sprintf(`label "%s" is %q in %s: change it to %s`, [label.key, value, concat(".", path), _expected(label)])
}

_allows(label, value) if value in label.values

_allows(label, value) if {
	count(label.values) == 0
	regex.match(sprintf("^(?:%s)$", [label.pattern]), value)
}

_expected(label) := sprintf("one of %s", [concat(", ", [sprintf(`"%s"`, [value]) | some value in label.values])]) if {
	count(label.values) > 0
} else := "a value that is not empty" if {
	label.pattern == ".+"
} else := sprintf(`a value that matches "%s"`, [label.pattern])
