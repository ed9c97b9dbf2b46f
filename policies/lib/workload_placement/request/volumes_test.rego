package lib.workload_placement.request_test

import data.lib.workload_placement.request

test_workloads_with_claims if {
	every resource in [
		{"kind": "StatefulSet", "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}},
		{"kind": "Deployment", "spec": {"template": {"spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": "b"}}]}}}},
		{"kind": "Pod", "spec": {"volumes": [{"name": "b", "persistentVolumeClaim": {"claimName": "b"}}]}},
	] {
		request.has_claims with input as {"resource": resource}
	}
	every resource in [
		{"kind": "StatefulSet", "spec": {"volumeClaimTemplates": []}},
		{"kind": "Deployment", "spec": {"template": {"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}}}},
		{"kind": "Deployment", "spec": {"template": {"spec": {"volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {}}}]}}}},
	] {
		not request.has_claims with input as {"resource": resource}
	}
}

test_only_accept_accepts if {
	_volume_problems("accept") == set()
	_volume_problems("yes") == {`move-volumes is "yes": it can only be accept`}
}

_volume_problems(value) := problems if {
	problems := request.volume_problems with input as {"resource": {"metadata": {"annotations": {"move-volumes": value}}}}
}
