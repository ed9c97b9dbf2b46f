# METADATA
# title: Resources of pods
# description: |
#   What containers and pods have of a resource, in billionths of its unit, as Kubernetes counts it: PodRequests and
#   PodLimits in k8s.io/component-helpers/resource, and the defaults that API servers give to requests.
package lib.resources

import data.lib.quantities

# METADATA
# description: |
#   What a container, or the `resources` of a pod spec, has of a resource; undefined for none. `list` is `requests` or
#   `limits`. A limit of 0 is none for the kubelet.
amount_of(holder, list, name) := amount if {
	amount := quantities.nano(written(holder, list, name))
	amount > 0
}

# METADATA
# description: |
#   The quantity as it is written. API servers give pods the limit as a request, but not templates.
written(holder, "limits", name) := holder.resources.limits[name]

written(holder, "requests", name) := quantity if {
	quantity := holder.resources.requests[name]
} else := holder.resources.limits[name]

# METADATA
# description: |
#   What the pod has for all of its containers by its own `resources` (Kubernetes 1.34); undefined for none.
pod_level(spec, "limits", name) := amount_of(spec, "limits", name) if _has_pod_level(name)

# With a limit of any resource, the containers' requests become the pod's.
pod_level(spec, "requests", name) := amount if {
	_has_pod_level(name)
	not spec.resources.requests[name]
	count(spec.resources.limits) > 0
	amount := _of_containers(spec, "requests", name)
	amount > 0
} else := amount_of(spec, "requests", name) if _has_pod_level(name)

_has_pod_level(name) if name in {"cpu", "memory"}

_has_pod_level(name) if startswith(name, "hugepages-")

# METADATA
# description: What a pod has of a resource.
total_of(spec, list, name) := sum([amount |
	some container in spec.containers
	amount := quantities.nano(written(container, list, name))
	amount > 0
]) if {
	# As in nearly all pods: the general way takes 200 allocations more.
	not spec.initContainers
	not spec.overhead
	not spec.resources
} else := amount + _overhead(spec, list, name, amount) if {
	amount := _without_overhead(spec, list, name)
}

_without_overhead(spec, list, name) := pod_level(spec, list, name)

_without_overhead(spec, list, name) := _of_containers(spec, list, name) if not pod_level(spec, list, name)

# A pod without a limit has none with its overhead either.
_overhead(spec, list, name, amount) := quantities.nano(spec.overhead[name]) if {
	not _is_unlimited(list, amount)
} else := 0

_is_unlimited("limits", 0)

# The most that runs at once: sidecars keep running from their turn on, and all of them run beside the containers. Sums
# over blocks keep the cost of a thousand init containers low.
_of_containers(spec, list, name) := max(array.concat([running], starting)) if {
	sidecars := [_of_sidecar(container, list, name) | some container in spec.initContainers]
	blocks := [sum(array.slice(sidecars, first, first + _block)) |
		some first in numbers.range_step(0, count(sidecars), _block)
	]
	running := sum(blocks) + sum([amount | some container in spec.containers; amount := amount_of(container, list, name)])
	starting := [sum([amount, earlier, before]) |
		some index, container in spec.initContainers
		not container.restartPolicy == "Always"
		amount := amount_of(container, list, name)
		full := floor(index / _block)
		earlier := sum(array.slice(blocks, 0, full))
		before := sum(array.slice(sidecars, full * _block, index))
	]
}

_block := 32

_of_sidecar(container, list, name) := amount_of(container, list, name) if {
	container.restartPolicy == "Always"
} else := 0
