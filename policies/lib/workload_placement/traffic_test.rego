package lib.workload_placement_test

_sending(flows) := {"traffic": json.marshal(flows)}

_near_and_far := object.union(_cheap_medium_dear, {
	"transfer": {
		"cheap": {"medium": 0.1, "dear": 0.05, "abroad": 1},
		"medium": {"cheap": 0.1, "dear": 0.1, "abroad": 0.02},
		"dear": {"cheap": 0.1, "medium": 0.1, "abroad": 0.02},
	},
	"applications": {
		"shop/db": {"clusters": {"dear": {"weight": 3}}},
		"shop/cache": {"clusters": ["dear", "medium"]},
		"shop/nowhere": {"clusters": []},
		"shop/wrong": {"clusters": 5},
	},
})

test_traffic_is_a_cost if {
	_divided(2, _sending({"applications": {"shop/db": 0.1}}), _near_and_far) == {"cheap": 2}
	_divided(2, _sending({"applications": {"shop/db": 10}}), _near_and_far) == {"dear": 2}
	_divided(2, _sending({"clusters": {"abroad": 1}}), _near_and_far) == {"medium": 2}
	_divided(2, {"traffic": {"clusters": {"abroad": 1}}}, _near_and_far) == {"medium": 2}
}

test_traffic_goes_to_the_nearest_cluster if {
	_divided(2, _sending({"applications": {"shop/cache": 10}}), _near_and_far) == {"medium": 2}
	costs := data.lib.workload_placement.costs with input as {"resource": _of_replicas(2, _sending({"applications": {"shop/cache": 10}}))}
		with data.placement as _near_and_far
	costs.cheap == 0.522
	costs.medium == 0.0231
}

test_traffic_is_a_cost_without_prices if {
	world := object.union(object.remove(_near_and_far, ["clusters"]), {"clusters": _priced({"cheap": {}, "dear": {}, "medium": {}}).clusters})
	_divided(2, _sending({"applications": {"shop/db": 1}}), world) == {"dear": 2}
	_divided(2, _sending({}), world) == {"cheap": 1, "dear": 1, "medium": 1}
}

_traffic_errors(traffic, world) := problems if {
	answer := _decided(_of_replicas(2, {"traffic": traffic}), world)
	answer.weights == {}
	object.keys(answer.errors) == {"traffic"}
	problems := concat("; ", answer.errors.traffic)
}

test_traffic_that_is_none if {
	_traffic_errors("lots", _near_and_far) == `"lots" is no JSON`
	_traffic_errors(`{"clusters": {"dear": NaN}}`, _near_and_far) == `"{\"clusters\": {\"dear\": NaN}}" is no JSON`
	every traffic in [
		false, 1, "null", [], {"dear": 1}, {"clusters": ["dear"]}, {"clusters": {"dear": -1}}, {"clusters": {"dear": "1"}},
		{"clusters": {"dear": 1000000001}}, {"applications": null}, sprintf(`{"clusters": {"dear": 0.%032d}}`, [1]),
	] {
		contains(_traffic_errors(traffic, _near_and_far), " is not {\"applications\": {NAME: GIB}, \"clusters\": {NAME: GIB}}")
	}
	many := {"clusters": {sprintf("c-%d", [number]): 1 | some number in numbers.range(1, 101)}}
	_traffic_errors(many, _near_and_far) == "it names 101 destinations: at most 100"
}

test_applications_that_run_nowhere if {
	every name in ["shop/unknown", "shop/nowhere", "shop/wrong", ""] {
		_traffic_errors({"applications": {name: 1}}, _near_and_far) == sprintf("application %q is not known to run in a cluster: it is not in placement.applications", [name])
	}
	every applications in [null, [], 5] {
		world := object.union(_near_and_far, {"applications": applications})
		startswith(_traffic_errors({"applications": {"shop/db": 1}}, world), `application "shop/db" is not known`)
	}
}

test_transfers_without_a_price if {
	every transfer in [{}, null, 5, {"cheap": 1, "dear": {"abroad": -1}, "medium": {"abroad": "1"}}] {
		world := object.union(_near_and_far, {"transfer": null})
		changed := object.union(world, {"transfer": transfer})
		_traffic_errors({"clusters": {"abroad": 1}}, changed) == "no price from 0 to 1000000000 of transfers from cheap to abroad, dear to abroad, medium to abroad: set placement.transfer"
	}
}

test_traffic_does_not_matter_for_clusters_that_are_asked_for if {
	_divided(2, {"traffic": {"clusters": {"abroad": 1}}, "replica-set-preferences": ["dear"]}, _cheap_medium_dear) == {"dear": 1}
}

test_keys_that_stand_twice if {
	_written_problems(`{"clusters": {"cheap": 1, "medium": 2, "cheap": 3}}`) == {`it has a key twice: "cheap"`}
	_written_problems(`{"clusters": {"cheap": 1, "ch\u0065ap": 3}}`) == {`it has a key twice: "cheap"`}
	_written_problems(`{"applications": {"shop/db": 1, "shop/db": 0}}`) == {`it has a key twice: "shop/db"`}
	_written_problems(`{"clusters": {"cheap": 1, "dear": 1}, "clusters": {"medium": 1}}`) == {`it has a key twice: "clusters"`}
	lost := concat(",", [sprintf(`"%d": 1`, [number]) | some number in numbers.range(1, 1000)])
	_written_problems(sprintf(`{"clusters": {%s}, "clusters": {"medium": 1}}`, [lost])) == {"it has a key twice"}
	_written_problems(`{"clusters": {"cheap": 1}, "applications": {"shop/db": 1}}`) == set()
	_written_problems(`{"clusters": {"cheap": 1, "dear": 2}}`) == set()
}

_written_problems(text) := object.get(errors, "traffic", set()) if {
	errors := data.lib.workload_placement.errors with input as {"resource": _of_replicas(2, {"traffic": text})}
		with data.placement as _near_and_far
}
