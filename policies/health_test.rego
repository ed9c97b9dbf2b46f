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

test_not_ready_without_a_decision if {
	not health.ready with data.kubernetes.namespaces as {} with data.settings as {}
}
