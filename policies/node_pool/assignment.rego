# The pool of the request's namespace, and what it gives.
package node_pool

import data.namespaces
import data.settings

namespace := input.request.namespace

replicated_label := namespaces.replicated(namespace, settings.namespace_label)

# The namespace's label, null where it has none; undefined while nobody can tell. Where a namespace has no pool, an API
# server asks about nothing but DaemonSets that an earlier pool changed. So what is replicated without a pool is in all
# likelihood older than the question: the answer is what the API server has now, and where that cannot be had there is
# none. Nobody but an API server may be told "no pool" by what is replicated.
namespace_label := replicated_label if _pool_replicated

namespace_label := namespaces.looked_up(namespace, settings.namespace_label) if {
	not _pool_replicated
	namespaces.can_look_up
}

namespace_label := replicated_label if {
	not _pool_replicated
	not namespaces.can_look_up
	not namespaces.mapped_only
}

# A helper, because `not` of a function of something undefined is undefined.
_pool_replicated if _pool_of(replicated_label)

# Null, which is no label, is as defined as any.
label_known if is_string(namespace_label)

label_known if is_null(namespace_label)

pool_name := _pool_of(namespace_label)

_pool_of(label) := label if not label in {"", null}

# An empty label opts out of the default pool.
_pool_of(null) := settings.default_pool if settings.default_pool != ""

# What a Namespace under review is labelled with.
reviewed_label := input.request.object.metadata.labels[settings.namespace_label] if {
	input.request.object.metadata.labels[settings.namespace_label] != ""
}

assignment := {"nodeSelector": {settings.node_label: pool_name}, "tolerations": []} if count(settings.pools) == 0

assignment := object.get(settings.pools, pool_name, {}) if object.get(settings.pools, pool_name, null) != null

# The same, and nothing where there is no pool.
default pool_gives := {"nodeSelector": {}, "tolerations": []}

pool_gives := assignment

is_declared(_) if count(settings.pools) == 0

is_declared(pool) if object.get(settings.pools, pool, null) != null

declared_pools := concat(", ", sort(object.keys(settings.pools)))

# Whether a nodeSelector has all that some pool gives, whatever else it has.
has_pool(selector) if {
	count(settings.pools) == 0
	is_string(selector[settings.node_label])
	selector[settings.node_label] != ""
}

has_pool(selector) if {
	some pool in object.keys(settings.pools)
	includes(selector, object.get(settings.pools, [pool, "nodeSelector"], {}))
}

includes(selector, wanted) if object.union(selector, wanted) == selector

# Whether any pool allows certain tolerations only, so that updates of tolerations matter.
restricts_tolerations if {
	some name in object.keys(settings.pools)
	object.get(settings.pools, [name, "allowedTolerations"], null) != null
}
