# METADATA
# title: Required labels
# description: |
#   Objects of the kinds that the settings name have labels, with values as the settings want them. An update is refused
#   only if it removes such a label or gives it a wrong value, so that objects from before can still be changed.
# schemas:
#   - input: schema.admission_review
# custom:
#   enabled: false
#   parameters:
#     required: [labels]
#     properties:
#       labels:
#         description: >-
#           The labels: each has a key, and either the values that are allowed, or a pattern (RE2) that the whole value
#           has to match. With neither, any value will do that is not empty.
#         type: array
#         minItems: 1
#         maxItems: 50
#         items:
#           type: object
#           additionalProperties: false
#           required: [key]
#           properties:
#             key:
#               type: string
#               maxLength: 317
#               pattern: '^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'
#             pattern:
#               type: string
#               minLength: 1
#               maxLength: 500
#               default: .+
#               # With the group that every engine puts around the pattern, and without it: neither `a)|(b` nor `\Qa` is
#               # a pattern by itself and within the group.
#               x-kubernetes-validations:
#                 - rule: "''.matches(self) in [true, false] && ''.matches('^(?:' + self + ')$') in [true, false]"
#                   message: is not a regular expression of RE2
#             values:
#               type: array
#               maxItems: 100
#               items: {type: string, maxLength: 63, pattern: '^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'}
#               default: []
#           x-kubernetes-validations:
#             - rule: size(self.values) == 0 || self.pattern == '.+'
#               message: "has both values and a pattern: keep one of them"
#         x-kubernetes-validations:
#           - rule: self.all(label, self.exists_one(other, other.key == label.key))
#             message: "name a label twice: keep one entry for each key"
#         examples: [[{key: team}, {key: stage, values: [test, production]}, {key: cost-center, pattern: 'cc-[0-9]{4}'}]]
#       kinds:
#         description: The kinds of Kubernetes itself that need the labels, as in `apps/v1/Deployment` or `v1/Pod`.
#         type: array
#         maxItems: 100
#         items: {type: string, maxLength: 200, pattern: '^([a-z0-9.-]+/)?v[0-9]+([a-z]+[0-9]+)?/[A-Z][A-Za-z0-9]*$'}
#         default: [v1/Namespace, apps/v1/Deployment, apps/v1/StatefulSet, apps/v1/DaemonSet, batch/v1/CronJob]
#       custom_resources:
#         description: The kinds of custom resources that need the labels, each with its `resource`, the name in URLs.
#         type: array
#         maxItems: 100
#         items:
#           type: object
#           additionalProperties: false
#           required: [group, version, kind, resource]
#           properties:
#             group: {type: string, maxLength: 253}
#             version: {type: string, maxLength: 63}
#             kind: {type: string, maxLength: 63}
#             resource: {type: string, maxLength: 63}
#         default: []
#       templates:
#         description: Whether the templates of pods in workloads of these kinds need the labels, too.
#         type: boolean
#         default: false
#   requests:
#     - kinds: "{{ parameters.kinds + parameters.custom_resources }}"
#       operations: [CREATE, UPDATE]
#       conditions:
#         - name: labels-change
#           expression: >-
#             request.operation == 'CREATE'
#             || object.metadata.?labels != oldObject.metadata.?labels
#             {% if parameters.templates %}
#             || (request.kind.group in ['', 'apps', 'batch']
#             && (object.?spec.?template.?metadata.?labels != oldObject.?spec.?template.?metadata.?labels
#             || object.?spec.?jobTemplate.?spec.?template.?metadata.?labels
#             != oldObject.?spec.?jobTemplate.?spec.?template.?metadata.?labels))
#             {% endif %}
package required_labels

import data.lib.pod_specs
import data.review
import data.settings

# METADATA
# description: What this intent has to say of the request.
decision := {"deny": deny, "patch": [], "warn": set()}

# METADATA
# description: Why the request is refused.
deny contains sprintf("%s %q: %s", [lower(input.request.kind.kind), review.name, problem]) if {
	review.kind in _kinds
	not review.subresource
	some path in _paths
	some label in settings.parameters.required_labels.labels
	_is_about(path, label.key)
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

_problem(path, label) := sprintf(`label "%s" is missing: add it to %s with %s`, [label.key, concat(".", path), _expected(label)]) if {
	_value(input.request.object, path, label.key) == null
} else := sprintf(`label "%s" is %q in %s: change it to %s`, [label.key, value, concat(".", path), _expected(label)]) if {
	value := _value(input.request.object, path, label.key)
	not _allows(label, value)
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
