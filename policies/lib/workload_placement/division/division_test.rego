package lib.workload_placement.division_test

import data.lib.workload_placement.decision as placement
import data.lib.workload_placement.scenes_test as scenes

test_the_cost_of_a_decision if {
	_cost_of(5, {}) == {0.055} # 5 * (0.01 + 0.001)
	_cost_of(3, {"replica-set-preferences": `{"clusters": {"cheap": {"weight": 1}, "dear": {"weight": 1}}}`}) == {0.055} # 2 and 1
	_cost_of(3, {"replica-set-preferences": `{"clusters": {"dear": {"weight": 0.2}, "cheap": {"weight": 0.1}}}`}) == {0.077} # 1 and 2
	_cost_of(1, {"customer": "nobody"}) == set()
}

test_the_cost_of_what_has_no_price_is_not_known if {
	bare := {"clusters": {"a": {"jurisdiction": "de", "location": "on-prem"}}, "customers": scenes.customers}
	{cost | cost := placement.cost} == set() with input as {"resource": scenes.of_replicas(1, {})} with data.placement as bare
}

_cost_of(number, says) := {cost |
	cost := placement.cost with input as {"resource": scenes.of_replicas(number, says)} with data.placement as scenes.cheap_medium_dear
}
