package lib.webster_test

import data.lib.webster

test_examples if {
	every example in [
		[0, {"a": 1}, {"a": 0}],
		[1, {"c": 1, "b": 1, "a": 1}, {"a": 1, "b": 0, "c": 0}],
		[5, {"b": 1, "a": 1}, {"a": 3, "b": 2}],
		[10, {"a": 1, "b": 1}, {"a": 5, "b": 5}],
		[10, {"a": 2, "b": 1, "c": 0.5}, {"a": 6, "b": 3, "c": 1}],
		[3, {"a": 0.1, "b": 0.2}, {"a": 1, "b": 2}],
		[7, {"a": 1000000, "b": 0.000001}, {"a": 7, "b": 0}],
		[1000000, {"a": 1, "b": 2}, {"a": 333333, "b": 666667}],
		# As Karmada divides them: nothing leaves c.
		[10, {"a": 3, "b": 3, "c": 1}, {"a": 4, "b": 4, "c": 2}],
		[11, {"a": 3, "b": 3, "c": 1}, {"a": 5, "b": 4, "c": 2}],
	] {
		[number, weights, divided] := example
		webster.divided(number, weights) == divided
	}
}

test_a_cluster_with_fewer_comes_first_among_equals if {
	webster.divided(1, {"a": 1, "b": 1}) == {"a": 1, "b": 0}
	webster.divided(3, {"a": 3, "b": 1}) == {"a": 2, "b": 1} # 3/3 and 1/1
	webster.divided(2, {"a": 3, "b": 1}) == {"a": 1, "b": 1}
}

test_many_small_weights_and_a_large_one if {
	# Rounding the shares would give 161 of 130.
	weights := object.union({"large": 100}, {sprintf("small-%02d", [number]): 0.6 | some number in numbers.range(1, 60)})
	divided := webster.divided(130, weights)
	sum([got | some got in divided]) == 130
	divided.large == 83
}

test_nothing_is_divided_among_nobody if {
	webster.divided(1, {}) == {}
	webster.divided(0, {}) == {}
}
