# METADATA
# title: Quantities
# description: |
#   Quantities of resources, such as `500m` and `1.5Gi`, as Kubernetes reads them (ParseQuantity in
#   k8s.io/apimachinery/pkg/api/resource). OPA's units.parse and units.parse_bytes know other suffixes. Amounts are
#   integers, because OPA is exact only with these.
package lib.quantities

# METADATA
# description: |
#   The amount in billionths of the resource's unit (cores, bytes, devices); a fraction of a billionth counts as one.
#   Undefined for what is not a quantity. The last way is for any of them, and takes thirty times as long as those before it,
#   for the usual forms. Amounts of `10^64` or more count as that, and binary ones (`Ki`, `Mi`, ...) as at
#   most 2^63-1 units.
nano(value) := to_number(value) * 1000000000 if {
	regex.match(`^(0|[1-9][0-9]{0,11})$`, value)
} else := to_number(trim_suffix(value, "Gi")) * 1073741824000000000 if {
	regex.match(`^[1-9][0-9]{0,8}Gi$`, value)
} else := to_number(trim_suffix(value, "m")) * 1000000 if {
	regex.match(`^[1-9][0-9]{0,8}m$`, value)
} else := to_number(trim_suffix(value, "Mi")) * 1048576000000000 if {
	regex.match(`^[1-9][0-9]{0,8}Mi$`, value)
} else := amount if {
	[_, sign, whole, fraction, suffix] := _parts(_written(value))
	amount := _signed(sign, _magnitude(whole, fraction, suffix))
}

# METADATA
# description: |
#   An amount as a person reads it, in thousandths of the unit if they are needed, otherwise in whole units or in `Ki`,
#   `Mi` or `Gi` of them; more than 10^15 units are not told apart.
text(amount) := "more than 1P" if {
	amount > 1000000000000000000000000
} else := concat("", [format_int(milli, 10), "m"]) if {
	milli := _milli(amount)
	milli % 1000 != 0
} else := concat("", [format_int(whole / _binary[suffix], 10), suffix]) if {
	whole := _milli(amount) / 1000
	whole > 0
	suffix := [suffix | some suffix in ["Gi", "Mi", "Ki"]; whole % _binary[suffix] == 0][0]
} else := format_int(_milli(amount) / 1000, 10)

# API servers round up in the same way.
_milli(amount) := to_number(_shifted(format_int(amount, 10), -6))

# JSON may have numbers, too; null is zero.
_written(null) := "0"

_written(value) := json.marshal(value) if is_number(value)

_written(value) := value if is_string(value)

# API servers read a suffix without a number as zero, and write it so, too.
_parts(written) := regex.find_all_string_submatch_n(_pattern, written, 1)[0] if regex.match(`[0-9]`, written)

_pattern := `^([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+|)$`

_signed("-", magnitude) := 0 - magnitude

_signed(sign, magnitude) := magnitude if sign != "-"

_magnitude(whole, fraction, suffix) := to_number(_shifted(digits, shift)) if {
	digits := concat("", [whole, fraction])
	shift := (9 + _exponent(suffix)) - count(fraction)
}

_magnitude(whole, fraction, suffix) := min([to_number(_shifted(digits, 9 - count(fraction))), _most_binary]) if {
	digits := format_int(to_number(_trimmed(concat("", [whole, fraction]))) * _binary[suffix], 10)
}

_most_binary := 9223372036854775807000000000

_exponent(suffix) := _exponents[suffix]

# An exponent with more than three digits is too large, or too small, for any resource.
_exponent(suffix) := to_number(concat("", [sign, substring(digits, 0, 4)])) if {
	[_, sign, digits] := regex.find_all_string_submatch_n(`^[eE]\+?(-?)0*([0-9]+)$`, suffix, 1)[0]
}

_exponents := {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

_binary := {
	"Ki": 1024,
	"Mi": 1048576,
	"Gi": 1073741824,
	"Ti": 1099511627776,
	"Pi": 1125899906842624,
	"Ei": 1152921504606846976,
}

# The digits times 10^shift, rounded up, as digits. OPA's division of large integers is not exact.
_shifted(digits, shift) := "0" if {
	trim_left(digits, "0") == ""
} else := concat("", ["1", _zeros]) if {
	count(trim_left(digits, "0")) + shift > 64
} else := concat("", [trim_left(digits, "0"), substring(_zeros, 0, shift)]) if {
	shift >= 0
} else := format_int(to_number(kept) + _one_for(rest), 10) if {
	significant := trim_left(digits, "0")
	kept := _trimmed(substring(significant, 0, max([0, count(significant) + shift])))
	rest := substring(significant, max([0, count(significant) + shift]), -1)
}

_zeros := "0000000000000000000000000000000000000000000000000000000000000000"

_one_for(rest) := 1 if trim_left(rest, "0") != ""

else := 0

# Digits as JSON writes a number.
_trimmed(digits) := "0" if {
	trim_left(digits, "0") == ""
} else := trim_left(digits, "0")
