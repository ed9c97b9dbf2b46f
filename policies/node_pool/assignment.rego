# The pool of the request's namespace, and what it gives.
package node_pool

import data.namespaces
import data.settings

_namespace := input.request.namespace

_labels := namespaces.labels(_namespace)

_known if {
	_labels
	not _late
}

# Without a default pool the API server asks about mapped namespaces only. Where all namespaces are replicated and none
# can be looked up (kube-mgmt, FAIRLEAD_MAPPED_ONLY), one without a pool is one whose new label is still on its way.
_late if {
	object.get(_labels, settings.namespace_label, "") == ""
	settings.default_pool == ""
	opa.runtime().env.FAIRLEAD_MAPPED_ONLY == "true"
}

# An empty label opts out of the default pool.
_pool := _labels[settings.namespace_label] if _labels[settings.namespace_label] != ""

_pool := settings.default_pool if {
	settings.default_pool != ""
	not settings.namespace_label in object.keys(_labels)
}

# What a Namespace under review is labelled with.
_labelled := input.request.object.metadata.labels[settings.namespace_label] if {
	input.request.object.metadata.labels[settings.namespace_label] != ""
}

_assignment := {"nodeSelector": {settings.node_label: _pool}, "tolerations": []} if count(settings.pools) == 0

_assignment := object.get(settings.pools, _pool, {}) if object.get(settings.pools, _pool, null) != null

_declared(_) if count(settings.pools) == 0

_declared(pool) if object.get(settings.pools, pool, null) != null

_declared_pools := concat(", ", sort(object.keys(settings.pools)))

# Whether any pool allows certain tolerations only, so that updates of tolerations matter.
_restricts_tolerations if {
	some name in object.keys(settings.pools)
	object.get(settings.pools, [name, "allowedTolerations"], null) != null
}
