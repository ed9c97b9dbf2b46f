# METADATA
# title: Other data
# description: |
#   The data of placement as they would be after changes: `{"without": {CLUSTER: [CERTIFICATION]}, "prices": {CLUSTER:
#   {RESOURCE: NUMBER}}}`, each of which may be missing.
# schemas:
#   - data.placement: schema.placement_data
package lib.what_if

import data.lib.workload_placement.costs
import data.lib.workload_placement.eligibility
import data.lib.workload_placement.world as placement

# METADATA
# description: The value of `data.placement` after the changes.
world(changes) := object.union(data.placement, {"clusters": {name: _changed(changes, name) | some name in _named(changes)}})

_changed(changes, name) := object.union(
	{"certifications": [certification |
		some certification in object.get(placement.clusters, [name, "certifications"], [])
		not certification in object.get(changes, ["without", name], [])
	]},
	{"price": object.get(changes, ["prices", name], {})},
)

_named(changes) := object.keys(object.get(changes, "without", {})) | object.keys(object.get(changes, "prices", {}))

# METADATA
# description: Why the changes make no sense, as a set of sentences.
problems(changes) := union({_unknown(changes), _not_held(changes), _wrongly_priced(changes), _unrequestable(changes)})

_unknown(changes) := {problem |
	some name in _named(changes)
	not _is_cluster(name)
	problem := sprintf("cluster %q is not known: placement.clusters has %s", [name, _shown(object.keys(placement.clusters))])
}

_not_held(changes) := {problem |
	some name, certifications in object.get(changes, "without", {})
	_is_cluster(name)
	held := object.get(placement.clusters, [name, "certifications"], [])
	some certification in certifications
	not certification in held
	problem := sprintf("cluster %q has no certification %q that it could lose: it has %s", [name, certification, _shown(held)])
}

_wrongly_priced(changes) := {problem |
	some name, prices in object.get(changes, "prices", {})
	some resource, price in prices
	not costs.is_price(price)
	values := [price, resource, name, costs.highest_price]
	problem := sprintf("the price %v of %s in cluster %q is no number from 0 to %d", values)
}

_unrequestable(changes) := {problem |
	some name, prices in object.get(changes, "prices", {})
	some resource, _ in prices
	problem := sprintf("the price in cluster %q is of %s", [name, eligibility.unrequestable(resource)])
}

_is_cluster(name) if is_object(placement.clusters[name])

# A few names, because there can be thousands.
_shown(names) := concat(", ", array.concat(array.slice(sort(names), 0, 10), ["..." | count(names) > 10])) if {
	count(names) > 0
} else := "none"

# METADATA
# description: Whether two answers of placement differ in the clusters or the errors.
differ(now, then) if object.remove(now, ["explanation"]) != object.remove(then, ["explanation"])

# METADATA
# description: The names of the clusters in an answer.
clusters(answer) := sort(object.keys(answer.annotations["replica-set-preferences"].clusters))

# METADATA
# description: All errors of an answer as one text; empty without errors.
errors(answer) := concat("; ", sort({sprintf("%s: %s", [about, sentence]) |
	some about, sentences in answer.errors
	some sentence in sentences
}))
