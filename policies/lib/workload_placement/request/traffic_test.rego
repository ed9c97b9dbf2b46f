package lib.workload_placement.request_test

import data.lib.workload_placement.decision as placement
import data.lib.workload_placement.scenes_test as scenes

test_traffic_that_is_none if {
	scenes.traffic_errors("lots", scenes.near_and_far) == `"lots" is no JSON`
	scenes.traffic_errors(`{"clusters": {"dear": NaN}}`, scenes.near_and_far) == `"{\"clusters\": {\"dear\": NaN}}" is no JSON`
	every traffic in [
		false, 1, "null", [], {"dear": 1}, {"clusters": ["dear"]}, {"clusters": {"dear": -1}}, {"clusters": {"dear": "1"}},
		{"clusters": {"dear": 1000000001}}, {"applications": null}, sprintf(`{"clusters": {"dear": 0.%032d}}`, [1]),
	] {
		contains(scenes.traffic_errors(traffic, scenes.near_and_far), " is not {\"applications\": {NAME: GIB}, \"clusters\": {NAME: GIB}}")
	}
	many := {"clusters": {sprintf("c-%d", [number]): 1 | some number in numbers.range(1, 101)}}
	scenes.traffic_errors(many, scenes.near_and_far) == "it names 101 destinations: at most 100"
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
	errors := placement.errors with input as {"resource": scenes.of_replicas(2, {"traffic": text})}
		with data.placement as scenes.near_and_far
}
