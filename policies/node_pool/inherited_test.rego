package node_pool_inherited_test

import data.node_pool

_namespaces := {
	"one": {"metadata": {"labels": {"agentpool": "pool1"}}},
	"two": {"metadata": {"labels": {"agentpool": "pool2"}}},
	"odd": {"metadata": {"labels": {"agentpool": "pool9"}}},
	"free": {"metadata": {"labels": {}}},
	"out": {"metadata": {"labels": {"agentpool": ""}}},
}

_gpu := {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}

_spot := {"key": "spot", "operator": "Exists"}

_mine := {"key": "mine", "operator": "Exists"}

_pools := {
	"pool1": {"nodeSelector": {"pool": "one", "disk": "ssd"}, "tolerations": [_gpu, _spot]},
	"pool2": {"nodeSelector": {"pool": "two"}, "tolerations": [_spot]},
}

_key := "fairlead.dev/assigned"

_path(field) := concat("/", ["/spec/template", field])

_add(field, value) := {"op": "add", "path": _path(field), "value": value}

_remove(field) := {"op": "remove", "path": _path(field)}

_note_path := "metadata/annotations/fairlead.dev~1assigned"

_note(selector, tolerations) := json.marshal({"nodeSelector": selector, "tolerations": tolerations})

_noted(selector, tolerations) := {_key: _note(selector, tolerations)}

_daemon_set(annotations, spec) := {
	"metadata": {"name": "agent"},
	"spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}},
}

_create(namespace, annotations, spec) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "42",
		"operation": "CREATE",
		"kind": {"group": "apps", "version": "v1", "kind": "DaemonSet"},
		"namespace": namespace,
		"object": _daemon_set(annotations, spec),
	},
}

# An update that changes other parts of the template than the noted ones.
_update(namespace, annotations, spec) := object.union(_create(namespace, annotations, spec), {"request": {
	"operation": "UPDATE",
	"oldObject": _daemon_set(annotations, object.union(spec, {"hostNetwork": true})),
}})

_decide(review) := decision if {
	decision := node_pool.decision with input as review with data.kubernetes.namespaces as _namespaces
}

_decide_pools(review) := decision if {
	decision := _decide(review) with data.settings.pools as _pools
}

_decide_merge(review) := decision if {
	decision := _decide_pools(review) with data.settings.pod_selector as "merge"
}

_untouched := {"deny": set(), "patch": [], "warn": set()}

_patched(operations) := object.union(_untouched, {"patch": operations})

_first := {"agentpool": "pool1"}

_second := {"agentpool": "pool2"}

test_what_is_given_is_noted if {
	every annotations in [null, {}] {
		_decide_pools(_create("one", annotations, {})).patch == [
			_add("spec/nodeSelector", _pools.pool1.nodeSelector),
			_add("spec/tolerations", [_gpu, _spot]),
			_annotated(annotations, _noted(_pools.pool1.nodeSelector, [_gpu, _spot])),
		]
	}
}

_annotated(null, note) := _add("metadata/annotations", note)

_annotated({}, note) := _add(_note_path, note[_key])

test_what_the_author_set_is_not_noted if {
	_decide(_create("one", {}, {"nodeSelector": _first})) == _untouched
	spec := {"nodeSelector": {"pool": "one"}, "tolerations": [_spot]}
	_decide_merge(_create("one", {}, spec)).patch == [
		_add("spec/nodeSelector", _pools.pool1.nodeSelector),
		_add("spec/tolerations/-", _gpu),
		_add(_note_path, _note({"disk": "ssd"}, [_gpu])),
	]
}

test_the_policy_accepts_its_own_answer_unchanged if {
	annotations := _noted(_pools.pool1.nodeSelector, [_gpu, _spot])
	every review in [_create("one", annotations, _placed), _update("one", annotations, _placed)] {
		_decide_pools(review) == _untouched
	}
}

_placed := {"nodeSelector": _pools.pool1.nodeSelector, "tolerations": [_gpu, _spot]}

test_what_another_pool_gave_is_replaced if {
	every review in [
		_create("two", _noted(_first, []), {"nodeSelector": _first}),
		_update("two", _noted(_first, []), {"nodeSelector": _first}),
	] {
		_decide(review) == _patched([
			_add("spec/nodeSelector", _second),
			_add(_note_path, _note(_second, [])),
		])
	}
	_decide_pools(_update("two", _noted(_pools.pool1.nodeSelector, [_gpu, _spot]), _placed)) == _patched([
		_add("spec/nodeSelector", {"pool": "two"}),
		_add("spec/tolerations", [_spot]),
		_add(_note_path, _note({"pool": "two"}, [_spot])),
	])
}

test_the_authors_other_keys_stay if {
	spec := {"nodeSelector": {"pool": "one", "disk": "ssd", "zone": "a"}, "tolerations": [_gpu, _mine]}
	_decide_merge(_update("two", _noted(_pools.pool1.nodeSelector, [_gpu]), spec)) == _patched([
		_add("spec/nodeSelector", {"pool": "two", "zone": "a"}),
		_add("spec/tolerations", [_mine, _spot]),
		_add(_note_path, _note({"pool": "two"}, [_spot])),
	])
}

test_what_the_author_changed_counts_as_the_authors if {
	decision := _decide(_update("two", _noted(_first, []), {"nodeSelector": {"agentpool": "pool3"}}))
	decision.patch == []
	count(decision.warn) == 1
}

test_only_what_the_author_set_has_to_be_allowed if {
	choosy := {"pool2": {
		"nodeSelector": _second,
		"tolerations": [],
		"allowedNodeSelector": {"zone": ["a"]},
		"allowedTolerations": [],
	}}
	spec := {"nodeSelector": {"agentpool": "pool1", "disk": "ssd"}, "tolerations": [_gpu]}
	decision := _decide(_update("two", _noted(spec.nodeSelector, [_gpu]), spec)) with data.settings.pools as choosy
		with data.settings.pod_selector as "merge"
	decision == _patched([
		_add("spec/nodeSelector", _second),
		_remove("spec/tolerations"),
		_add(_note_path, _note(_second, [])),
	])
	warned := _decide(_update("two", {}, spec)) with data.settings.pools as choosy
		with data.settings.pod_selector as "merge"
	count(warned.warn) == 3
	mine := _decide(_update("two", _noted({}, [_gpu]), {"tolerations": [_gpu, _mine]})) with data.settings.pools as choosy
	count(mine.warn) == 1
}

test_a_pool_that_gives_more_than_before_gives_it if {
	spec := {"nodeSelector": {"pool": "one"}, "tolerations": [_spot]}
	_decide_pools(_update("one", _noted({"pool": "one"}, [_spot]), spec)) == _patched([
		_add("spec/nodeSelector", _pools.pool1.nodeSelector),
		_add("spec/tolerations/-", _gpu),
		_add(_note_path, _note(_pools.pool1.nodeSelector, [_spot, _gpu])),
	])
}

test_what_a_pool_gave_is_removed_in_a_namespace_without_a_pool if {
	every namespace in ["free", "out"] {
		_decide(_update(namespace, _noted(_first, [_gpu]), {"nodeSelector": _first, "tolerations": [_gpu]})) == _patched([
			_remove("spec/nodeSelector"),
			_remove("spec/tolerations"),
			_remove(_note_path),
		])
		spec := {"nodeSelector": {"agentpool": "pool1", "zone": "a"}, "tolerations": [_mine, _gpu]}
		_decide(_update(namespace, _noted(_first, [_gpu]), spec)) == _patched([
			_add("spec/nodeSelector", {"zone": "a"}),
			_add("spec/tolerations", [_mine]),
			_remove(_note_path),
		])
		_decide(_create(namespace, _noted(_first, []), {})) == _patched([_remove(_note_path)])
		_decide(_update(namespace, {"a": "b"}, {"nodeSelector": _first})) == _untouched
	}
}

test_a_template_that_cannot_be_read_is_refused_with_a_note_or_without if {
	every spec in ["text", null, [], {"nodeSelector": "text"}, {"tolerations": {}}] {
		every namespace in ["free", "out", "one"] {
			decision := _decide(_create(namespace, _noted(_first, []), spec))
			count(decision.deny) == 1
			decision == _decide(_create(namespace, {}, spec))
		}
	}
}

test_a_note_is_enough_where_only_mapped_namespaces_are_asked_about if {
	decision := _decide(_update("free", _noted(_first, []), {"nodeSelector": _first}))
		with opa.runtime as {"env": {"FAIRLEAD_MAPPED_ONLY": "true"}}
	decision == _patched([_remove("spec/nodeSelector"), _remove(_note_path)])
}

test_nothing_is_removed_if_the_namespace_is_unknown_or_nothing_changes if {
	count(_decide(_update("new", _noted(_first, []), {"nodeSelector": _first})).deny) == 1
	_decide_pools(_update("odd", _noted(_first, []), {"nodeSelector": _first})).patch == []
	every namespace in ["two", "free"] {
		create := _create(namespace, _noted(_first, []), {"nodeSelector": _first})
		_decide(object.union(create, {"request": {"operation": "UPDATE", "oldObject": create.request.object}})) == _untouched
	}
}

test_an_unreadable_note_is_ignored if {
	every text in ["", "{", "null", "7", "[]", `{"nodeSelector": [], "tolerations": 7}`, `[1e999999999]`, 7, null] {
		decision := _decide(_update("two", {_key: text}, {"nodeSelector": _first}))
		decision.patch == []
		count(decision.warn) == 1
		_decide(_update("two", {_key: text}, {})).patch[0] == _add("spec/nodeSelector", _second)
		_decide(_update("free", {_key: text}, {"nodeSelector": _first})) == _patched([_remove(_note_path)])
	}
	every annotations in ["text", []] {
		_decide(_create("two", annotations, {})) == _patched([_add("spec/nodeSelector", _second)])
	}
}

test_a_note_gains_nothing if {
	review := _create("two", _noted({"zone": "a", "agentpool": "pool1"}, [_gpu]), {
		"nodeSelector": {"zone": "a", "agentpool": "pool1"},
		"tolerations": [_gpu],
	})
	_decide(review) == _patched([
		_add("spec/nodeSelector", _second),
		_remove("spec/tolerations"),
		_add(_note_path, _note(_second, [])),
	])
}

test_only_templates_of_daemon_sets_have_notes if {
	review := _update("two", _noted(_first, []), {"nodeSelector": _first})
	decision := _decide(object.union(review, {"request": {"kind": {"kind": "Deployment"}}}))
	decision.patch == []
	count(decision.warn) == 1
}

_template_warned(way_out) := object.union(_untouched, {"warn": {concat("", [
	`every pod of DaemonSet "agent" will be refused: its template sets spec.nodeSelector agentpool=pool1, but namespace "two" `,
	`places its pods in pool "pool2": remove spec.nodeSelector, or set just agentpool=pool2`,
	way_out,
])}})

test_a_warning_names_the_way_out_for_a_selector_that_no_manifest_sets if {
	_decide(_create("two", {}, {"nodeSelector": _first})) == _template_warned("")
	_decide(_update("two", {}, {"nodeSelector": _first})) == _template_warned(`; if its manifest does not set it: kubectl -n two patch daemonset agent --type json -p '[{"op":"remove","path":"/spec/template/spec/nodeSelector"}]'`)
}

_pod(metadata) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": {
		"uid": "42",
		"operation": "CREATE",
		"kind": {"group": "", "version": "v1", "kind": "Pod"},
		"namespace": "two",
		"object": {"metadata": object.union({"generateName": "agent-"}, metadata), "spec": {"nodeSelector": _first}},
	},
}

_pod_denied(way_out) := object.union(_untouched, {"deny": {concat("", [
	`pod "agent-*" sets spec.nodeSelector agentpool=pool1, but namespace "two" places its pods in pool "pool2": `,
	"remove spec.nodeSelector, or set just agentpool=pool2",
	way_out,
])}})

test_a_refused_pod_of_a_daemon_set_of_another_pool_names_the_way_out if {
	owner := {"kind": "DaemonSet", "name": "agent", "controller": true}
	noted := {"annotations": _noted(_first, [])}
	_decide(_pod(object.union(noted, {"ownerReferences": [owner]}))) == _pod_denied(`; an earlier pool gave it to DaemonSet "agent": kubectl -n two rollout restart daemonset agent`)
	every metadata in [
		noted,
		{"ownerReferences": [owner]},
		object.union(noted, {"ownerReferences": []}),
		object.union(noted, {"ownerReferences": [object.union(owner, {"kind": "ReplicaSet"})]}),
		object.union(noted, {"ownerReferences": [object.union(owner, {"controller": false})]}),
	] {
		_decide(_pod(metadata)) == _pod_denied("")
	}
}

test_what_is_inherited_is_explained if {
	said := "its template has nodeSelector agentpool=pool1 from an earlier decision, not from its author"
	every namespace, sentence in {
		"two": `namespace "two" belongs to pool "pool2" by its label agentpool`,
		"free": "what an earlier pool gave to its template is removed",
	} {
		explanation := node_pool.explanation with input as _update(namespace, _noted(_first, []), {"nodeSelector": _first})
			with data.kubernetes.namespaces as _namespaces
		{said, sentence} & explanation == {said, sentence}
	}
}
