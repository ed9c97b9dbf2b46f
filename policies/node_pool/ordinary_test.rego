package node_pool_test

import data.node_pool

_defaults := {
	"namespace_label": "agentpool",
	"node_label": "agentpool",
	"pod_selector": "merge",
	"enforcement": {},
	"default_pool": "",
	"pools": {},
}

_declared := {
	"pool1": {"nodeSelector": {"agentpool": "pool1"}, "tolerations": []},
	"gpu": {"nodeSelector": {"agentpool": "gpu"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
	"closed": {"nodeSelector": {"agentpool": "closed"}, "tolerations": [], "allowedTolerations": []},
	"anywhere": {"nodeSelector": {}, "tolerations": []},
}

_ordinary_specs := [
	{},
	{"nodeSelector": null, "tolerations": null, "nodeName": ""},
	{"nodeSelector": {}},
	{"nodeSelector": {"agentpool": "pool1"}},
	{"nodeSelector": {"agentpool": "gpu"}},
	{"tolerations": [{"operator": "Exists"}]},
]

_other_specs := [
	null,
	{"nodeName": "n1"},
	{"nodeName": false},
	{"nodeSelector": []},
	{"nodeSelector": {"zone": "a"}},
	{"tolerations": {}},
]

_new(kind, spec) := {"request": {
	"uid": "42",
	"operation": "CREATE",
	"namespace": "payments",
	"kind": {"group": kind[0], "kind": kind[1]},
	"object": {"metadata": {"name": "web"}, "spec": _spec_of(kind[1], spec)},
}}

_spec_of("Pod", spec) := spec

_spec_of("Deployment", spec) := {"template": {"spec": spec}}

_in_a_pool(pool) := {"payments": {"metadata": {"labels": {"agentpool": pool}}}}

_ordinary(kind, spec, pool, pools) := [ordinary |
	ordinary := node_pool.ordinary with input as _new(kind, spec)
		with data.settings as object.union(_defaults, {"pools": pools})
		with data.kubernetes.namespaces as _in_a_pool(pool)
]

_general(kind, spec, pool, pools) := general if {
	general := {"decision": node_pool.decision, "audit": node_pool.audit} with input as _new(kind, spec)
		with data.settings as object.union(_defaults, {"pools": pools})
		with data.kubernetes.namespaces as _in_a_pool(pool)
		with data.node_pool.ordinary as false
}

test_what_is_ordinary_is_decided_as_by_the_general_rules if {
	ordinary := [[decided, _general(kind, spec, pool, pools)] |
		some kind in [["", "Pod"], ["apps", "Deployment"]]
		some spec in array.concat(_ordinary_specs, _other_specs)
		some pools in [{}, _declared]
		some pool in ["pool1", "gpu", "closed", "anywhere", "unknown", ""]
		some decided in _ordinary(kind, spec, pool, pools)
	]
	count(ordinary) > 40
	every pair in ordinary { pair[0] == pair[1] }
}

test_a_plain_pod_is_ordinary if {
	_ordinary(["", "Pod"], {}, "pool1", _declared) == [{
		"decision": {
			"deny": set(),
			"patch": [{"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": "pool1"}}],
			"warn": set(),
		},
		"audit": "placed: pool1",
	}]
}

test_a_template_is_not_changed if {
	_ordinary(["apps", "Deployment"], {}, "pool1", {}) == [{"decision": {"deny": set(), "patch": [], "warn": set()}, "audit": ""}]
}

test_what_a_pool_may_object_to_is_not_ordinary if {
	every spec in _other_specs { _ordinary(["", "Pod"], spec, "pool1", {}) == [] }
	every pool in ["closed", "anywhere", "unknown", ""] { _ordinary(["", "Pod"], {}, pool, _declared) == [] }
}
