package settings_test

import data.settings

test_the_defaults if {
	settings == {
		"namespace_label": "agentpool",
		"node_label": "agentpool",
		"pod_selector": "reject",
		"enforcement": {},
		"default_pool": "",
		"pools": {},
		"contact": "",
		"parameters": {"node_pool": {}},
	}
}
