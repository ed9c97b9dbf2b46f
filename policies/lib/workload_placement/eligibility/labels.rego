# Whether the labels of a cluster meet the workload's cluster-selector.
package lib.workload_placement.eligibility

import data.lib.label_selectors
import data.lib.workload_placement.request

# The fields of a cluster that are labels as well. A label of the same key does not count.
_label_fields := {"region", "jurisdiction", "location"}

# The requirements of the workload's cluster-selector that a cluster does not meet, as messages show them.
_unmet(cluster) := {requirement.text |
	labels := object.union(object.get(cluster, "labels", {}), object.filter(cluster, _label_fields))
	some requirement in request.requirements
	not label_selectors.meets(requirement.operator, requirement.values, object.get(labels, requirement.key, null))
}
