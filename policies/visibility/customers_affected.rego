# METADATA
# title: Customers affected if a cluster loses a certification
# description: |
#   Which workloads in a cluster belong to a customer that requires a certification, where they run now, and on which
#   clusters placement would have them if the cluster lost it.
# schemas:
#   - input:
#       type: object
#       properties:
#         cluster: {type: string, description: the cluster that would lose it}
#         certification: {type: string, description: 'the certification, such as pci'}
#       required: [cluster, certification]
#   - data.placement: schema.placement_data
# custom:
#   columns: [customer, kind, namespace, name, now, then, errors]
package visibility.customers_affected

import data.lib.applications
import data.lib.what_if

# METADATA
# description: A row for each workload.
rows contains row if {
	some workload, customer in _affected
	then := _then[workload]
	[_, namespace, name] := workload
	row := {
		"customer": customer,
		"kind": applications.kind(workload),
		"namespace": namespace,
		"name": name,
		"now": sort(applications.clusters_of(workload)),
		"then": what_if.clusters(then),
		"errors": what_if.errors(then),
	}
}

# The customer of each workload.
_affected := {workload: customer |
	count(problems) == 0
	some workload in applications.running_in(input.cluster)
	customer := _customer(workload)
	input.certification in data.placement.customers[customer].certifications
}

_then := answers if {
	world := what_if.world(_changes)
	asked := applications.questions_about(object.keys(_affected))
	answers := applications.decisions(asked) with data.placement as world
}

_customer(workload) := applications.owner(input.cluster, workload) if {
	input.cluster in applications.observed
} else := applications.owner("", workload)

_changes := {"without": {input.cluster: [input.certification]}}

# METADATA
# description: Why the question cannot be answered.
problems := what_if.problems(_changes)

# METADATA
# description: What the answer does not rest upon.
notes contains applications.note_about(input.cluster)
