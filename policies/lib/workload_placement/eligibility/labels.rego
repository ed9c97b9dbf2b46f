# Whether the labels of a cluster meet the workload's cluster-selector.
package lib.workload_placement.eligibility

import data.lib.workload_placement.request

# The fields of a cluster that are labels as well. A label of the same key does not count.
_label_fields := {"region", "jurisdiction", "location"}

# The requirements of the workload's cluster-selector that a cluster does not meet, as messages show them.
_unmet(cluster) := {requirement.text |
	labels := object.union(object.get(cluster, "labels", {}), object.filter(cluster, _label_fields))
	some requirement in request.requirements
	not _meets(requirement.operator, requirement.values, object.get(labels, requirement.key, null))
}

# Whether the value of a label, null for none, is as the requirement wants it.
_meets("In", texts, value) if value in texts

_meets("NotIn", texts, value) if not value in texts

_meets("Exists", _, value) if value != null

_meets("DoesNotExist", _, null)

_meets("Gt", [bound], value) if _number(value) > to_number(bound)

_meets("Lt", [bound], value) if _number(value) < to_number(bound)

_number(text) := to_number(text) if regex.match(`^(0|-?[1-9][0-9]{0,17})$`, text)
