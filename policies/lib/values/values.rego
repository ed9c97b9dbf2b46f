# METADATA
# title: Values that users write
# description: How values in annotations and data are read, and how messages show them.
package lib.values

# METADATA
# description: The most characters of an annotation. API servers take no longer ones.
longest := 262144

# METADATA
# description: The value that a text of JSON stands for, and any other value as it is. Undefined for a text that is not JSON.
unmarshalled(value) := value if not is_string(value)

unmarshalled(value) := json.unmarshal(value) if {
	is_string(value)
	count(value) <= longest
}

# METADATA
# description: The first texts in a text of JSON, at most so many, sorted; keys are texts, too.
texts_in(text, most) := sort([json.unmarshal(part) | some part in regex.find_n(`"(?:[^"\\]|\\.)*"`, text, most)])

# METADATA
# description: What a sorted list has more than once.
repeated(sorted) := {element | some index, element in sorted; element == sorted[index + 1]}

# METADATA
# description: The texts of a list, as a set. Undefined for anything but a list of texts.
texts(list) := {text | some text in list} if {
	is_array(list)
	every text in list { is_string(text) }
}

# METADATA
# description: The whole number, above 0 and below 10,000,000, that a number or a text says. Undefined for others.
whole(value) := to_number(text) if {
	text := sprintf("%v", [value])
	regex.match(`^[1-9][0-9]{0,6}$`, text)
}

# METADATA
# description: How many of `number` a whole number says, or a percentage such as `50%`, rounded up. Undefined for others.
part_of(_, value) := whole(value)

part_of(number, value) := ceil((number * to_number(trim_suffix(value, "%"))) / 100) if {
	regex.match(`^([1-9][0-9]?|100)%$`, value)
}

# METADATA
# description: Whether it is a number that a person writes. A longer one costs time with each use.
is_short(number) if {
	is_number(number)
	count(json.marshal(number)) <= 32
}

# METADATA
# description: |
#   The clusters that a value names, as a list or by their names. A list may also be written as `{"clusters": [NAME]}`.
#   Undefined for any other shape.
choices(value) := value if is_array(value)

choices(value) := value.clusters if {
	object.keys(value) == {"clusters"}
	type_name(value.clusters) in {"array", "object"}
}

# METADATA
# description: What YAML read where somebody wrote a text without quotes, as messages say it; undefined for other values.
unquoted(false) := "false, as YAML reads no and off: quote it"

unquoted(true) := "true, as YAML reads yes and on: quote it"

unquoted(number) := sprintf("the number %v: quote it", [number]) if is_number(number)

# METADATA
# description: |
#   The weights in a list of names, each of which has 1, or in an object, `{NAME: {"weight": NUMBER}}`, by name.
weights(choices) := {name: 1 | some name in choices} if is_array(choices)

weights(choices) := {name: choice.weight | some name, choice in choices} if is_object(choices)

# METADATA
# description: Whether it is a weight.
is_weight(weight) if {
	is_short(weight)
	weight >= 0.000001
	weight <= 1000000
}

# METADATA
# description: A value as messages show it. It is cut, because it can have a megabyte.
shown(value) := substring(json.marshal(value), 0, 64)

# METADATA
# description: Names as messages show them.
listed(names) := concat(", ", sort(names)) if count(names) > 0

else := "none"
