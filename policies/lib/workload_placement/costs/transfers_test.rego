package lib.workload_placement.costs_test

import data.lib.workload_placement.costs
import data.lib.workload_placement.scenes_test as scenes

test_traffic_is_a_cost if {
	scenes.divided(2, scenes.sending({"applications": {"shop/db": 0.1}}), scenes.near_and_far) == {"cheap": 2}
	scenes.divided(2, scenes.sending({"applications": {"shop/db": 10}}), scenes.near_and_far) == {"dear": 2}
	scenes.divided(2, scenes.sending({"clusters": {"abroad": 1}}), scenes.near_and_far) == {"medium": 2}
	scenes.divided(2, {"traffic": {"clusters": {"abroad": 1}}}, scenes.near_and_far) == {"medium": 2}
}

test_traffic_goes_to_the_nearest_cluster if {
	scenes.divided(2, scenes.sending({"applications": {"shop/cache": 10}}), scenes.near_and_far) == {"medium": 2}
	prices := costs.by_cluster with input as {"resource": scenes.of_replicas(2, scenes.sending({"applications": {"shop/cache": 10}}))}
		with data.placement as scenes.near_and_far
	prices.cheap == 0.522
	prices.medium == 0.0231
}

test_traffic_is_a_cost_without_prices if {
	world := object.union(object.remove(scenes.near_and_far, ["clusters"]), {"clusters": scenes.priced({"cheap": {}, "dear": {}, "medium": {}}).clusters})
	scenes.divided(2, scenes.sending({"applications": {"shop/db": 1}}), world) == {"dear": 2}
	scenes.divided(2, scenes.sending({}), world) == {"cheap": 1, "dear": 1, "medium": 1}
}

test_applications_that_run_nowhere if {
	every name in ["shop/unknown", "shop/nowhere", "shop/wrong", ""] {
		scenes.traffic_errors({"applications": {name: 1}}, scenes.near_and_far) == sprintf("application %q is not known to run in a cluster: it is not in placement.applications", [name])
	}
	every applications in [null, [], 5] {
		world := object.union(scenes.near_and_far, {"applications": applications})
		startswith(scenes.traffic_errors({"applications": {"shop/db": 1}}, world), `application "shop/db" is not known`)
	}
}

test_transfers_without_a_price if {
	every transfer in [{}, null, 5, {"cheap": 1, "dear": {"abroad": -1}, "medium": {"abroad": "1"}}] {
		world := object.union(scenes.near_and_far, {"transfer": null})
		changed := object.union(world, {"transfer": transfer})
		scenes.traffic_errors({"clusters": {"abroad": 1}}, changed) == "no price from 0 to 1000000000 of transfers from cheap to abroad, dear to abroad, medium to abroad: set placement.transfer"
	}
}

test_traffic_does_not_matter_for_clusters_that_are_asked_for if {
	scenes.divided(2, {"traffic": {"clusters": {"abroad": 1}}, "replica-set-preferences": ["dear"]}, scenes.cheap_medium_dear) == {"dear": 1}
}
