# Whose workload it is, and what the law and contracts say about that customer.
package lib.workload_placement

# METADATA
# description: |
#   The name of the customer, by the first of these that says it: an annotation of the workload, a label of it, an
#   annotation of its namespace, a label of that.
customer_name := name if {
	name := _stated.customer
} else := _stated_by_namespace("customer")

# METADATA
# description: The customer with `jurisdictions` and `certifications`; undefined if it is not known or its data are wrong.
customer := {"jurisdictions": _jurisdictions, "certifications": _certifications}

_jurisdictions := _texts(_record.jurisdictions)

_certifications := _texts(object.get(_record, "certifications", []))

# One look-up, whose cost does not depend on the number of customers.
_record := _source.customers[customer_name]

_customer_problems contains problem if {
	not _names_customer
	problem := sprintf(
		"the workload names no customer, and neither does namespace %s: set the annotation or label customer",
		[shown(_namespace_name)],
	)
}

_customer_problems contains sprintf("customer %s is not known: it is not in placement.customers", [shown(customer_name)]) if {
	_names_customer
	not _is_known
}

_customer_problems contains sprintf("customer %s has no list of jurisdictions: set placement.customers.%s.jurisdictions", [
	shown(customer_name),
	customer_name,
]) if {
	_is_known
	not _jurisdictions
}

_customer_problems contains sprintf("the certifications of customer %s are no list of texts", [shown(customer_name)]) if {
	_jurisdictions
	not _certifications
}

# Helpers, because a name or a record may be false.
_names_customer if customer_name != null

_is_known if _record != null
