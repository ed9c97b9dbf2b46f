package lib.pod_specs_test

import data.lib.pod_specs

_request(group, kind, manifest) := {"request": {
	"operation": "CREATE",
	"kind": {"group": group, "version": "v1", "kind": kind},
	"object": manifest,
}}

_spec := {"containers": [{"name": "app"}, {"name": "log"}], "initContainers": [{"name": "migrate"}], "ephemeralContainers": null}

_objects := {
	["", "Pod"]: {"spec": _spec},
	["", "ReplicationController"]: {"spec": {"template": {"spec": _spec}}},
	["apps", "DaemonSet"]: {"spec": {"template": {"spec": _spec}}},
	["apps", "Deployment"]: {"spec": {"template": {"spec": _spec}}},
	["apps", "ReplicaSet"]: {"spec": {"template": {"spec": _spec}}},
	["apps", "StatefulSet"]: {"spec": {"template": {"spec": _spec}}},
	["batch", "CronJob"]: {"spec": {"jobTemplate": {"spec": {"template": {"spec": _spec}}}}},
	["batch", "Job"]: {"spec": {"template": {"spec": _spec}}},
}

test_the_pod_spec_of_each_kind if {
	every kind, workload in _objects {
		_spec == pod_specs.of(workload) with input as _request(kind[0], kind[1], workload)
		{"spec": _spec} == pod_specs.template_of(workload) with input as _request(kind[0], kind[1], workload)
		pod_specs.problems == set() with input as _request(kind[0], kind[1], workload)
	}
}

test_a_pod_is_no_template if {
	pod_specs.is_pod with input as _request("", "Pod", {})
	not pod_specs.is_template with input as _request("", "Pod", {})
	pod_specs.is_template with input as _request("batch", "CronJob", {})
	not pod_specs.is_pod with input as _request("batch", "CronJob", {})
}

test_other_kinds_have_no_pod_spec if {
	every kind in [["", "Service"], ["example.com", "Deployment"], ["", "Deployment"]] {
		request := _request(kind[0], kind[1], {"spec": {"template": {"spec": {"containers": {}}}}})
		not pod_specs.template_path with input as request
		not pod_specs.is_template with input as request
		pod_specs.problems == set() with input as request
	}
}

test_containers_have_their_lists_and_indices if {
	containers := pod_specs.containers(_spec) with input as _request("apps", "Deployment", {})
	[[entry.title, entry.path] | some entry in containers] == [
		[`container "app"`, "spec.template.spec.containers[0]"],
		[`container "log"`, "spec.template.spec.containers[1]"],
		[`init container "migrate"`, "spec.template.spec.initContainers[0]"],
	]
	containers[2].list == "initContainers"
	containers[2].index == 0
	containers[2].container == {"name": "migrate"}
}

test_no_spec_has_no_containers if {
	every spec in [null, {}, {"containers": []}, {"containers": null}] {
		pod_specs.containers(spec) == [] with input as _request("", "Pod", {})
	}
}

test_objects_that_cannot_be_judged if {
	every pod in [null, {}, {"spec": null}, {"spec": []}] {
		problems := pod_specs.problems with input as _request("", "Pod", pod)
		problems == {"spec is not an object: cannot tell what its pods would do"}
	}
	every list in [{}, "c", ["c"], [{}], [{"name": 1}], [{"name": "c"}, null]] {
		problems := pod_specs.problems with input as _request("batch", "CronJob", {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"initContainers": list}}}}}})
		problems == {"spec.jobTemplate.spec.template.spec.initContainers is not a list of containers with names: cannot tell what its pods would do"}
	}
}
