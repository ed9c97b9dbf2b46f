# METADATA
# title: Label selectors
# description: What the operators of Kubernetes' selectors of labels, and of nodes, mean.
package lib.label_selectors

# METADATA
# description: Whether the value of a label, null for none, is as an operator with these texts wants it.
meets("In", texts, value) if value in texts

meets("NotIn", texts, value) if not value in texts

meets("Exists", _, value) if value != null

meets("DoesNotExist", _, null)

meets("Gt", [bound], value) if _number(value) > to_number(bound)

meets("Lt", [bound], value) if _number(value) < to_number(bound)

_number(text) := to_number(text) if is_number_text(text)

# METADATA
# description: Whether it is a whole number, as `Gt` and `Lt` compare it.
is_number_text(text) if regex.match(`^(0|-?[1-9][0-9]{0,17})$`, text)
