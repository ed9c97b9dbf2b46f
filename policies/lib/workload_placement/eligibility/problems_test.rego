package lib.workload_placement.eligibility_test

import data.lib.workload_placement.scenes_test as scenes

# Whether the data of cluster berlin end the decision with this problem.
_is_wrong(changes, problem) if {
	resource := {"metadata": {"annotations": {"customer": "plain"}}, "spec": {"template": {"spec": {"containers": [{"resources": {"requests": {
		"cpu": "1",
		"memory": "1Gi",
	}}}]}}}}
	answer := scenes.decided(resource, scenes.changed(changes))
	answer.weights == {}
	answer.errors == {"clusters": {sprintf(`cluster "berlin" %s`, [problem])}}
	answer.explanation.berlin == "its data are wrong"
	answer.explanation.munich == "allowed"
}

_sound := {"jurisdiction": "de", "location": "on-prem"}

test_clusters_with_wrong_data if {
	every problem, values in {
		"is no object": [null, [], "de", 1, false],
		"has no jurisdiction: set one": [
			{"location": "on-prem"},
			{"location": "on-prem", "jurisdiction": ""},
			{"location": "on-prem", "jurisdiction": ["de"], "certifications": [], "cordoned": false},
			{"location": "on-prem", "jurisdiction": null},
		],
		"has no location on-prem or public: set one": [
			{"jurisdiction": "de"},
			{"jurisdiction": "de", "location": "private", "certifications": [], "cordoned": false},
		],
		"has certifications that are no list of texts": [
			object.union(_sound, {"certifications": "pci"}),
			object.union(_sound, {"certifications": [1]}),
		],
		"has cordoned that is neither true nor false": [object.union(_sound, {"cordoned": "yes"}), object.union(_sound, {"cordoned": null})],
		"has malformed taints: write a list of {key, value, effect}": [
			object.union(_sound, {"taints": {}}),
			object.union(_sound, {"taints": [{"effect": "NoSchedule"}]}),
			object.union(_sound, {"taints": [{"key": "a", "effect": "NoSchedule", "value": 1}]}),
			object.union(_sound, {"taints": [{"key": "a"}]}),
		],
		`has a taint with the effect "noschedule": it is one of NoExecute, NoSchedule, PreferNoSchedule`: [object.union(_sound, {"taints": [{"key": "a", "effect": "noschedule"}]})],
		`has a taint with the effect "NoSelectIfNew": it is one of NoExecute, NoSchedule, PreferNoSchedule`: [object.union(_sound, {"taints": [{"key": "a", "value": "b", "effect": "NoSelectIfNew"}]})],
		`has the key "cordon", which is not read: did you mean cordoned?`: [object.union(_sound, {"cordon": true})],
		`has the key "nodeTaints", which is not read: did you mean taints?`: [object.union(_sound, {"nodeTaints": []})],
		`has the key "Capacity", which is not read: did you mean capacity?`: [object.union(_sound, {"Capacity": {"cpu": "8"}})],
		_no_resource("capacity", "CPU"): [object.union(_sound, {"capacity": {"CPU": "8"}})],
		_no_resource("capacity", "mem"): [object.union(_sound, {"capacity": {"cpu": "8", "mem": "1Gi"}})],
		_no_resource("price", "mem"): [object.union(_sound, {"price": {"mem": 1}})],
		"has the jurisdiction false, as YAML reads no and off: quote it": [object.union(_sound, {"jurisdiction": false})],
		"has the jurisdiction true, as YAML reads yes and on: quote it": [object.union(_sound, {"jurisdiction": true})],
		"has the jurisdiction the number 49: quote it": [object.union(_sound, {"jurisdiction": 49})],
		"has a capacity that is no object of quantities": [
			object.union(_sound, {"capacity": "8"}),
			object.union(_sound, {"capacity": {"cpu": "8 cores"}}),
			object.union(_sound, {"capacity": {"memory": "32GB"}}),
		],
		"has a price that is no object of numbers from 0 to 1000000000": [
			object.union(_sound, {"price": 1}),
			object.union(_sound, {"price": {"cpu": -0.01}}),
			object.union(_sound, {"price": {"cpu": "0.03"}}),
			object.union(_sound, {"price": {"cpu": null}}),
			object.union(_sound, {"price": {"cpu": false}}),
			object.union(_sound, {"price": {"cpu": 1000000001}}),
			object.union(_sound, {"price": {"cpu": {"hour": 1}}}),
		],
	} {
		every changes in values { _is_wrong(changes, problem) }
	}
}

_no_resource(field, name) := sprintf(
	"has a %s of %q, which no pod can request: write cpu, ephemeral-storage, memory, pods, storage, hugepages-SIZE, or a name with a domain, such as nvidia.com/gpu",
	[field, name],
)

test_resources_of_all_kinds_have_a_capacity_and_a_price if {
	names := ["cpu", "memory", "storage", "ephemeral-storage", "pods", "hugepages-2Mi", "nvidia.com/gpu"]
	changes := object.union(_sound, {"capacity": {name: "1Ti" | some name in names}, "price": {name: 0 | some name in names}})
	scenes.answer({"customer": "plain"}, scenes.with_cluster("berlin", changes)).errors == {}
}

test_wrong_data_of_other_clusters_are_not_read if {
	world := scenes.with_cluster("ohio", {"price": {"cpu": -1}, "capacity": {"cpu": "many"}})
	scenes.answer({"customer": "plain"}, world).errors == {}
}

test_prices_are_not_needed if {
	object.keys(scenes.answer({"customer": "plain"}, scenes.changed(_sound)).weights) == {"berlin", "munich"}
}

test_cordoned_clusters_with_wrong_data if {
	every wrong in [{"taints": false}, {"taints": null}, {"certifications": "pci"}, {"capacity": []}, {"cordoned": null}, {"cordoned": "true"}] {
		answer := scenes.answer({"customer": "plain"}, scenes.with_cluster("berlin", object.union({"cordoned": true}, wrong)))
		answer.explanation.berlin == "its data are wrong"
		object.keys(answer.errors) == {"clusters"}
	}
}

test_taints_that_are_false_are_wrong if {
	answer := scenes.answer({"customer": "plain"}, scenes.with_cluster("berlin", {"taints": false}))
	answer.errors.clusters == {`cluster "berlin" has malformed taints: write a list of {key, value, effect}`}
}
