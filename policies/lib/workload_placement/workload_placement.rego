# METADATA
# title: Decisions over clusters
# description: |
#   Which clusters a workload may run on, and with which weights. The rules apply in this order, and the first that
#   excludes a cluster explains it: jurisdiction, certifications, criticality, cordon, taints, capacity, the workload's
#   cluster-selector, and what it asks for. Data come from `data.placement`, or from the ConfigMap `placement` in the namespace `fairlead`.
#   A decision looks one customer up, so its cost does not depend on how many there are.
# schemas:
#   - input: schema.placement
#   - data.placement: schema.placement_data
package lib.workload_placement

# METADATA
# description: The clusters with their weights; none if there are errors.
weights := _weights if {
	count(errors) == 0
} else := {}

# METADATA
# description: |
#   What is wrong, as sets of sentences by what they are about. `invalid cluster(s)` has the names of those that the
#   workload asks for and may not run on.
errors := {about: problems |
	some part in [_problems, _problems_of_customer, _problems_of_settings, _problems_of_request, _problems_of_spread, _problems_of_traffic]
	some about, problems in part
	count(problems) > 0
}

_problems := {
	"data": _data_problems,
	"workload": _workload_problems,
	"clusters": _cluster_problems,
	"cluster-selector": _selector_problems,
	"no cluster": _reasons_for_none,
}

# What is not there cannot be wrong. To ask first saves 300 allocations, because OPA evaluates each rule about a mistake.
default _problems_of_customer := {}

_problems_of_customer := {"customer": _customer_problems} if not customer

default _problems_of_settings := {}

_problems_of_settings := {"settings": _setting_problems} if _settings != {}

default _problems_of_request := {}

_problems_of_request := {
	"replica-set-preferences": _preference_problems,
	"invalid cluster(s)": _invalid,
} if {
	_written != null
}

default _problems_of_spread := {}

_problems_of_spread := {"spread": _spread_problems} if _may_be_spread

default _problems_of_traffic := {}

_problems_of_traffic := {"traffic": (_traffic_problems | _transfer_problems)} if _traffic_written != null

_data_problems contains "OPA has no clusters: bring data.placement.clusters" if not _has_clusters

_data_problems contains "placement.clusters is no object of clusters by their names" if not is_object(clusters)

_has_clusters if some _ in [clusters]

default _invalid := set()

_invalid := object.keys(requested) - _standing_well if customer

_reasons_for_none contains sprintf("%d of %d: %s", [count(names), count(clusters), sentence]) if {
	customer
	count(_standing_well) == 0
	some sentence, names in _by_sentence
}

_reasons_for_none contains "there are no clusters" if clusters == {}

_by_sentence[sentence] contains name if some name, sentence in object.union_n(_exclusions)

# METADATA
# description: For each cluster `allowed`, or the rule that excludes it, in a sentence.
explanation := _explained if {
	customer
	is_object(clusters)
} else := {name: "the customer is not known, so no cluster is allowed" | some name in object.keys(clusters)} if {
	is_object(clusters)
} else := {}

_explained := object.union_n(array.concat(_exclusions, [
	{name: "allowed" | some name in (_standing_well - _not_chosen)},
	{name: "it costs no less than the clusters that are chosen" | some name in _not_chosen},
	{name: "to move there would save less than moveThreshold of the settings wants" | some name in _hardly_cheaper},
	{name: "the workload asks for other clusters" | some name in _not_requested},
	{name: wrong | some name in _suspicious},
]))

default _not_chosen := set()

_not_chosen := _standing_well - object.keys(weights) if count(errors) == 0

default _hardly_cheaper := set()

_hardly_cheaper := {name | some name, cost in _candidates; cost < dearest; name in _not_chosen} if {
	# Without a move to save, the cheapest clusters are chosen.
	count(_running) > 0
	not requested
	dearest := max([_candidates[name] | some name in object.keys(weights)])
}

_not_requested := _standing_well - object.keys(requested) if {
	requested
} else := set()

# METADATA
# description: |
#   What an hour of the workload costs where it is decided to run; undefined if there are errors, or if that is not known.
cost := round((sum([share | some name, number in _divided; share := known[name] * number]) / _pods) * 1000000000000) / 1000000000000 if {
	_has_costs
	count(weights) > 0
	known := _costs_in(object.keys(weights))
	count(known) == count(weights)
}

# The replicas of each cluster by the largest remainder, as engines divide them (docs/placement.md).
_divided := {name: number |
	some name, share in _shares
	number := floor(share) + count(_larger & {name})
}

_larger := {entry[1] | some entry in array.slice(sort([[floor(share) - share, name] | some name, share in _shares]), 0, _left)}

_left := _pods - sum([floor(share) | some share in _shares])

_shares := {name: share |
	total := sum([preference.weight | some preference in weights])
	some name, preference in weights
	share := (_pods * preference.weight) / total
}
