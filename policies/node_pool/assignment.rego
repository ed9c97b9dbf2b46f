# The pool of the request's namespace, and what it gives.
package node_pool

import data.namespaces
import data.settings

_namespace := input.request.namespace

_held := namespaces.replicated(_namespace, settings.namespace_label)

# The namespace's label, null where it has none; undefined while nobody can tell. Where a namespace has no pool, an API
# server asks about nothing but DaemonSets that an earlier pool changed. So what is replicated without a pool is in all
# likelihood older than the question: the answer is what the API server has now, and where that cannot be had there is
# none. Nobody but an API server may be told "no pool" by what is replicated.
_label := _held if _pool_held

_label := namespaces.looked_up(_namespace, settings.namespace_label) if {
	not _pool_held
	namespaces.can_look_up
}

_label := _held if {
	not _pool_held
	not namespaces.can_look_up
	not namespaces.mapped_only
}

# A helper, because `not` of a function of something undefined is undefined.
_pool_held if _pool_of(_held)

# Null, which is no label, is as defined as any.
_known if is_string(_label)

_known if is_null(_label)

_pool := _pool_of(_label)

_pool_of(label) := label if not label in {"", null}

# An empty label opts out of the default pool.
_pool_of(null) := settings.default_pool if settings.default_pool != ""

# What a Namespace under review is labelled with.
_labelled := input.request.object.metadata.labels[settings.namespace_label] if {
	input.request.object.metadata.labels[settings.namespace_label] != ""
}

_assignment := {"nodeSelector": {settings.node_label: _pool}, "tolerations": []} if count(settings.pools) == 0

_assignment := object.get(settings.pools, _pool, {}) if object.get(settings.pools, _pool, null) != null

# The same, and nothing where there is no pool.
default _given := {"nodeSelector": {}, "tolerations": []}

_given := _assignment

_declared(_) if count(settings.pools) == 0

_declared(pool) if object.get(settings.pools, pool, null) != null

_declared_pools := concat(", ", sort(object.keys(settings.pools)))

# Whether a nodeSelector has all that some pool gives, whatever else it has.
_has_pool(selector) if {
	count(settings.pools) == 0
	is_string(selector[settings.node_label])
	selector[settings.node_label] != ""
}

_has_pool(selector) if {
	some pool in object.keys(settings.pools)
	_has(selector, object.get(settings.pools, [pool, "nodeSelector"], {}))
}

_has(selector, wanted) if object.union(selector, wanted) == selector

# Whether any pool allows certain tolerations only, so that updates of tolerations matter.
_restricts_tolerations if {
	some name in object.keys(settings.pools)
	object.get(settings.pools, [name, "allowedTolerations"], null) != null
}
