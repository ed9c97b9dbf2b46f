package lib.values_test

import data.lib.values

test_unmarshalled if {
	values.unmarshalled(`["a"]`) == ["a"]
	values.unmarshalled(["a"]) == ["a"]
	every text in ["", "a", "{"] { not values.unmarshalled(text) }
	not values.unmarshalled(sprintf("%262145s", ["[]"]))
}

test_texts_in_json if {
	values.texts_in(`{"b": ["\u0061", "c\""]}`, 9) == ["a", "b", `c"`]
	values.texts_in(`["a", "b"]`, 1) == ["a"]
	values.repeated(["a", "a", "b"]) == {"a"}
	values.repeated(["a", "b"]) == set()
}

test_texts if {
	values.texts(["b", "a", "b"]) == {"a", "b"}
	values.texts([]) == set()
	every value in [null, "a", {"a": "b"}, ["a", 1]] { not values.texts(value) }
}

test_whole_numbers if {
	values.whole("12") == 12
	values.whole(12) == 12
	every value in ["0", "-1", "1.5", "", "x", "10000000", 0, 1.5, true, ["1"], "1e3"] { not values.whole(value) }
}

test_parts if {
	values.part_of(10, 3) == 3
	values.part_of(10, "3") == 3
	values.part_of(10, "25%") == 3
	values.part_of(10, "100%") == 10
	every value in ["0%", "101%", "NaN%", "%", "5 %"] { not values.part_of(10, value) }
}

test_short_numbers if {
	values.is_short(0.000001)
	not values.is_short("1")
	not values.is_short(json.unmarshal(sprintf("0.%032d", [1])))
}

test_shown if {
	values.shown(["a", 1]) == `["a",1]`
	count(values.shown(sprintf("%100s", ["a"]))) == 64
	values.listed({"b", "a"}) == "a, b"
	values.listed([]) == "none"
}

test_weights if {
	values.weights(["a", "b"]) == {"a": 1, "b": 1}
	values.weights({"a": {"weight": 2}, "b": {}}) == {"a": 2}
	not values.weights("a")
	every weight in [0.000001, 1, 1000000] { values.is_weight(weight) }
	every weight in [0, 0.0000001, 1000001, "1", null] { not values.is_weight(weight) }
}
