package lib.workload_placement.request_test

import data.lib.workload_placement.request
import data.lib.workload_placement.scenes_test as scenes

_read(resource) := answer if {
	answer := {
		"whole": {true | request.is_whole},
		"copied": {true | request.is_copied},
		"parts": request.parts,
		"replicas": request.replicas,
	} with input as {"resource": resource}
}

_in_template := {"template": {"spec": scenes.pods}}

test_what_is_divided if {
	every kind in ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"] {
		resource := {"kind": kind, "spec": object.union(_in_template, {"replicas": 3})}
		_read(resource) == {"whole": set(), "copied": set(), "parts": 3, "replicas": 3}
	}
	_read({"kind": "Job", "spec": {"parallelism": 4, "completions": 9}}) == {"whole": set(), "copied": set(), "parts": 4, "replicas": 4}
	_read({"kind": "Job", "spec": {"parallelism": 4, "completions": 2}}) == {"whole": set(), "copied": set(), "parts": 2, "replicas": 2}
	_read({"kind": "Job", "spec": {"completions": 9}}) == {"whole": set(), "copied": set(), "parts": 1, "replicas": 1}
	_read({"spec": {"replicas": 3}}) == {"whole": set(), "copied": set(), "parts": 3, "replicas": 3}
}

test_what_one_cluster_runs_as_a_whole if {
	every entry in [
		[{"kind": "Pod", "spec": scenes.pods}, 1],
		[{"kind": "CronJob", "spec": {"jobTemplate": {"spec": object.union(_in_template, {"parallelism": 3})}}}, 3],
		[{"kind": "Job", "spec": {"parallelism": 3, "completionMode": "Indexed", "completions": 5}}, 3],
		[{"kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1", "spec": object.union(_in_template, {"replicas": 3})}, 3],
		[{"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1", "spec": object.union(_in_template, {"replicas": {"min": 3}})}, 1],
	] {
		[resource, replicas] := entry
		_read(resource) == {"whole": {true}, "copied": set(), "parts": 1, "replicas": replicas}
	}
}

test_what_each_cluster_has_all_of if {
	every resource in [
		{"kind": "DaemonSet", "apiVersion": "apps/v1", "spec": _in_template},
		{"kind": "Secret", "apiVersion": "v1"},
		{"kind": "Certificate", "apiVersion": "cert-manager.io/v1", "spec": {"replicas": "x"}},
	] {
		_read(resource) == {"whole": set(), "copied": {true}, "parts": 1, "replicas": 1}
		with_two := object.union(resource, {"metadata": {"annotations": {"min-clusters": "2"}}})
		_read(with_two).parts == 2
	}
}
