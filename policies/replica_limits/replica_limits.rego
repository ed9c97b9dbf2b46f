# METADATA
# title: Replica limits
# description: |
#   The number of replicas of a Deployment, a StatefulSet, a ReplicaSet or a ReplicationController is within one of the
#   ranges, whether a manifest or `kubectl scale` sets it. Without a number, there is one replica. An update that does
#   not change the number is admitted, so that objects from before can be labelled, restarted and deleted.
# schemas:
#   - input: schema.admission_review
package replica_limits

import data.review
import data.settings

# METADATA
# description: What this intent has to say of the request.
decision := {"deny": deny, "patch": [], "warn": set()}

# METADATA
# description: Why the request is refused.
deny contains sprintf(
	"%s: replicas %d is not within %s: set spec.replicas to one of these numbers",
	[_subject, number, _allowed],
) if {
	_replicas_change
	number := _replicas(input.request.object)
	not _within(number, number)
}

deny contains sprintf(
	"%s: %s %d is not within %s: set spec.%s to one of these numbers",
	[_subject, field, bound, _allowed, field],
) if {
	_bounds_change
	some field, bound in _bounds(input.request.object)
	not _within(bound, bound)
}

deny contains sprintf(
	"%s: minReplicas %d and maxReplicas %d are not within the same range of %s: set both to numbers of one range",
	[_subject, bounds.minReplicas, bounds.maxReplicas, _allowed],
) if {
	_bounds_change
	bounds := _bounds(input.request.object)
	not _within(bounds.minReplicas, bounds.maxReplicas)
	every bound in bounds { _within(bound, bound) }
}

# The kind in lower case. A Scale is named after the object that it scales.
_subject := sprintf("%s %q", [trim_suffix(input.request.resource.resource, "s"), review.name])

_replicas_change if {
	_decides_on_replicas
	_changed(_replicas(input.request.object), _replicas(input.request.oldObject))
}

_replicas_change if {
	_decides_on_replicas
	input.request.operation == "CREATE"
}

_decides_on_replicas if {
	concat("/", [input.request.resource.group, input.request.resource.resource]) in _limited
	_is_scale == review.subresource
}

_limited := {"apps/deployments", "apps/statefulsets", "apps/replicasets", "/replicationcontrollers"}

_changed(after, before) if {
	input.request.operation == "UPDATE"
	after != before
}

default _is_scale := false

_is_scale if {
	review.kind == ["autoscaling", "Scale"]
	input.request.subResource == "scale"
}

# A workload has one replica if it sets no number. A Scale without a number has none, because its JSON leaves out 0.
_replicas(workload) := _or(object.get(workload, ["spec", "replicas"], null), 0) if _is_scale

_replicas(workload) := _or(object.get(workload, ["spec", "replicas"], null), 1) if not _is_scale

_or(null, default_number) := default_number

_or(number, _) := number if number != null

_bounds_change if {
	_decides_on_bounds
	_changed(_bounds(input.request.object), _bounds(input.request.oldObject))
}

_bounds_change if {
	_decides_on_bounds
	input.request.operation == "CREATE"
}

_decides_on_bounds if {
	settings.parameters.replica_limits.autoscalers
	review.kind == ["autoscaling", "HorizontalPodAutoscaler"]
	not review.subresource
}

_bounds(autoscaler) := {
	"maxReplicas": autoscaler.spec.maxReplicas,
	"minReplicas": _or(object.get(autoscaler, ["spec", "minReplicas"], null), 1),
}

_within(least, most) if {
	some range in settings.parameters.replica_limits.ranges
	range.min_replicas <= least
	most <= range.max_replicas
}

_allowed := concat(" or ", [_range(range) | some range in settings.parameters.replica_limits.ranges])

_unlimited := 2147483647

_range(range) := sprintf("%d or more", [range.min_replicas]) if range.max_replicas == _unlimited

else := sprintf("%d", [range.min_replicas]) if range.max_replicas == range.min_replicas

else := sprintf("%d..%d", [range.min_replicas, range.max_replicas])
