# The pool of the request's namespace, and the assignment that it gives.
package node_pool

import data.namespaces
import data.settings

namespace := input.request.namespace

replicated_label := namespaces.replicated(input.request.namespace, settings.namespace_label)

# The namespace's pool label; null if it has none, undefined while it cannot be determined. About a namespace without a
# pool, API servers ask only if a DaemonSet has what an earlier pool gave it. So if the replicated namespace has no
# pool, the replica is probably out of date, and the sidecar looks up the label that the API server has now. Without
# lookups (kube-mgmt), a replicated "no pool" gives no answer to API servers. It does for others, such as `fairlead
# eval`.
namespace_label := replicated_label if not replicated_label in {"", null}

else := null if {
	replicated_label == null
	settings.default_pool != ""
} else := namespaces.looked_up(namespace, settings.namespace_label) if {
	namespaces.can_look_up
} else := replicated_label if {
	not namespaces.can_look_up
	not namespaces.mapped_only
}

# Null, for a namespace without the label, is a known value, too.
label_known if type_name(namespace_label) in {"string", "null"}

# An empty label opts out of the default pool.
pool_name := namespace_label if not namespace_label in {"", null}

else := settings.default_pool if {
	namespace_label == null
	settings.default_pool != ""
}

# The pool label of a Namespace that is itself under review.
reviewed_label := input.request.object.metadata.labels[settings.namespace_label] if {
	input.request.object.metadata.labels[settings.namespace_label] != ""
}

# What the pool gives and allows; undefined without a pool, and for one that is not declared.
assignment := {"nodeSelector": {settings.node_label: pool_name}, "tolerations": []} if count(settings.pools) == 0

else := declared if {
	declared := object.get(settings.pools, pool_name, null)
	declared != null
}

# The assignment, or an empty one without a pool.
default pool_gives := {"nodeSelector": {}, "tolerations": []}

pool_gives := assignment # regal ignore:pointless-reassignment

is_declared(_) if count(settings.pools) == 0

is_declared(pool) if object.get(settings.pools, pool, null) != null

declared_pools := concat(", ", sort(object.keys(settings.pools)))

# Whether a nodeSelector contains the whole nodeSelector of any pool.
has_pool(selector) if {
	count(settings.pools) == 0
	is_string(selector[settings.node_label])
	selector[settings.node_label] != ""
}

has_pool(selector) if {
	some pool in object.keys(settings.pools)
	includes(selector, object.get(settings.pools, [pool, "nodeSelector"], {}))
}

includes(selector, part) if object.union(selector, part) == selector

# Whether any pool restricts tolerations, so that updates of tolerations matter.
restricts_tolerations if {
	some name in object.keys(settings.pools)
	object.get(settings.pools, [name, "allowedTolerations"], null) != null
}
