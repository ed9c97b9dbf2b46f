package system.health_test

import data.system.health

test_ready_with_a_decision_and_namespaces if {
	health.ready with data.kubernetes.namespaces as {}
}

test_not_ready_without_namespaces if {
	not health.ready with data.kubernetes as {}
}

test_not_ready_without_a_decision if {
	not health.ready with data.kubernetes.namespaces as {} with data.settings as {}
}
