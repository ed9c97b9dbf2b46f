package lib.workload_placement.division_test

import data.lib.workload_placement.decision as placement
import data.lib.workload_placement.division
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

_divided(resource, world) := answer if {
	answer := {
		"replicas": division.replicas,
		"weights": {name: preference.weight | some name, preference in placement.weights},
		"errors": placement.errors,
	} with input as {"resource": resource} with data.placement as world
}

_job(spec, says) := {
	"kind": "Job",
	"metadata": {"annotations": object.union({"customer": "plain"}, says)},
	"spec": object.union({"template": {"spec": scenes.pods}}, spec),
}

_of_job(spec, says) := answer if {
	answer := {"replicas": division.replicas, "completions": division.completions} with input as {"resource": _job(spec, says)}
		with data.placement as scenes.cheap_medium_dear
}

_in_two := {"replica-set-preferences": {"clusters": {"cheap": {"weight": 2}, "dear": {"weight": 1}}}}

test_jobs_are_divided_by_their_pods_and_completions if {
	_of_job({"parallelism": 3, "completions": 10}, _in_two) == {"replicas": {"cheap": 2, "dear": 1}, "completions": {"cheap": 7, "dear": 3}}
	_of_job({"parallelism": 9, "completions": 2}, _in_two) == {"replicas": {"cheap": 1, "dear": 1}, "completions": {"cheap": 1, "dear": 1}}
	_of_job({"completions": 5}, _in_two) == {"replicas": {"cheap": 1, "dear": 0}, "completions": {"cheap": 5}}
	_of_job({"parallelism": 0, "completions": 9}, _in_two) == {"replicas": {"cheap": 0, "dear": 0}, "completions": {"cheap": 6, "dear": 3}}
	not _of_job({"parallelism": 3}, _in_two)
	not _of_job({"parallelism": 3, "completions": 3, "completionMode": "Indexed"}, _in_two)
}

test_indexed_jobs_run_in_one_cluster if {
	answer := _divided(_job({"parallelism": 3, "completions": 3, "completionMode": "Indexed"}, _in_two), scenes.cheap_medium_dear)
	answer == {"replicas": {"cheap": 3}, "weights": {"cheap": 2}, "errors": {}}
}

_cron_job(says) := {
	"kind": "CronJob",
	"metadata": {"annotations": object.union({"customer": "plain"}, says)},
	"spec": {"jobTemplate": {"spec": {"parallelism": 2, "template": {"spec": scenes.pods}}}},
}

test_what_is_kept_whole_runs_in_one_cluster if {
	priced := scenes.cheap_medium_dear
	_divided(_cron_job({}), priced) == {"replicas": {"cheap": 2}, "weights": {"cheap": 1}, "errors": {}}
	_divided(_cron_job({"replica-set-preferences": ["medium", "dear"]}), priced).weights == {"dear": 1}
	near := object.union({"replica-set-preferences": ["medium", "dear"]}, scenes.running_in({"medium": 1}))
	_divided(_cron_job(near), priced).weights == {"medium": 1}
	_divided(_cron_job({}), scenes.world).weights == {"berlin": 1}
	bare := {"clusters": {name: {"jurisdiction": "de", "location": "on-prem"} | some name in ["b", "c"]}, "customers": scenes.customers}
	_divided(_cron_job({}), bare).weights == {"b": 1}
	_divided(_cron_job(scenes.running_in({"c": 1})), bare).weights == {"c": 1}
	_divided(_cron_job({}), object.union(priced, {"settings": {"minClusters": 2, "maxReplicasPerCluster": "50%"}})).weights == {"cheap": 1}
	_divided(_cron_job({"min-clusters": "2"}), priced).errors == {"spread": {"min-clusters is 2, but such a workload is kept whole, in one cluster"}}
	_divided(_cron_job({"max-replicas-per-cluster": "1"}), priced).errors == {"spread": {"one cluster runs all 2 replicas of such a workload, and max-replicas-per-cluster allows 1"}}
	cost := placement.cost with input as {"resource": _cron_job({})} with data.placement as priced
	cost == 0.012 # 2 * (0.5 * 0.01 + 1 * 0.001)
}

test_the_explanation_of_what_is_kept_whole if {
	bare := {"clusters": {name: {"jurisdiction": "de", "location": "on-prem"} | some name in ["b", "c"]}, "customers": scenes.customers}
	unpriced := scenes.decided(_cron_job({}), bare)
	unpriced.explanation == {"b": "allowed", "c": "another cluster runs all of the workload, which is not divided"}
	answer := scenes.decided(_cron_job({"replica-set-preferences": ["medium", "dear"]}), scenes.cheap_medium_dear)
	answer.explanation == {
		"cheap": "the workload asks for other clusters",
		"dear": "allowed",
		"medium": "another cluster runs all of the workload, which is not divided",
	}
}

_agent(says) := {
	"kind": "DaemonSet",
	"metadata": {"annotations": object.union({"customer": "plain"}, says)},
	"spec": {"template": {"spec": scenes.pods}},
}

test_daemon_sets_are_in_each_of_their_clusters if {
	_divided(_agent({}), scenes.cheap_medium_dear) == {"replicas": {"cheap": 1}, "weights": {"cheap": 1}, "errors": {}}
	_divided(_agent({"min-clusters": "2"}), scenes.cheap_medium_dear).replicas == {"cheap": 1, "medium": 1}
	_divided(_agent({"replica-set-preferences": ["medium", "dear"], "max-replicas-per-cluster": "1"}), scenes.cheap_medium_dear).replicas == {"medium": 1, "dear": 1}
	{cost | cost := placement.cost} == set() with input as {"resource": _agent({})} with data.placement as scenes.cheap_medium_dear
}

_fields(resource) := fields if {
	fields := division.fields with input as {"resource": resource} with data.placement as scenes.cheap_medium_dear
}

test_the_fields_that_say_how_many if {
	_fields(scenes.of_replicas(3, _in_two)) == {"cheap": {"replicas": 2}, "dear": {"replicas": 1}}
	_fields(_job({"parallelism": 3}, _in_two)) == {"cheap": {"parallelism": 2}, "dear": {"parallelism": 1}}
	_fields(_job({"completions": 4}, _in_two)) == {"cheap": {"completions": 4, "parallelism": 1}, "dear": {"parallelism": 0}}
	_fields(_cron_job({})) == {"cheap": {}}
	_fields(_agent({})) == {"cheap": {}}
}

test_replicas_follow_the_weights if {
	_divided(scenes.of_replicas(10, _in_two), scenes.cheap_medium_dear).replicas == {"cheap": 7, "dear": 3}
	_divided(scenes.of_replicas(0, _in_two), scenes.cheap_medium_dear).replicas == {"cheap": 0, "dear": 0}
	_divided(scenes.of_replicas(4, {}), scenes.cheap_medium_dear).replicas == {"cheap": 4}
}
