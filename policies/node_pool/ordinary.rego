# The decision about ordinary requests, in few steps: a new pod, or a workload with a template, that leaves its placement to
# the pool or already has it. Nearly all requests are ordinary. The general rules give the same decision, at three times
# the allocations: `python -m lab fuzz decision` compares the two.
package node_pool

import data.lib.pod_specs
import data.namespaces
import data.settings

# The decision and its audit annotation; undefined unless the request is ordinary. Everything about the pod stands in one
# body, because each call of a rule or a function costs 10 to 50 allocations.
ordinary := {"decision": {"deny": set(), "patch": patch, "warn": set()}, "audit": concat("", ["placed: ", home.pool])} if {
	input.request.operation == "CREATE"
	input.request.kind.kind == "Pod"
	input.request.kind.group == ""
	not input.request.object.metadata.annotations["kubernetes.io/config.mirror"]
	home := _home
	spec := input.request.object.spec
	object.get(spec, "nodeName", "") in {"", null}
	type_name(object.get(spec, "tolerations", null)) in {"array", "null"}
	selector := object.get(spec, "nodeSelector", null)
	selector in [null, {}, home.nodeSelector]
	patch := array.concat(
		[add | selector != home.nodeSelector; add := {"op": "add", "path": "/spec/nodeSelector", "value": home.nodeSelector}],
		[add | home.tolerations != []; some add in tolerations_operations],
	)
} else := {"decision": {"deny": set(), "patch": [], "warn": set()}, "audit": ""} if {
	pod_specs.is_template
	not gets_assignment
	spec := object.get(input.request.object, pod_specs.template_path, null).spec
	object.get(spec, "nodeName", "") in {"", null}
	type_name(object.get(spec, "tolerations", null)) in {"array", "null"}
	object.get(spec, "nodeSelector", null) in [null, {}, _home.nodeSelector]
}

# The pool by the namespace's replicated label, and its assignment. Undefined if the label is not replicated, if the pool is not
# declared, or if it restricts tolerations: the general rules decide then.
_home := {"pool": pool, "nodeSelector": assigned.nodeSelector, "tolerations": assigned.tolerations} if {
	is_string(input.request.namespace)
	input.request.namespace != ""
	pool := namespaces.replicated(input.request.namespace, settings.namespace_label)
	not pool in {"", null}
	pools := settings.pools
	assigned := object.get(pools, pool, {"nodeSelector": {settings.node_label: pool}, "tolerations": []})
	is_open := count(pools) == 0
	is_undeclared := count(object.get(pools, pool, {})) == 0
	is_open == is_undeclared
	count(assigned.nodeSelector) > 0
	object.get(assigned, "allowedTolerations", null) == null
}
