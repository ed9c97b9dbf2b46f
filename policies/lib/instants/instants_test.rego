package lib.instants_test

import data.lib.instants

_start_of_1970 := 719528 * 86400

test_texts_of_one_instant if {
	every text in [
		"1970-01-01T00:00:00Z",
		"1970-01-01t00:00:00.000z",
		"1970-01-01T05:30:00+05:30",
		"1969-12-31T23:59:00-00:01",
	] {
		instants.parse(text) == [_start_of_1970, ""]
	}
}

test_the_whole_range if {
	every text, seconds in {
		"0000-01-01T00:00:00Z": 0,
		"0000-02-29T00:00:00Z": 59 * 86400,
		"0000-01-01T00:00:00+23:59": -86340,
		"2024-02-29T00:00:00Z": _start_of_1970 + 1709164800,
		"2000-03-01T00:00:00Z": _start_of_1970 + 951868800,
		"9999-12-31T23:59:59Z": 315569519999,
	} {
		instants.parse(text) == [seconds, ""]
	}
}

test_fractions_of_any_length if {
	instants.parse("1970-01-01T00:00:00.00000000001Z") == [_start_of_1970, "00000000001"]
	instants.parse("1970-01-01T00:00:00.1200Z") == [_start_of_1970, "12"]
	instants.parse("1970-01-01T00:00:00.1Z") < instants.parse("1970-01-01T00:00:00.11Z")
	instants.parse("1970-01-01T00:00:00.09Z") < instants.parse("1970-01-01T00:00:00.1Z")
}

test_what_is_no_time if {
	every text in {
		"",
		"1970-01-01",
		"1970-01-01T00:00:00",
		"1970-01-01 00:00:00Z",
		"1970-02-30T00:00:00Z",
		"1970-04-31T00:00:00Z",
		"1900-02-29T00:00:00Z",
		"1970-13-01T00:00:00Z",
		"1970-01-01T24:00:00Z",
		"1970-01-01T00:00:00+24:00",
		"1970-01-01T00:00:00Z\n",
		"2016-12-31T23:59:60Z",
	} {
		not instants.parse(text)
	}
}

test_leap_seconds if {
	instants.has_leap_second("2016-12-31T23:59:60Z")
	not instants.has_leap_second("2016-12-31T23:59:59Z")
}

test_the_clock if {
	instants.of_nanoseconds(0) == [_start_of_1970, ""]
	instants.of_nanoseconds(1500000000) == [_start_of_1970 + 1, "5"]
	instants.of_nanoseconds(-1) == [_start_of_1970 - 1, "999999999"]
}

test_waits if {
	now := instants.of_nanoseconds(100)
	every text, seconds in {
		"1970-01-01T00:00:00.0000001Z": 0,
		"1970-01-01T00:00:00.00000010000001Z": 0.000000001,
		"1970-01-01T00:00:01.0000001Z": 1,
		"1970-01-01T00:00:01.5Z": 1.4999999,
		"1970-01-01T00:01:00.0000002Z": 60,
		"9999-01-01T00:00:00Z": 60,
	} {
		instants.seconds_until(now, instants.parse(text), 60) == seconds
	}
}
