# What is wrong with the data of clusters.
package lib.workload_placement.eligibility

import data.lib.spelling
import data.lib.values
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# METADATA
# description: What is wrong with the data of clusters that a decision reads, as sets of sentences by the name of the cluster.
problems[name] contains "is no object" if {
	some name in _without_jurisdiction
	not is_object(world.clusters[name])
}

problems[name] contains "has no jurisdiction: set one" if {
	some name in _without_jurisdiction
	is_object(world.clusters[name])
	not _unquoted_jurisdictions[name]
}

problems[name] contains sprintf("has the jurisdiction %s", [text]) if some name, text in _unquoted_jurisdictions

problems[name] contains "has no location on-prem or public: set one" if {
	located := {name | some name, cluster in _at_home; cluster.location in {"on-prem", "public"}}
	some name in (object.keys(_at_home) - located)
}

problems[name] contains problem if {
	some name, cluster in _at_home
	some taint in cluster.taints
	is_string(taint.effect)
	not taint.effect in _effects
	problem := sprintf("has a taint with the effect %s: it is one of %s", [values.shown(taint.effect), values.listed(_effects)])
}

problems[name] contains problem if {
	some field, problem in {
		"capacity": "has a capacity that is no object of quantities",
		"certifications": "has certifications that are no list of texts",
		"cordoned": "has cordoned that is neither true nor false",
		"labels": "has labels that are no object of texts",
		"taints": "has malformed taints: write a list of {key, value, effect}",
	}
	some value in {cluster[field] | some cluster in _at_home}
	not _is_right(field, value)
	some name, cluster in _at_home
	cluster[field] == value
}

# Without them, a cluster would get more than it may.
problems[name] contains problem if {
	some key in (union({object.keys(cluster) | some cluster in _at_home}) - _read)
	some field in {"capacity", "cordoned", "taints"}
	spelling.resembles(key, field)
	problem := sprintf("has the key %s, which is not read: did you mean %s?", [values.shown(key), field])
	some name, cluster in _at_home
	key in object.keys(cluster)
}

# Neither would a capacity or a price of a resource that no pod can request.
problems[name] contains problem if {
	some field in {"capacity", "price"}
	some resource in union({object.keys(cluster[field]) | some cluster in _at_home; is_object(cluster[field])})
	problem := sprintf("has a %s of %s", [field, unrequestable(resource)])
	some name, cluster in _at_home
	resource in object.keys(cluster[field])
}

# METADATA
# description: What a sentence says of the name of a resource that no pod can request; undefined for other names.
unrequestable(name) := sprintf(
	"%s, which no pod can request: write %s, hugepages-SIZE, or a name with a domain, such as nvidia.com/gpu",
	[values.shown(name), values.listed(_resources)],
) if {
	not _is_resource(name)
}

_is_resource(name) if name in _resources

_is_resource(name) if contains(name, "/")

_is_resource(name) if startswith(name, "hugepages-")

_resources := {"cpu", "ephemeral-storage", "memory", "pods", "storage"}

_read := {"capacity", "certifications", "cordoned", "jurisdiction", "labels", "location", "price", "region", "taints"}

_unquoted_jurisdictions := {name: text |
	some name in _without_jurisdiction
	text := values.unquoted(world.clusters[name].jurisdiction)
}

_effects := {"NoExecute", "NoSchedule", "PreferNoSchedule"}

_without_jurisdiction := _elsewhere - object.keys(_other_jurisdictions)

_is_right("capacity", value) if _is_capacity(value)

_is_right("certifications", value) if values.texts(value)

_is_right("cordoned", value) if is_boolean(value)

# Only a cluster-selector reads labels.
_is_right("labels", _) if not request.has_selector

_is_right("labels", value) if {
	is_object(value)
	every label in value { is_string(label) }
}

_is_right("taints", value) if {
	is_array(value)
	every taint in value {
		is_string(taint.key)
		is_string(taint.effect)
		is_string(object.get(taint, "value", ""))
	}
}
