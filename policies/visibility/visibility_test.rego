package visibility_test

import data.visibility.applications_in_jurisdiction
import data.visibility.customers_affected
import data.visibility.pods_outside_pool
import data.visibility.price_changes

_placement := {
	"clusters": {
		"berlin": {"jurisdiction": "de", "location": "on-prem", "certifications": ["pci"]},
		"munich": {"jurisdiction": "de", "location": "on-prem", "certifications": ["pci"]},
		"paris": {"jurisdiction": "fr", "location": "on-prem"},
	},
	"customers": {
		"acme": {"jurisdictions": ["de"], "certifications": ["pci"]},
		"plain": {"jurisdictions": ["de", "fr"], "certifications": []},
	},
}

_deployment(name, customer, spec) := {name: {
	"apiVersion": "apps/v1",
	"kind": "Deployment",
	"metadata": {"name": name, "namespace": "shop", "annotations": {"customer": customer}},
	"spec": spec,
}}

_web := _deployment("web", "acme", {"replicas": 3})

_inventory := {
	"": {"deployments": {"shop": object.union_n([_web, _deployment("site", "plain", {})])}},
	"berlin": {"deployments": {"shop": object.union_n([_web, _deployment("odd", "acme", {"replicas": "x"})])}},
}

_row(name, more) := object.union({"kind": "Deployment", "namespace": "shop", "name": name}, more)

test_applications_in_a_jurisdiction if {
	answer := applications_in_jurisdiction with input as {"customer": "acme", "jurisdiction": "de"}
		with data.placement as _placement
		with data.inventory as _inventory
	answer.rows == {
		_row("web", {"cluster": "berlin", "replicas": 3, "source": "object"}),
		_row("odd", {"cluster": "berlin", "replicas": null, "source": "object"}),
		_row("web", {"cluster": "munich", "replicas": null, "source": "decision"}),
	}
	answer.problems == set()
	answer.notes == {"no objects of cluster munich were given: what runs there is what manifests say, or placement decides"}
}

test_a_job_that_has_ended_does_not_run_in_a_jurisdiction if {
	jobs := {name: {"metadata": {"annotations": {"customer": "acme"}}, "spec": {"parallelism": 2}, "status": status} |
		some name, status in {
			"running": {"active": 2},
			"ended": {"completionTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Complete", "status": "True"}]},
		}
	}
	inventory := {cluster: {"jobs": {"shop": jobs}} | some cluster in ["berlin", "munich"]}
	rows := applications_in_jurisdiction.rows with input as {"customer": "acme", "jurisdiction": "de"}
		with data.placement as _placement
		with data.inventory as inventory
	{[row.cluster, row.name, row.replicas] | some row in rows} == {["berlin", "running", 2], ["munich", "running", 2]}
}

test_questions_about_unknown_customers_and_jurisdictions if {
	answer := applications_in_jurisdiction with input as {"customer": "other", "jurisdiction": "us"}
		with data.placement as _placement
	answer.rows == set()
	answer.problems == {
		`customer "other" is not known: it is not in placement.customers`,
		`no cluster is in jurisdiction "us": placement.clusters has de, fr`,
	}
}

_affected(cluster, certification, inventory) := _affected_in(_placement, cluster, certification, inventory)

_affected_in(placement, cluster, certification, inventory) := answer if {
	answer := customers_affected with input as {"cluster": cluster, "certification": certification}
		with data.placement as placement
		with data.inventory as inventory
}

test_customers_affected_by_a_lost_certification if {
	answer := _affected("berlin", "pci", {"berlin": {"deployments": {"shop": _web}}})
	answer.rows == {_row("web", {"customer": "acme", "now": ["berlin"], "then": ["munich"], "errors": ""})}
	answer.notes == set()
}

test_without_objects_of_the_cluster_manifests_tell if {
	answer := _affected("munich", "pci", _inventory)
	answer.rows == {_row("web", {"customer": "acme", "now": ["berlin", "munich"], "then": ["berlin"], "errors": ""})}
	count(answer.notes) == 1
}

test_errors_say_why_there_is_nowhere_to_go if {
	cordoned := object.union(_placement, {"clusters": {"munich": {"cordoned": true}}})
	answer := _affected_in(cordoned, "berlin", "pci", {"berlin": {"deployments": {"shop": _web}}})
	some row in answer.rows
	[row.now, row.then] == [["berlin"], []]
	contains(row.errors, "no cluster: 1 of 3: it is cordoned; no cluster: 1 of 3: it lacks what customer")
}

test_a_certification_that_the_cluster_does_not_have if {
	answer := _affected("paris", "pci", _inventory)
	answer.rows == set()
	answer.problems == {`cluster "paris" has no certification "pci" that it could lose: it has none`}
}

test_price_changes if {
	nothing := price_changes with input as {"cluster": "berlin", "price": 0.5}
		with data.placement as _placement
		with data.inventory as _inventory
	nothing == {"_changes": {"prices": {"berlin": {"cpu": 0.5}}}, "problems": set(), "rows": set()}

	wrong := price_changes with input as {"cluster": "berlin", "resource": "memory", "price": -1}
		with data.placement as _placement
		with data.inventory as _inventory
	wrong.rows == set()
	wrong.problems == {`the price -1 of memory in cluster "berlin" is no number from 0 to 1000000000`}
}

test_a_price_that_others_lack_stops_decisions if {
	spec := {"template": {"spec": {"containers": [{"resources": {"requests": {"memory": "1Gi"}}}]}}}
	answer := price_changes with input as {"cluster": "berlin", "resource": "memory", "price": 1}
		with data.placement as _placement
		with data.inventory as {"": {"deployments": {"shop": _deployment("web", "acme", spec)}}}
	{[row.name, row.now, row.then, row.costNow, row.costThen] | some row in answer.rows} == {["web", ["berlin", "munich"], [], null, null]}
	some row in answer.rows
	startswith(row.errors, `clusters: cluster "munich" has no price of memory`)
}

test_a_price_changes_costs_and_clusters if {
	prices := {"berlin": 0.1, "munich": 0.2}
	world := object.union(_placement, {"clusters": {name: {"price": {"cpu": price}} | some name, price in prices}})
	spec := {"replicas": 3, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}}}
	inventory := {"": {"deployments": {"shop": _deployment("web", "acme", spec)}}}
	expected := {
		0.1: set(), # as it is
		0.15: {[["berlin"], 0.6, ["berlin"], 0.9]},
		0.3: {[["berlin"], 0.6, ["munich"], 1.2]},
	}
	every price, rows in expected {
		answer := price_changes with input as {"cluster": "berlin", "price": price}
			with data.placement as world
			with data.inventory as inventory
		{[row.now, row.costNow, row.then, row.costThen] | some row in answer.rows} == rows
	}
}

_pod(node, phase) := {"metadata": {"ownerReferences": [{"kind": "DaemonSet", "controller": true}]}, "spec": {"nodeName": node}, "status": {"phase": phase}}

_pods := {
	"namespaces": {
		"training": {"metadata": {"labels": {"agentpool": "gpu"}}},
		"free": {"metadata": {"labels": {}}},
	},
	"nodes": {
		"gpu-1": {"metadata": {"labels": {"agentpool": "gpu"}}},
		"cheap-1": {"metadata": {"labels": {"agentpool": "cheap"}}},
		"bare": {"metadata": {}},
	},
	"pods": {
		"training": {
			"right": _pod("gpu-1", "Running"),
			"wrong": _pod("cheap-1", "Running"),
			"unlabelled": {"spec": {"nodeName": "bare"}},
			"ended": _pod("cheap-1", "Succeeded"),
			"waiting": {"metadata": {}, "spec": {}},
			"elsewhere": _pod("gone", "Running"),
		},
		"free": {"anywhere": _pod("cheap-1", "Running")},
		"unknown": {"anywhere": _pod("cheap-1", "Running")},
	},
}

test_pods_outside_their_pool if {
	answer := pods_outside_pool with data.inventory as {"": _pods, "paris": object.union(_pods, {"pods": {"unknown": {}}})}
	common := {"namespace": "training", "pool": "gpu", "lacks": ["agentpool=gpu"]}
	answer.rows == {object.union(common, {"cluster": cluster, "name": name, "node": node}) |
		some cluster in ["", "paris"]
		some name, node in {"wrong": "cheap-1", "unlabelled": "bare"}
	}
	answer.notes == {sentence |
		some title in ["manifests", "cluster paris"]
		some sentence in [
			sprintf("%s: no manifest of its namespace unknown was given, so the pool of the pods in it is not known", [title]),
			sprintf("%s: no object of its node gone was given, so nobody can tell the pool of that", [title]),
		]
	}
}

test_an_answer_names_what_it_does_not_count if {
	inventory := {"berlin": {
		"pods": {"shop": {
			"nobodys": {"kind": "Pod", "metadata": {}, "spec": {}},
			"pg-1": {
				"kind": "Pod", "metadata": {
					"labels": {"customer": "acme"},
					"ownerReferences": [{"apiVersion": "pg/v1", "kind": "Cluster", "name": "pg", "controller": true}],
				},
				"spec": {},
			},
		}},
		"objects": {"shop": {"Secret keys": {"kind": "Secret", "metadata": {"labels": {"customer": "acme"}}}}},
	}}
	answer := applications_in_jurisdiction with input as {"customer": "acme", "jurisdiction": "de"}
		with data.placement as _placement
		with data.inventory as inventory
	answer.rows == {{
		"cluster": "berlin",
		"kind": "Pod",
		"namespace": "shop",
		"name": "pg-1",
		"replicas": 1,
		"source": "object of Cluster pg",
	}}
	unowned := "cluster berlin: nobody says whose 1 applications there are, by themselves or by their namespaces"
	answer.notes == {
		"no objects of cluster munich were given: what runs there is what manifests say, or placement decides",
		"cluster berlin has other objects of customer acme: Secret (1)",
		unowned,
	}
	_affected("berlin", "pci", inventory).notes == {unowned}
}
