# METADATA
# title: Customers
# description: Whose workload it is, and what the law and contracts say about that customer.
# schemas:
#   - input: schema.placement
package lib.workload_placement.customers

import data.lib.spelling
import data.lib.values
import data.lib.workload_placement.request
import data.lib.workload_placement.world

# METADATA
# description: |
#   The name of the customer, by the first of these that says it: an annotation of the workload, a label of it, an
#   annotation of its namespace, a label of that. Undefined if none does.
name := request.stated.customer if {
	request.stated.customer != null
} else := customer_name if {
	customer_name := _namespace.annotations.customer
	customer_name != null
} else := customer_name if {
	customer_name := _namespace.labels.customer
	customer_name != null
}

_namespace := data.kubernetes.namespaces[request.namespace].metadata

# METADATA
# description: The customer with `jurisdictions` and `certifications`; undefined if it is not known or its data are wrong.
customer := {"jurisdictions": _jurisdictions, "certifications": _certifications}

_record := world.customers[name]

_jurisdictions := values.texts(_record.jurisdictions)

_certifications := values.texts(object.get(_record, "certifications", []))

# METADATA
# description: Why there is no customer to decide by, in a clause; undefined if there is one.
lack := "the workload names no customer" if {
	not _is_named
} else := "the customer is not known" if {
	not _is_known
} else := sprintf("the data of customer %s are not valid (%s)", [values.shown(name), values.listed(_invalid)]) if {
	count(_invalid) > 0
}

# The places of the data from which nothing can be decided.
_invalid := {sprintf("placement.customers.%s", [name])} if {
	not is_object(_record)
} else := {sprintf("placement.customers.%s.%s", [name, field]) | some field in (_fields - _valid)}

_valid contains "jurisdictions" if _jurisdictions

_valid contains "certifications" if _certifications

# METADATA
# description: Why the customer is not known, as sentences.
problems contains problem if {
	not _is_named
	problem := sprintf(
		"the workload names no customer, and neither does namespace %s: set the annotation or label customer",
		[values.shown(request.namespace)],
	)
}

problems contains sprintf("customer %s is not known: it is not in placement.customers", [values.shown(name)]) if {
	_is_named
	not _is_known
}

problems contains problem if {
	_is_known
	not _jurisdictions
	count(_unquoted) == 0
	problem := sprintf(
		"customer %s has no list of jurisdictions: set placement.customers.%s.jurisdictions",
		[values.shown(name), name],
	)
}

problems contains sprintf("one of the %s of customer %s is %s", [field, values.shown(name), text]) if {
	some [field, text] in _unquoted
}

# A requirement whose key is misspelt would not be read.
problems contains problem if {
	some key in _further_keys
	some field in _fields
	spelling.resembles(key, field)
	problem := sprintf(
		"customer %s has the key %s, which is not read: did you mean %s?",
		[values.shown(name), values.shown(key), field],
	)
}

# So would one that has a name of its own, and the values of a requirement.
problems contains problem if {
	some key in _further_keys
	every field in _fields { not spelling.resembles(key, field) }
	lacking := (_texts(_record[key]) & _certifications_of_clusters) - _certifications
	count(lacking) > 0
	problem := sprintf(
		"customer %s has the key %s with %s, which is not read: write it into certifications, or below labels if it is no requirement",
		[values.shown(name), values.shown(key), values.listed(lacking)],
	)
}

problems contains sprintf("the certifications of customer %s are no list of texts", [values.shown(name)]) if {
	_jurisdictions
	not _certifications
	count(_unquoted) == 0
}

_unquoted contains [field, text] if {
	some field in _fields
	is_array(_record[field])
	some value in _record[field]
	text := values.unquoted(value)
}

_further_keys := (object.keys(_record) - _fields) - {"labels"}

_fields := {"certifications", "jurisdictions"}

_texts(value) := {value} if {
	is_string(value)
} else := {text | some text in value; is_string(text)}

_certifications_of_clusters := {text |
	some cluster in world.clusters
	some text in cluster.certifications
}

# Helpers, because a name or a record may be false.
_is_named if name != null

_is_known if _record != null
