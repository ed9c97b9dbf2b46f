package settings_test

import data.settings

test_the_defaults if {
	object.remove(settings, ["parameters"]) == {
		"namespace_label": "agentpool",
		"node_label": "agentpool",
		"pod_selector": "reject",
		"enforcement": {},
		"default_pool": "",
		"pools": {},
		"contact": "",
		"instances": {},
		"exempt": {},
	}
}
