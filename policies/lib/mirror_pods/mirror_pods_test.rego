package lib.mirror_pods_test

import data.lib.mirror_pods

_request(annotations, user) := {"request": {
	"object": {"metadata": {"annotations": annotations}, "spec": {"nodeName": "a"}},
	"userInfo": user,
}}

_mirror := {"kubernetes.io/config.mirror": "x"}

test_a_mirror_pod_is_created_by_its_own_node if {
	mirror_pods.is_mirror with input as _request(_mirror, {"username": "system:node:a", "groups": ["system:nodes"]})
}

test_an_annotation_alone_makes_no_mirror_pod if {
	every user in [
		{"username": "system:node:b", "groups": ["system:nodes"]},
		{"username": "system:node:a", "groups": []},
		{"username": "eve", "groups": ["system:nodes"]},
		{},
	] {
		not mirror_pods.is_mirror with input as _request(_mirror, user)
	}
	not mirror_pods.is_mirror with input as _request({}, {"username": "system:node:a", "groups": ["system:nodes"]})
}
