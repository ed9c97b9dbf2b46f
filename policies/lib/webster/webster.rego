# METADATA
# title: Webster's method
# description: |
#   Divides a whole number among names by their weights. A larger number gives no name less than a smaller one does, which
#   does not hold if the rest goes to the largest remainders. Karmada divides in the same way since 1.16.
package lib.webster

# METADATA
# description: |
#   What each name gets of `number`, by weights from 0.000001 to 1000000. One after the other goes to the name with the
#   largest weight divided by 1 if it has none yet, by 3 if it has one, by 5 if it has two ... Of equals, it goes to the name
#   that has fewer, and then to the first one.
divided(_, {}) := {}

divided(0, weights) := {name: 0 | some name, _ in weights}

divided(number, weights) := {name: got |
	some name, least in certain
	got := least + count([turn | some turn in turns[name]; turn <= last])
} if {
	number > 0
	count(weights) > 0

	# Whole numbers, so that equal quotients are equal.
	parts := {name: round(weight * 1000000000) | some name, weight in weights}

	# If the divisor is `total / number`, names that are rounded are too many or too few by at most half of their number. So
	# only a few turns of each name are open. One more on both sides makes up for rounded shares.
	total := sum([part | some part in parts])
	half := count(parts) / 2
	certain := {name: max([0, ceil(((part * (number - half)) / total) - 0.5) - 1]) | some name, part in parts}
	turns := {name: open |
		some name, part in parts
		most := floor(((part * (number + half)) / total) + 0.5) + 1
		open := [[0 - (part / ((2 * turn) - 1)), turn, name] | some turn in numbers.range(certain[name] + 1, most)]
	}
	sorted := sort([turn | some open in turns; some turn in open])
	last := sorted[(number - sum([least | some least in certain])) - 1]
}
