package lib.quantities_test

import data.lib.quantities

_units := 1000000000

test_decimal_suffixes if {
	every text, amount in {
		"0": 0,
		"1": _units,
		"+1": _units,
		"-1": 0 - _units,
		".5": _units / 2,
		"5.": 5 * _units,
		"007": 7 * _units,
		"500m": _units / 2,
		"1u": 1000,
		"1n": 1,
		"1k": 1000 * _units,
		"1M": 1000000 * _units,
		"1E": 1000000000000000000 * _units,
		"100E": 100000000000000000000 * _units,
		"99999999999999999999999999": 99999999999999999999999999000000000,
	} {
		quantities.nano(text) == amount
	}
}

test_exponents if {
	every text, amount in {
		"1e3": 1000 * _units,
		"1E+3": 1000 * _units,
		"12E-2": 120000000,
		"1e0009": 1000000000 * _units,
		"0e99": 0,
	} {
		quantities.nano(text) == amount
	}
}

test_exponents_that_no_resource_has if {
	quantities.nano("1e999999999999") == quantities.nano("9e70")
	quantities.nano("1e-999999999999") == 1
}

test_binary_suffixes if {
	every text, amount in {
		"1Ki": 1024 * _units,
		"1.5Gi": 1610612736 * _units,
		"0.1Ki": 102400000000,
		"0Gi": 0,
		"1Ei": 1152921504606846976 * _units,
		"8Ei": 9223372036854775807 * _units,
		"-9Ei": 0 - (9223372036854775807 * _units),
	} {
		quantities.nano(text) == amount
	}
}

test_fractions_are_rounded_up if {
	every text in ["1n", "0.1n", "1e-30", "0.0000000001"] { quantities.nano(text) == 1 }
	quantities.nano("-1.5n") == -2
	quantities.nano("0.123456789012") == 123456790
}

test_numbers_and_null if {
	quantities.nano(2) == 2 * _units
	quantities.nano(0.5) == _units / 2
	quantities.nano(null) == 0
}

test_other_texts_are_no_quantities if {
	every text in ["", " 1", "1 ", "1K", "1ki", "1mi", "1GB", "1KiB", "1e", "1e1.5", "1,5", "0x10", "+-1", "Gi", ".", "NaN", true, []] {
		not quantities.nano(text)
	}
}

test_texts_of_amounts if {
	every text, same in {
		"0": "0",
		"1": "1",
		"2.5": "2500m",
		"0.0001": "1m",
		"1000": "1000",
		"1k": "1000",
		"1024": "1Ki",
		"1.5Gi": "1536Mi",
		"2Gi": "2Gi",
		"0.6Gi": "644245094400m",
		"1P": "976562500000Ki",
		"100E": "more than 1P",
	} {
		quantities.text(quantities.nano(text)) == same
	}
}
