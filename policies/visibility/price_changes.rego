# METADATA
# title: What a price changes
# description: Which workloads placement would put on other clusters, or at another cost, if a cluster had another price.
# schemas:
#   - input:
#       type: object
#       properties:
#         cluster: {type: string, description: the cluster}
#         resource: {type: string, default: cpu, description: 'the resource that has the price, such as memory'}
#         price: {type: number, description: 'the price per hour of a core, a GiB or a device'}
#       required: [cluster, price]
#   - data.placement: schema.placement_data
# custom:
#   columns: [kind, namespace, name, now, then, costNow, costThen, errors]
package visibility.price_changes

import data.lib.applications
import data.lib.what_if

# METADATA
# description: A row for each workload that the price changes something for.
rows contains row if {
	count(problems) == 0
	world := what_if.world(_changes)
	asked := applications.questions_about(applications.workloads)
	decided_now := applications.priced_decisions(asked)
	decided_then := applications.priced_decisions(asked) with data.placement as world
	some workload, now in decided_now
	then := decided_then[workload]
	_differ(now, then)
	some answer_now in now.answer
	some answer_then in then.answer
	[_, namespace, name] := workload
	row := {
		"kind": applications.kind(workload),
		"namespace": namespace,
		"name": name,
		"now": what_if.clusters(answer_now),
		"then": what_if.clusters(answer_then),
		"costNow": now.cost,
		"costThen": then.cost,
		"errors": what_if.errors(answer_then),
	}
}

_differ(now, then) if now.cost != then.cost

_differ(now, then) if what_if.differ(now.answer[0], then.answer[0])

_changes := {"prices": {input.cluster: {object.get(input, "resource", "cpu"): input.price}}}

# METADATA
# description: Why the question cannot be answered.
problems := what_if.problems(_changes)
