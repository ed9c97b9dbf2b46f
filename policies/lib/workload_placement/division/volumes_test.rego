package lib.workload_placement.division_test

import data.lib.workload_placement.scenes_test as scenes

_database(number, says) := object.union(
	scenes.of_replicas(number, says),
	{"kind": "StatefulSet", "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}},
)

_weights(number, says) := {name: preference.weight | some name, preference in answer.weights} if {
	answer := scenes.decided(_database(number, says), scenes.cheap_medium_dear)
	answer.errors == {}
}

_refused(number, says, world) := problems if {
	answer := scenes.decided(_database(number, says), world)
	answer.weights == {}
	problems := answer.errors.volumes
}

_word := ", and what they hold would not move along to %s: accept that by move-volumes: accept"

test_volumes_stay_whatever_it_costs if {
	_weights(4, {}) == {"cheap": 4}
	_weights(4, scenes.running_in({"dear": 1})) == {"dear": 1}
	_weights(7, scenes.running_in({"dear": 2, "medium": 1})) == {"dear": 2, "medium": 1}
	_weights(4, object.union(scenes.running_in({"dear": 1}), {"move-volumes": "accept"})) == {"cheap": 4}
	answer := scenes.decided(_database(4, scenes.running_in({"dear": 1})), scenes.cheap_medium_dear)
	answer.explanation == {
		"cheap": "the volumes of the workload are in other clusters",
		"dear": "allowed",
		"medium": "the volumes of the workload are in other clusters",
	}
}

test_what_would_leave_its_volumes_is_refused if {
	cordoned := object.union(scenes.cheap_medium_dear, {"clusters": {"dear": {"cordoned": true}}})
	_refused(4, scenes.running_in({"dear": 1}), cordoned) == {concat("", ["it has volumes in dear", sprintf(_word, ["cheap"])])}
	asking := object.union(scenes.running_in({"dear": 1}), {"replica-set-preferences": ["dear", "medium"]})
	_refused(4, asking, scenes.cheap_medium_dear) == {concat("", ["it has volumes in dear", sprintf(_word, ["medium"])])}
	wider := object.union(scenes.running_in({"dear": 1}), {"min-clusters": "2"})
	_refused(4, wider, scenes.cheap_medium_dear) == {concat("", ["it has volumes in dear", sprintf(_word, ["cheap, medium"])])}
	narrower := object.union(scenes.running_in({"dear": 3, "medium": 1}), {"max-replicas-per-cluster": "2"})
	_refused(4, narrower, scenes.cheap_medium_dear) == {concat("", ["it has volumes in dear", sprintf(_word, ["cheap, medium"])])}
	_weights(4, object.union(asking, {"move-volumes": "accept"})) == {"dear": 1, "medium": 1}
}

test_where_nothing_is_allowed_volumes_are_no_matter if {
	world := object.union(scenes.cheap_medium_dear, {"customers": {"plain": {"jurisdictions": ["fr"]}}})
	answer := scenes.decided(_database(4, scenes.running_in({"dear": 1})), world)
	object.keys(answer.errors) == {"no cluster"}
}

test_a_whole_workload_with_a_claim_stays if {
	pod := {
		"kind": "Pod",
		"metadata": {"annotations": object.union({"customer": "plain"}, scenes.running_in({"dear": 1}))},
		"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}], "volumes": [{"persistentVolumeClaim": {"claimName": "a"}}]},
	}
	answer := scenes.decided(pod, scenes.cheap_medium_dear)
	answer.weights == {"dear": {"weight": 1}}
}
