package lib.applications_test

import data.lib.applications

_world := {
	"clusters": {
		"berlin": {"jurisdiction": "de", "location": "on-prem"},
		"paris": {"jurisdiction": "fr", "location": "on-prem"},
		"rome": {"jurisdiction": "it", "location": "on-prem"},
	},
	"customers": {"acme": {"jurisdictions": ["de", "fr"]}, "other": {"jurisdictions": ["it"]}},
}

_object(name, metadata, spec) := {name: {
	"apiVersion": "apps/v1",
	"kind": "Deployment",
	"metadata": object.union({"name": name, "namespace": "shop"}, metadata),
	"spec": spec,
}}

_says(customer) := {"annotations": {"customer": customer}}

_running_in(clusters) := {"annotations": {
	"customer": "acme",
	"federation.kubernetes.io/replica-set-preferences": json.marshal({"clusters": {name: {"weight": 1} | some name in clusters}}),
}}

_owner(name) := {"kind": "Deployment", "name": name, "controller": true}

_inventory := {
	"": {
		"namespaces": {"shop": {"metadata": {"annotations": {"customer": "acme"}}}},
		"deployments": {"shop": object.union_n([
			_object("assigned", _running_in(["berlin", "paris"]), {}),
			_object("undecided", {}, {"replicas": 2}),
			_object("broken", {"annotations": {"federation.kubernetes.io/replica-set-preferences": "{"}}, {}),
			_object("foreign", {"annotations": {"customer": "other"}, "labels": {"customer": "acme"}}, {}),
		])},
	},
	"berlin": {
		"deployments": {"shop": object.union_n([
			_object("web", {"labels": {"customer": "acme"}}, {"replicas": 3}),
			_object("by-namespace", {}, {}),
			_object("both", _says("acme"), {"replicas": 3}),
			_object("odd", _says("other"), {"replicas": "many"}),
		])},
		"replicasets": {"shop": object.union_n([
			_object("web-1", {"labels": {"customer": "acme"}, "ownerReferences": [_owner("web")]}, {}),
			_object("hidden", {"labels": {"customer": "acme"}, "ownerReferences": [_owner("none")]}, {}),
		])},
	},
	"rome": {
		"namespaces": {"shop": {"metadata": {"labels": {"customer": "other"}}}},
		"deployments": {"shop": _object("both", _says("acme"), {"replicas": 4})},
		"jobs": {"shop": _object("batch", {}, {"parallelism": 5})},
	},
}

_of(customer, cluster) := {[each.workload[2], each.source] |
	some each in applications.of_customer(customer, cluster) with data.inventory as _inventory
		with data.placement as _world
}

test_a_customers_workloads_by_the_objects_of_a_cluster if {
	_of("acme", "berlin") == {["web", "object"], ["by-namespace", "object"], ["both", "object"], ["hidden", "object"]}
	_of("other", "berlin") == {["odd", "object"]}
	_of("other", "rome") == {["batch", "object"]}
}

test_elsewhere_manifests_and_decisions_tell if {
	_of("acme", "paris") == {["assigned", "annotation"], ["undecided", "decision"], ["broken", "decision"]}
	_of("nobody", "paris") == set()
}

test_workloads_of_a_cluster if {
	in_berlin := applications.running_in("berlin") with data.inventory as _inventory
	{name | some [_, _, name] in in_berlin} == {"web", "by-namespace", "both", "odd", "hidden"}
	in_paris := applications.running_in("paris") with data.inventory as _inventory with data.placement as _world
	{name | some [_, _, name] in in_paris} == {"assigned", "undecided", "broken"}
	count(applications.workloads) == 10 with data.inventory as _inventory
}

test_where_a_workload_runs if {
	_clusters("both") == {"berlin", "rome"}
	_clusters("assigned") == {"paris"}
	_clusters("undecided") == {"paris"}
}

_clusters(name) := clusters if {
	clusters := applications.clusters_of(["deployments", "shop", name]) with data.inventory as _inventory
		with data.placement as _world
}

test_members_together_make_one_workload if {
	both := applications.resource(["deployments", "shop", "both"]) with data.inventory as _inventory
	both.spec.replicas == 7
	job := applications.resource(["jobs", "shop", "batch"]) with data.inventory as _inventory
	job.spec == {"parallelism": 5}
	undecided := applications.resource(["deployments", "shop", "undecided"]) with data.inventory as _inventory
	undecided.spec == {"replicas": 2}
	not applications.replicas("berlin", ["deployments", "shop", "odd"]) with data.inventory as _inventory
}

test_decisions_know_the_namespaces_of_the_cluster if {
	answer := applications.decision(["jobs", "shop", "batch"]) with data.inventory as _inventory with data.placement as _world
	answer.annotations["replica-set-preferences"].clusters == {"rome": {"weight": 1}}
	nobody := applications.decision(["jobs", "shop", "batch"]) with data.placement as _world
		with data.inventory as {"rome": {"jobs": _inventory.rome.jobs}}
	object.keys(nobody.errors) == {"customer"}
}

_job(name, status) := {name: {
	"apiVersion": "batch/v1",
	"kind": "Job",
	"metadata": {"name": name, "namespace": "shop", "annotations": {"customer": "acme"}},
	"spec": {"parallelism": 2},
	"status": status,
}}

_condition(type, status) := {"conditions": [{"type": "Suspended", "status": "False"}, {"type": type, "status": status}]}

_jobs := object.union_n([
	_job("running", {"active": 2}),
	_job("failing", _condition("FailureTarget", "True")),
	_job("unsure", _condition("Failed", "False")),
	_job("unread", {"conditions": null, "completionTime": null}),
	_job("complete", _condition("Complete", "True")),
	_job("failed", _condition("Failed", "True")),
	_job("timed", {"completionTime": "2026-01-01T00:00:00Z"}),
])

test_a_job_that_has_ended_runs_nowhere if {
	inventory := {
		"": {"jobs": {"shop": _job("manifest", {})}},
		"berlin": {"jobs": {"shop": _jobs}},
	}
	running := {"running", "failing", "unsure", "unread"}
	in_berlin := applications.running_in("berlin") with data.inventory as inventory
	{name | some [_, _, name] in in_berlin} == running
	owned := applications.of_customer("acme", "berlin") with data.inventory as inventory
	{each.workload[2] | some each in owned} == running
	workloads := applications.workloads with data.inventory as inventory
	{name | some [_, _, name] in workloads} == running | {"manifest"}
}

test_a_job_that_has_ended_in_one_cluster_runs_in_the_others if {
	inventory := {
		"berlin": {"jobs": {"shop": _job("batch", _condition("Complete", "True"))}},
		"paris": {"jobs": {"shop": _job("batch", {"active": 2})}},
	}
	applications.clusters_of(["jobs", "shop", "batch"]) == {"paris"} with data.inventory as inventory
	whole := applications.resource(["jobs", "shop", "batch"]) with data.inventory as inventory
	whole.spec.parallelism == 2
}

test_other_workloads_do_not_end if {
	deployments := {"web": {"metadata": _says("acme"), "spec": {}, "status": _condition("Complete", "True")}}
	in_berlin := applications.running_in("berlin") with data.inventory as {"berlin": {"deployments": {"shop": deployments}}}
	in_berlin == {["deployments", "shop", "web"]}
}

_made_by(kind, name, api_version) := {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "controller": true}]}

_everything := {"berlin": {
	"namespaces": {"shop": {"metadata": {"labels": {"customer": "acme"}}}},
	"nodes": {"node": {}},
	"objects": {"shop": {
		"Secret. keys": {"kind": "Secret", "metadata": {}},
		"Secret. theirs": {"kind": "Secret", "metadata": {"labels": {"customer": "other"}}},
		"Service. web": {"kind": "Service", "metadata": {}},
	}},
	"deployments": {"shop": {"web": {"metadata": {}, "spec": {"replicas": 3}}}},
	"replicasets": {"shop": {"web-1": {"metadata": _made_by("Deployment", "web", "apps/v1"), "spec": {}}}},
	"daemonsets": {"shop": {"agent": {"metadata": {}, "spec": {}, "status": {"desiredNumberScheduled": 4}}, "new": {"metadata": {}, "spec": {}}}},
	"cronjobs": {"shop": {
		"nightly": {"metadata": {}, "spec": {"jobTemplate": {"spec": {"parallelism": 2}}}},
		"odd": {"metadata": {}, "spec": {"jobTemplate": {"spec": {"parallelism": "x"}}}},
	}},
	"jobs": {"shop": {"nightly-1": {"metadata": _made_by("CronJob", "nightly", "batch/v1"), "spec": {}}}},
	"rollout.argoproj.io": {"shop": {"green": {"kind": "Rollout", "metadata": {}, "spec": {"replicas": 5}}}},
	"pods": {
		"shop": {
			"debug": {"kind": "Pod", "metadata": {}, "spec": {}, "status": {"phase": "Running"}},
			"web-1-x": {"metadata": _made_by("ReplicaSet", "web-1", "apps/v1"), "spec": {}},
			"green-x": {"metadata": _made_by("Rollout", "green", "argoproj.io/v1alpha1"), "spec": {}},
			"pg-1": {"metadata": _made_by("Cluster", "pg", "postgresql.cnpg.io/v1"), "spec": {}},
			"stolen": {"metadata": object.union(_made_by("DaemonSet", "agent", "apps/v1"), _says("other")), "spec": {}},
			"ended": {"metadata": {}, "spec": {}, "status": {"phase": "Failed"}},
		},
		"nobodys": {
			"lonely": {"metadata": {}, "spec": {}},
			"made": {"metadata": _made_by("DaemonSet", "own", "apps/v1"), "spec": {}},
		},
	},
}}

_whole_world := object.union(_everything, {"berlin": {"daemonsets": {"nobodys": {"own": {"metadata": {}, "spec": {}}}}}})

test_every_kind_counts_and_what_another_made_does_not if {
	owned := applications.of_customer("acme", "berlin") with data.inventory as _whole_world with data.placement as _world
	{[kind, each.workload[2], replicas] |
		some each in owned
		kind := applications.kind(each.workload) with data.inventory as _whole_world
		replicas := {number | number := applications.replicas("berlin", each.workload) with data.inventory as _whole_world}
	} == {
		["Deployment", "web", {3}],
		["DaemonSet", "agent", {4}],
		["DaemonSet", "new", set()],
		["CronJob", "nightly", {2}],
		["CronJob", "odd", set()],
		["Rollout", "green", {5}],
		["Pod", "debug", {1}],
		["Pod", "pg-1", {1}],
	}
	others := applications.of_customer("other", "berlin") with data.inventory as _whole_world with data.placement as _world
	{each.workload[2] | some each in others} == {"stolen"}
	applications.unlisted_controller("berlin", ["pods", "shop", "pg-1"]) == "Cluster pg" with data.inventory as _whole_world
	not applications.unlisted_controller("berlin", ["pods", "shop", "web-1-x"]) with data.inventory as _whole_world
}

test_what_nobody_owns_and_what_is_no_workload if {
	applications.unowned_in("berlin") == {["daemonsets", "nobodys", "own"], ["pods", "nobodys", "lonely"]} with data.inventory as _whole_world
	applications.others_of("acme", "berlin") == {"Secret": 1, "Service": 1} with data.inventory as _whole_world
	applications.others_of("acme", "paris") == {} with data.inventory as _whole_world
}

test_whole_workloads_are_read_as_they_are if {
	pod := applications.resource(["pods", "shop", "debug"]) with data.inventory as _whole_world
	pod.kind == "Pod"
	not applications.replicas("paris", ["pods", "shop", "debug"]) with data.inventory as _whole_world
}
