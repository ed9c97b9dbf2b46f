package federated_placement_test

import data.federated_placement

_key := "federation.kubernetes.io/replica-set-preferences"

_world := {
	"clusters": {
		"berlin": {"jurisdiction": "de", "location": "on-prem"},
		"munich": {"jurisdiction": "de", "location": "on-prem", "capacity": {"cpu": "8"}},
		"ohio": {"jurisdiction": "us", "location": "on-prem"},
	},
	"customers": {"acme": {"jurisdictions": ["de"]}, "globex": {"jurisdictions": ["us"]}, "initech": {"jurisdictions": []}},
}

_environment := {"env": {"FAIRLEAD_NAMESPACES_URL": "https://sidecar", "FAIRLEAD_CA_FILE": "ca.crt"}}

_nobody := {"status_code": 200, "body": {"metadata": {"labels": {}}}}

_groups := {"Deployment": "apps", "StatefulSet": "apps", "ReplicaSet": "apps", "DaemonSet": "apps", "Job": "batch"}

_create(kind, metadata) := {"request": {
	"operation": "CREATE",
	"namespace": "shop",
	"kind": {"group": _groups[kind], "version": "v1", "kind": kind},
	"object": {"kind": kind, "metadata": object.union({"name": "web"}, metadata), "spec": {}},
}}

_update(old, new) := {"request": {
	"operation": "UPDATE",
	"namespace": "shop",
	"kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
	"object": object.union({"kind": "Deployment", "metadata": {"name": "web"}, "spec": {}}, new),
	"oldObject": object.union({"kind": "Deployment", "metadata": {"name": "web"}, "spec": {}}, old),
}}

_decided(asked) := _decided_in(asked, {}, _nobody)

_decided_in(asked, namespaces, lookup) := decision if {
	decision := federated_placement.decision with input as asked
		with data.placement as _world
		with data.kubernetes.namespaces as namespaces
		with opa.runtime as _environment
		with http.send as lookup
}

_decided_by(world, asked) := decision if {
	decision := federated_placement.decision with input as asked
		with data.placement as world
		with data.kubernetes.namespaces as {}
		with opa.runtime as _environment
		with http.send as _nobody
}

_text(names) := json.marshal({"clusters": {name: {"weight": 1} | some name in names}})

_says(annotations) := {"metadata": {"annotations": annotations}}

_path := "/metadata/annotations/federation.kubernetes.io~1replica-set-preferences"

test_the_decision_is_written_into_the_annotation if {
	every kind in ["Deployment", "StatefulSet", "ReplicaSet", "Job"] {
		_decided(_create(kind, {"labels": {"customer": "acme"}})) == {"deny": set(), "warn": set(), "patch": [{
			"op": "add",
			"path": "/metadata/annotations",
			"value": {_key: `{"clusters":{"berlin":{"weight":1},"munich":{"weight":1}}}`},
		}]}
	}
}

test_the_annotation_of_a_tenant_is_overwritten if {
	asked := _create("Deployment", {"annotations": {"customer": "globex", _key: _text(["berlin"])}})
	_decided(asked).patch == [{"op": "add", "path": _path, "value": _text(["ohio"])}]
}

test_its_own_decision_is_left_as_it_is if {
	asked := _create("Deployment", {"annotations": {"customer": "globex", _key: _text(["ohio"])}})
	_decided(asked) == {"deny": set(), "warn": set(), "patch": []}
}

test_what_the_workload_asks_for_stays_and_counts if {
	asked := _create("Deployment", {"annotations": {
		"customer": "acme",
		"replica-set-preferences": `{"clusters": {"munich": {"weight": 3}}}`,
	}})
	_decided(asked).patch == [{"op": "add", "path": _path, "value": `{"clusters":{"munich":{"weight":3}}}`}]
}

test_errors_refuse_it if {
	asked := _create("Deployment", {"annotations": {"customer": "acme", "replica-set-preferences": `["ohio"]`}})
	_decided(asked) == {
		"deny": {`deployment "web": invalid cluster(s): ohio`},
		"warn": set(),
		"patch": [],
	}
	unknown := _create("Job", {"annotations": {"customer": "umbrella"}})
	_decided(unknown).deny == {`job "web": customer: customer "umbrella" is not known: it is not in placement.customers`}
}

test_the_label_of_the_namespace_names_the_customer if {
	replicated := {"shop": {"metadata": {"labels": {"customer": "globex"}}}}
	_decided_in(_create("Deployment", {}), replicated, _nobody).patch[0].value == {_key: _text(["ohio"])}
	new := {"status_code": 200, "body": {"metadata": {"labels": {"customer": "globex"}}}}
	_decided_in(_create("Deployment", {}), {}, new).patch[0].value == {_key: _text(["ohio"])}
}

test_an_annotation_of_the_namespace_comes_before_its_label if {
	metadata := {"annotations": {"customer": "globex"}, "labels": {"customer": "acme"}}
	_decided_in(_create("Deployment", {}), {"shop": {"metadata": metadata}}, _nobody).patch[0].value == {_key: _text(["ohio"])}
	new := {"status_code": 200, "body": {"metadata": metadata}}
	_decided_in(_create("Deployment", {}), {}, new).patch[0].value == {_key: _text(["ohio"])}
}

test_nothing_is_admitted_while_the_namespace_is_not_known if {
	away := {"status_code": 0, "error": {"message": "refused"}}
	_decided_in(_create("Deployment", {}), {}, away) == {
		"deny": {`deployment "web": namespace "shop" is not known to the policy yet: retry in a moment`},
		"warn": set(),
		"patch": [],
	}
}

test_without_lookups_the_replicated_namespace_counts if {
	every namespaces, count_of_denials in {{"shop": {"metadata": {}}}: 0, {}: 1} {
		decision := federated_placement.decision with input as _create("Deployment", {})
			with data.placement as _world
			with data.kubernetes.namespaces as namespaces
			with opa.runtime as {"env": {}}
		count(decision.deny) == count_of_denials
	}
}

test_without_data_nothing_with_a_customer_is_admitted if {
	decision := federated_placement.decision with input as _create("Deployment", {"labels": {"customer": "acme"}})
		with data.kubernetes.namespaces as {}
		with opa.runtime as _environment
		with http.send as _nobody
	decision.patch == []
	some sentence in decision.deny
	startswith(sentence, `deployment "web": data: OPA has no clusters: bring data.placement.clusters`)
}

test_a_workload_without_a_customer_has_no_annotation if {
	_decided(_create("Deployment", {})) == {"deny": set(), "warn": set(), "patch": []}
	_decided(_create("Deployment", {"annotations": {_key: _text(["ohio"])}})) == {
		"deny": set(),
		"warn": {sprintf(`deployment "web" names no customer, so that its annotation %s is removed`, [_key])},
		"patch": [{"op": "remove", "path": _path}],
	}
}

test_an_update_gets_the_decision_again if {
	old := _says({"customer": "acme", _key: _text(["berlin", "munich"])})
	moved := _says({"customer": "globex", _key: _text(["berlin", "munich"])})
	_decided(_update(old, moved)).patch == [{"op": "add", "path": _path, "value": _text(["ohio"])}]
	_decided(_update(old, old)) == {"deny": set(), "warn": set(), "patch": []}
	lost := _says({_key: _text(["berlin", "munich"])})
	_decided(_update(old, lost)).patch == [{"op": "remove", "path": _path}]
}

_stuck := {"customer": "initech", _key: _text(["berlin"])}

test_an_update_that_asks_for_nothing_new_leaves_it_where_it_is if {
	every update in [
		_says(_stuck),
		object.union(_says(_stuck), {"spec": {"paused": true}}),
		object.union(_says(_stuck), {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "new"}]}}}}),
	] {
		decision := _decided(_update(_says(_stuck), update))
		decision.deny == set()
		decision.patch == []
		every message in decision.warn { startswith(message, `deployment "web" stays on its clusters`) }
		count(decision.warn) > 0
	}
	elsewhere := _says(object.union(_stuck, {_key: _text(["ohio"])}))
	_decided(_update(_says(_stuck), elsewhere)).patch == [{"op": "add", "path": _path, "value": _text(["berlin"])}]
}

test_an_update_that_asks_for_more_is_refused if {
	every update in [
		object.union(_says(_stuck), {"spec": {"replicas": 2}}),
		object.union(_says(_stuck), _says({"criticality": "low"})),
		object.union(_says(_stuck), _says({"min-clusters": "2"})),
		object.union(_says(_stuck), _says({"max-replicas-per-cluster": "1"})),
		object.union(_says(_stuck), _says({"traffic": `{"clusters": {"berlin": 1}}`})),
		object.union(_says(_stuck), _says({"replica-set-preferences": `["berlin"]`})),
		object.union(_says(_stuck), _says({"min-clusters": "2"})),
		object.union(_says(_stuck), _says({"max-replicas-per-cluster": "1"})),
		object.union(_says(_stuck), _says({"traffic": "{}"})),
		object.union(_says(_stuck), _says({"federation.alpha.kubernetes.io/cluster-selector": "[]"})),
		object.union(_says(_stuck), {"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}}),
		object.union(_says(_stuck), {"spec": {"template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}}}}),
	] {
		decision := _decided(_update(_says(_stuck), update))
		count(decision.deny) > 0
		decision.patch == []
	}
}

test_what_is_being_deleted_is_left_alone if {
	asked := _create("Deployment", {"deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"customer": "umbrella"}})
	_decided(asked) == {"deny": set(), "warn": set(), "patch": []}
}

test_an_update_does_not_say_where_it_runs if {
	prices := {"berlin": {"price": {"cpu": 0.95, "memory": 1}}, "munich": {"price": {"cpu": 1, "memory": 1}}}
	world := object.union(_world, {"clusters": prices})
	spec := {"spec": {"template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}}}}
	in_munich := object.union(_says({"customer": "acme", _key: _text(["munich"])}), spec)
	nowhere := object.union(_says({"customer": "acme"}), spec)
	in_berlin := object.union(_says({"customer": "acme", _key: _text(["berlin"])}), spec)
	every update in [nowhere, in_berlin] {
		decision := _decided_by(world, _update(in_munich, update))
		decision.patch == [{"op": "add", "path": _path, "value": _text(["munich"])}]
	}
}

test_an_owner_reference_changes_nothing if {
	owner := {"apiVersion": "apps/v1", "kind": "Deployment", "controller": true}
	owned := {"labels": {"customer": "umbrella"}, "ownerReferences": [owner]}
	every kind in ["ReplicaSet", "Job"] {
		count(_decided(_create(kind, owned)).deny) == 1
	}
}

test_other_requests_are_left_alone if {
	nothing := {"deny": set(), "warn": set(), "patch": []}
	customer := {"labels": {"customer": "umbrella"}}
	_decided(_create("DaemonSet", customer)) == nothing
	_decided(object.union(_create("Deployment", customer), {"request": {"operation": "DELETE"}})) == nothing
	_decided(object.union(_create("Deployment", customer), {"request": {"subResource": "status"}})) == nothing
}

test_it_says_why if {
	explanation := federated_placement.explanation with input as _create("Deployment", {"labels": {"customer": "acme"}})
		with data.placement as _world
		with data.kubernetes.namespaces as {}
		with opa.runtime as _environment
		with http.send as _nobody
	"cluster berlin: allowed" in explanation
	`cluster ohio: its jurisdiction is us, and customer "acme" allows de` in explanation
}

_claiming(annotations, replicas) := {
	"metadata": {"annotations": object.union({"customer": "acme"}, annotations)},
	"spec": {
		"replicas": replicas,
		"template": {"spec": {"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]}},
	},
}

test_volumes_are_left_only_if_that_is_accepted if {
	world := object.union(_world, {"clusters": {"berlin": {"cordoned": true}}})
	before := _claiming({_key: _text(["berlin"])}, 1)
	word := "volumes: it has volumes in berlin, and what they hold would not move along to munich"
	unchanged := _decided_by(world, _update(before, before))
	[unchanged.deny, unchanged.patch] == [set(), []]
	some warning in unchanged.warn
	contains(warning, word)
	some denial in _decided_by(world, _update(before, _claiming({_key: _text(["berlin"])}, 2))).deny
	contains(denial, word)
	accepted := _decided_by(world, _update(before, _claiming({_key: _text(["berlin"]), "move-volumes": "accept"}, 1)))
	accepted == {"deny": set(), "warn": set(), "patch": [{"op": "add", "path": _path, "value": _text(["munich"])}]}
	without := object.union(before, {"spec": {"template": {"spec": {"volumes": []}}}})
	_decided_by(world, _update(before, without)).deny == set()
}
