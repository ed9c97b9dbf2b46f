package lib.what_if_test

import data.lib.what_if

_world := {
	"clusters": {"berlin": {"certifications": ["iso27001", "pci"], "price": {"cpu": 1, "memory": 2}}, "paris": {}},
	"customers": {"acme": {}},
}

_changed(changes) := world if world := what_if.world(changes) with data.placement as _world

_wrong(changes) := problems if problems := what_if.problems(changes) with data.placement as _world

test_a_lost_certification_and_a_price if {
	_changed({"without": {"berlin": ["pci"]}, "prices": {"berlin": {"cpu": 3}, "paris": {"cpu": 4}}}) == {
		"clusters": {
			"berlin": {"certifications": ["iso27001"], "price": {"cpu": 3, "memory": 2}},
			"paris": {"certifications": [], "price": {"cpu": 4}},
		},
		"customers": {"acme": {}},
	}
	_changed({}) == _world
}

test_changes_that_make_no_sense if {
	_wrong({}) == set()
	_wrong({"without": {"berlin": ["pci"]}, "prices": {"paris": {"cpu": 3}}}) == set()
	_wrong({"prices": {"oslo": {"cpu": 3}}}) == {`cluster "oslo" is not known: placement.clusters has berlin, paris`}
	_wrong({"without": {"oslo": ["pci"], "paris": ["pci"]}}) == {
		`cluster "oslo" is not known: placement.clusters has berlin, paris`,
		`cluster "paris" has no certification "pci" that it could lose: it has none`,
	}
}

test_prices_that_are_none if {
	every price in [-1, 1000000001, "x", null] {
		_wrong({"prices": {"paris": {"cpu": price, "memory": 1}}}) == {sprintf(
			`the price %v of cpu in cluster "paris" is no number from 0 to 1000000000`,
			[price],
		)}
	}
	_wrong({"prices": {"paris": {"cpu": 0, "memory": 1000000000}}}) == set()
}

test_a_price_of_what_no_pod_can_request if {
	some problem in _wrong({"prices": {"paris": {"mem": 3, "memory": 1, "nvidia.com/gpu": 2}}})
	startswith(problem, `the price in cluster "paris" is of "mem", which no pod can request: write cpu, `)
}

test_only_some_of_many_clusters_are_named if {
	problems := what_if.problems({"without": {"x": ["pci"]}}) with data.placement as {"clusters": {sprintf("c%d", [number]): {} |
		some number in numbers.range(10, 30)
	}}
	problems == {`cluster "x" is not known: placement.clusters has c10, c11, c12, c13, c14, c15, c16, c17, c18, c19, ...`}
}

_answer(clusters, more) := object.union(
	{"annotations": {"replica-set-preferences": {"clusters": clusters}}, "errors": {}, "explanation": {}},
	more,
)

test_answers_are_compared_without_their_explanation if {
	one := _answer({"berlin": {"weight": 1}}, {"cost": 5})
	not what_if.differ(one, object.union(one, {"explanation": {"berlin": "allowed"}}))
	what_if.differ(one, object.union(one, {"cost": 6}))
	what_if.differ(one, _answer({"paris": {"weight": 1}}, {"cost": 5}))
}

test_answers_in_short if {
	what_if.clusters(_answer({"paris": {}, "berlin": {}}, {})) == ["berlin", "paris"]
	what_if.errors(_answer({}, {})) == ""
	what_if.errors(_answer({}, {"errors": {"no cluster": {"b", "a"}, "customer": {"c"}}})) == "customer: c; no cluster: a; no cluster: b"
}
