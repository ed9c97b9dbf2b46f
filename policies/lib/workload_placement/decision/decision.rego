# METADATA
# title: Decisions over clusters
# description: |
#   Which clusters a workload may run on, and with which weights. `request` reads what the workload says, `world` the data,
#   `customers` whose workload it is; `eligibility` has the rules that exclude clusters, `costs` what the others cost, and
#   `division` the weights.
# schemas:
#   - input: schema.placement
#   - data.placement: schema.placement_data
package lib.workload_placement.decision

import data.lib.workload_placement.costs
import data.lib.workload_placement.customers
import data.lib.workload_placement.division
import data.lib.workload_placement.eligibility
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# METADATA
# description: The clusters with their weights; none if there are errors.
weights := division.weights if {
	count(errors) == 0
} else := {}

# METADATA
# description: |
#   What is wrong, as sets of sentences by what they are about. `invalid cluster(s)` has the names of those that the
#   workload asks for and may not run on.
errors := {about: problems | some about, problems in _problems; count(problems) > 0}

_problems := {
	"data": world.problems,
	"settings": world.setting_problems,
	"workload": request.problems,
	"customer": customers.problems,
	"replica-set-preferences": request.preference_problems,
	"cluster-selector": request.selector_problems,
	"clusters": _cluster_problems,
	"invalid cluster(s)": {name | customers.customer; some name in (object.keys(request.requested) - eligibility.allowed)},
	"no cluster": _reasons_for_none,
	"spread": division.spread_problems,
	"volumes": (request.volume_problems | division.volume_problems),
	"traffic": ((request.traffic_problems | costs.traffic_problems) | division.transfer_problems),
}

_cluster_problems := {sprintf("cluster %q %s", [name, problem]) |
	customers.customer
	some problems in [eligibility.problems, costs.problems]
	some name, sentences in problems
	some problem in sentences
}

_reasons_for_none contains sprintf("%d of %d: %s", [count(names), count(world.clusters), sentence]) if {
	customers.customer
	count(eligibility.allowed) == 0
	some sentence, names in _by_sentence
}

_reasons_for_none contains "there are no clusters" if {
	count(world.problems) == 0
	world.clusters == {}
}

_by_sentence[sentence] contains name if some name, sentence in eligibility.excluded

# METADATA
# description: For each cluster `allowed`, or the rule that excludes it, in a sentence.
explanation := {name: sprintf("%s, so no cluster is allowed", [customers.lack]) | some name, _ in world.clusters} if {
	not customers.customer
} else := object.union_n([
	eligibility.excluded,
	{name: "allowed" | some name in (eligibility.allowed - _not_chosen)},
	{name: "it costs no less than the clusters that are chosen" | some name in _not_chosen},
	{name: "to move there would save less than moveThreshold of the settings wants" |
		some name in (division.hardly_cheaper & _not_chosen)
	},
	{name: "another cluster runs all of the workload, which is not divided" |
		request.is_whole
		_is_unweighed
		some name in _not_chosen
	},
	{name: "the volumes of the workload are in other clusters" | division.kept; some name in _not_chosen},
	{name: "the workload asks for other clusters" |
		some name in (eligibility.allowed - object.keys(request.requested))
	},
	{name: eligibility.wrong | some name, _ in costs.problems},
])

# Whether costs do not say which clusters are chosen.
_is_unweighed if request.requested

_is_unweighed if not costs.is_known

_not_chosen := eligibility.allowed - object.keys(weights) if {
	count(errors) == 0
} else := set()

# METADATA
# description: |
#   What an hour of the workload costs where it is decided to run; undefined if there are errors, or if that is not known.
cost := division.cost if count(errors) == 0
