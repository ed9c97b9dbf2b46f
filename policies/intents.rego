# Made from the intent.yaml of the policies by `make generate`: change that instead.

# METADATA
# title: Intents
# description: |
#   The intents in force, and the requests that each has a say in. A deployment makes this module
#   again, for its policies and settings.
package intents

import data.node_pool

# METADATA
# description: The names of the intents.
names := {"node-pool"}

# METADATA
# description: |
#   The intents that have a say, by operation and by kind (`group/Kind`, or
#   `group/Kind/subresource`). Each has a list of label selectors, one of which has to
#   select the namespace.
requests := {
	"CREATE": {
		"/Pod": {"node-pool": [[]]},
		"/ReplicationController": {"node-pool": [[]]},
		"apps/DaemonSet": {"node-pool": [[]]},
		"apps/Deployment": {"node-pool": [[]]},
		"apps/ReplicaSet": {"node-pool": [[]]},
		"apps/StatefulSet": {"node-pool": [[]]},
		"batch/CronJob": {"node-pool": [[]]},
		"batch/Job": {"node-pool": [[]]},
	},
	"UPDATE": {
		"/Pod": {"node-pool": [[]]},
		"/ReplicationController": {"node-pool": [[]]},
		"apps/DaemonSet": {"node-pool": [[]]},
		"apps/Deployment": {"node-pool": [[]]},
		"apps/ReplicaSet": {"node-pool": [[]]},
		"apps/StatefulSet": {"node-pool": [[]]},
		"batch/CronJob": {"node-pool": [[]]},
		"batch/Job": {"node-pool": [[]]},
	},
}

# METADATA
# description: |
#   Those of them that may refuse an object, in the same form, with the namespaces that
#   their webhooks select. About an object that is too large for the policies, this
#   table alone decides.
refusals := {
	"CREATE": {
		"/Pod": {"node-pool": [[{"key": "agentpool", "operator": "NotIn", "values": [""]}, {"key": "agentpool", "operator": "Exists"}]]},
		"apps/DaemonSet": {"node-pool": [[{"key": "agentpool", "operator": "NotIn", "values": [""]}, {"key": "agentpool", "operator": "Exists"}]]},
	},
	"UPDATE": {
		"/Pod": {"node-pool": [[{"key": "agentpool", "operator": "NotIn", "values": [""]}, {"key": "agentpool", "operator": "Exists"}]]},
		"apps/DaemonSet": {"node-pool": [[{"key": "agentpool", "operator": "NotIn", "values": [""]}, {"key": "agentpool", "operator": "Exists"}]]},
	},
}

# METADATA
# description: What an intent has to say of the request.
decisions["node-pool"] := node_pool.decision

# METADATA
# description: What audit logs say of a request that an intent admits; empty if it has no say.
audits["node-pool"] := node_pool.audit

# METADATA
# description: The reasons of a decision, in sentences.
explanations["node-pool"] := node_pool.explanation
