# What the other modules share. In this package, a file uses only those before it by name: sidecars load one file at a
# time in this order, and OPA takes a file only if all that it names of its own package is there.
package lib.workload_placement

import data.lib.quantities

# METADATA
# description: The keys of annotations, or else labels, by which a workload says something about its placement.
stated_keys := {"criticality", "customer", "max-replicas-per-cluster", "min-clusters", "replica-set-preferences", "traffic"}

# METADATA
# description: The keys of annotations that no label stands for.
annotation_keys := {"federation.alpha.kubernetes.io/cluster-selector", "federation.kubernetes.io/replica-set-preferences"}

# What an annotation of the workload says, or else a label; undefined if it has neither.
stated(key) := _stated[key]

# The same by key. All are read at once: to look for one key in both places takes OPA 15 allocations.
_stated := object.union(_stated_in("labels"), _stated_in("annotations"))

_stated_in(field) := {key: value |
	some key, value in object.filter(fields, stated_keys)
	value != null
} if {
	fields := input.resource.metadata[field]
	is_object(fields)
} else := {}

# The same of its namespace, as it was replicated.
_stated_by_namespace(key) := value if {
	value := _namespace.annotations[key]
	value != null
} else := value if {
	value := _namespace.labels[key]
	value != null
}

_namespace := data.kubernetes.namespaces[_namespace_name].metadata

# Without a namespace, API servers take this one.
default _namespace_name := "default"

_namespace_name := input.resource.metadata.namespace

# Files and OPA's API bring `data.placement`; a ConfigMap is found by its namespace and name.
_source := data.placement if {
	is_object(data.placement)
} else := data.fairlead.placement

# METADATA
# description: All clusters, by name.
clusters := _source.clusters

# METADATA
# description: All customers, by name.
customers := _source.customers

# METADATA
# description: Where applications run, by NAMESPACE/NAME.
applications := _source.applications

# A text of JSON, or a value as it is; undefined for a text that is none.
_unmarshalled(value) := value if not is_string(value)

_unmarshalled(value) := json.unmarshal(value) if {
	is_string(value)
	count(value) <= _longest
}

_text_in_json := `"(?:[^"\\]|\\.)*"`

# What is more than once in a sorted list.
_repeated_in(sorted) := {sorted[number] | some number; sorted[number] == sorted[number + 1]} if {
	count({element | some element in sorted}) < count(sorted)
}

# Nobody names more clusters.
_most_requested := 1000

_is_quantity(value) if quantities.nano(value) >= 0

# A longer number is none that a person writes, and costs time with each use.
_is_short(number) if count(json.marshal(number)) <= 32

_texts(list) := {text | some text in list} if {
	is_array(list)
	_are_strings(list)
}

# Whether all in a list are strings. Values of all types have an order, so that the least and the greatest tell of all of
# them; "" stands for those of an empty list.
_are_strings(list) if {
	all := array.concat(list, [""])
	is_string(min(all))
	is_string(max(all))
}

_listed(names) := concat(", ", sort(names)) if count(names) > 0

else := "none"

# An API server takes no longer annotations.
_longest := 262144

# A value as messages show it. It is cut, because it can have a megabyte.
shown(value) := substring(json.marshal(value), 0, 64)

# The explanation of a cluster whose data are wrong.
wrong := "its data are wrong"
