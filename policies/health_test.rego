package system.health_test

import data.system.health

test_ready_with_a_decision_and_namespaces if {
	health.ready with data.kubernetes.namespaces as {}
}

test_not_ready_without_namespaces if {
	not health.ready with data.kubernetes as {}
}

test_not_ready_while_an_intent_does_not_decide if {
	not health.ready with data.kubernetes.namespaces as {} with data.system._decisions as false
	not health.ready with data.kubernetes.namespaces as {} with data.node_pool.decision as {"deny": {"x"}, "patch": [], "warn": set()}
}

test_ready_with_data_of_any_age_without_a_limit if {
	health.ready with data.kubernetes.namespaces as {} with data.fairlead_confirmed as {"at": 0}
}

test_ready_only_while_data_are_confirmed_with_a_limit if {
	every now in [990, 1000, 1010] {
		_bounded with time.now_ns as now * 1000000000
	}
	every now in [989.999, 1010.001] {
		not _bounded with time.now_ns as now * 1000000000
	}
}

_bounded if {
	health.ready with data.kubernetes.namespaces as {}
		with data.fairlead_confirmed as {"at": 1000 * 1000000000, "within": 10}
}

test_not_ready_without_a_decision if {
	not health.ready with data.kubernetes.namespaces as {} with data.settings as {}
}

test_not_ready_by_a_bundle_that_does_not_count if {
	not health.ready with data.kubernetes.namespaces as {} with data.signed_bundle.refused as true
}
