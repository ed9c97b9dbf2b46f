# METADATA
# title: Instants
# description: |
#   Times as RFC 3339 writes them, exactly and over its whole range: years 0000 to 9999, all offsets, and fractions of any
#   length. OPA's time.parse_rfc3339_ns knows only the years 1678 to 2262, and nine digits of a fraction.
#
#   An instant is `[seconds, fraction]`: the seconds since the beginning of the year 0000 in UTC, and the digits of the
#   fraction without zeros at the end. So OPA compares two instants exactly with `<`, `<=` and `==`.
package lib.instants

# METADATA
# description: |
#   The instant that a text names. Undefined for what is not a time of RFC 3339, or none of the calendar, and for the second
#   60, which clocks of computers do not count.
parse(text) := [seconds - _offset(zone), trim_right(fraction, "0")] if {
	[_, year, month, day, hour, minute, second, fraction, zone] := regex.find_all_string_submatch_n(_pattern, text, 1)[0]
	number := [_number(digits) | some digits in [year, month, day, hour, minute, second]]
	number[2] <= _days_of_month(number[0], number[1])
	seconds := ((((_days_before(number) * 24) + number[3]) * 3600) + (number[4] * 60)) + number[5]
}

# The calendar's limits that do not depend on one another, except for the length of months.
_pattern := concat("", [
	`^([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])`,
	`(?:\.([0-9]+))?([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$`,
])

# METADATA
# description: Whether a text names a leap second, which `parse` does not take.
has_leap_second(text) if regex.match(`^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:60`, text)

# METADATA
# description: The instant of a number of nanoseconds since 1970, as of `time.now_ns()`.
of_nanoseconds(nanoseconds) := [((nanoseconds - rest) / _giga) + _seconds_to_1970, _digits_of(rest)] if {
	rest := ((nanoseconds % _giga) + _giga) % _giga
}

# METADATA
# description: |
#   The seconds from one instant to a later one, rounded up to nanoseconds, but at most `longest`, which is a whole number
#   of seconds.
seconds_until(from, to, longest) := longest if {
	to[0] - from[0] > longest
} else := min([longest, _seconds(nanoseconds)]) if {
	rounded_up := _nanoseconds(to[1]) + _excess(to[1])
	nanoseconds := (((to[0] - from[0]) * _giga) + rounded_up) - _nanoseconds(from[1])
}

# Division of numbers with a fraction is not exact, so the digits are put together.
_seconds(nanoseconds) := nanoseconds / _giga if {
	nanoseconds % _giga == 0
} else := to_number(concat("", [format_int(whole, 10), ".", _digits_of(rest)])) if {
	rest := nanoseconds % _giga
	whole := (nanoseconds - rest) / _giga
}

_digits_of(nanoseconds) := trim_right(sprintf("%09d", [nanoseconds]), "0")

_nanoseconds(fraction) := _number(substring(concat("", [fraction, "000000000"]), 0, 9))

# What the digits after the ninth count for. An instant has no zeros at the end.
_excess(fraction) := 1 if count(fraction) > 9

else := 0

_giga := 1000000000

_seconds_to_1970 := 719528 * 86400

_offset(zone) := 0 if zone in {"Z", "z"}

_offset(zone) := sign * ((_number(substring(zone, 1, 2)) * 3600) + (_number(substring(zone, 4, 2)) * 60)) if {
	sign := {"+": 1, "-": -1}[substring(zone, 0, 1)]
}

# The days from the beginning of the year 0000 to this day. All years are of the Gregorian calendar, as in ISO 8601.
_days_before([year, month, day, _, _, _]) := ((of_years + of_months) + day) - 1 if {
	of_years := (((365 * year) + ceil(year / 4)) - ceil(year / 100)) + ceil(year / 400)
	of_months := sum([_days_of_month(year, earlier) | some earlier in numbers.range(1, 12); earlier < month])
}

_days_of_month(year, 2) := 29 if _is_leap(year)

_days_of_month(year, 2) := 28 if not _is_leap(year)

_days_of_month(_, month) := 30 if month in {4, 6, 9, 11}

_days_of_month(_, month) := 31 if month in {1, 3, 5, 7, 8, 10, 12}

_is_leap(year) if {
	year % 4 == 0
	year % 100 != 0
}

_is_leap(year) if year % 400 == 0

# Digits may begin with zeros, which JSON's numbers do not; a sum never does.
_number(digits) := to_number(digits) + 0
