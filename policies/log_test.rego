package system.log_test

import data.system.log

# "secret" stands wherever something may that policies do not decide by.
_container := {
	"name": "secret",
	"image": "secret",
	"command": ["secret"],
	"args": ["--password=secret"],
	"env": [{"name": "PASSWORD", "value": "secret"}],
	"envFrom": [{"secretRef": {"name": "secret"}}],
	"livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "secret"}]}},
	"lifecycle": {"preStop": {"exec": {"command": ["secret"]}}},
}

_spec := {
	"nodeName": "node",
	"nodeSelector": {"agentpool": "pool1"},
	"tolerations": [{"operator": "Exists"}],
	"containers": [_container],
	"initContainers": [_container],
	"ephemeralContainers": [_container],
	"volumes": [{"name": "v", "csi": {"volumeAttributes": {"key": "secret"}}}],
}

_shown_spec := {
	"nodeName": "node",
	"nodeSelector": {"agentpool": "pool1"},
	"tolerations": [{"operator": "Exists"}],
}

_object(kind, spec) := {
	"apiVersion": "v1",
	"kind": kind,
	"metadata": {
		"name": "web",
		"labels": {"app": "web"},
		"annotations": {
			"kubectl.kubernetes.io/last-applied-configuration": "secret",
			"kubernetes.io/config.mirror": "hash",
		},
		"managedFields": ["secret"],
	},
	"data": {"password": "secret"},
	"stringData": {"password": "secret"},
	"spec": spec,
	"status": "secret",
}

_shown_object(kind, spec) := {
	"apiVersion": "v1",
	"kind": kind,
	"metadata": {
		"name": "web",
		"labels": {"app": "web"},
		"annotations": {"kubernetes.io/config.mirror": "hash"},
	},
	"spec": spec,
}

_asked := {
	"uid": "42",
	"kind": {"group": "", "version": "v1", "kind": "Pod"},
	"operation": "UPDATE",
	"namespace": "payments",
	"name": "web",
	"dryRun": false,
}

_event(new, old) := {"path": "system/main", "input": {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"secret": "secret",
	"request": object.union(_asked, {
		"userInfo": {"username": "jane", "groups": ["dev"], "uid": "secret", "extra": {"token": ["secret"]}},
		"object": new,
		"oldObject": old,
		"options": {"secret": "secret"},
	}),
}}

_shown(new, old) := [{"op": "upsert", "path": "/input", "value": {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"request": object.union(_asked, {
		"userInfo": {"username": "jane", "groups": ["dev"]},
		"object": new,
		"oldObject": old,
	}),
}}]

test_of_a_pod_just_its_placement_is_shown if {
	pod := _object("Pod", _spec)
	shown := _shown_object("Pod", _shown_spec)
	log.mask == _shown(shown, shown) with input as _event(pod, pod)
	log.mask == _shown(shown, null) with input as _event(pod, null)
}

test_of_a_template_just_its_placement_is_shown if {
	template := {"metadata": {"annotations": {"a": "secret"}}, "spec": _spec}
	deployment := _object("Deployment", {"replicas": 2, "template": template})
	shown := _shown_object("Deployment", {"template": {"spec": _shown_spec}})
	log.mask == _shown(shown, shown) with input as _event(deployment, deployment)
}

test_of_a_job_template_just_its_placement_is_shown if {
	template := {"metadata": {"annotations": {"a": "secret"}}, "spec": _spec}
	job := _object("CronJob", {"jobTemplate": {"spec": {"parallelism": 2, "template": template}}})
	shown := _shown_object("CronJob", {"jobTemplate": {"spec": {"template": {"spec": _shown_spec}}}})
	log.mask == _shown(shown, shown) with input as _event(job, job)
}

test_what_is_not_of_its_type_is_not_shown if {
	every case in [
		["secret", null],
		[["secret"], null],
		[{"metadata": "secret", "spec": "secret"}, {"metadata": null, "spec": null}],
		[{"metadata": {"annotations": "secret"}}, {"metadata": {"annotations": null}, "spec": null}],
		[{"spec": {"template": "secret"}}, {"metadata": null, "spec": {"template": null}}],
		[{"spec": {"template": {"spec": "secret"}}}, {"metadata": null, "spec": {"template": {"spec": null}}}],
	] {
		[asked, shown] := case
		log.mask == _shown(shown, null) with input as _event(asked, null)
	}
}

test_of_what_is_no_review_nothing_is_shown if {
	review := _event(null, null).input
	every other in [
		null,
		"secret",
		["secret"],
		{"request": {"uid": "secret"}},
		object.union(review, {"request": "secret"}),
		object.union(review, {"kind": "secret"}),
		object.union(review, {"apiVersion": "secret"}),
		json.remove(review, ["request"]),
	] {
		log.mask == [{"op": "upsert", "path": "/input", "value": {}}] with input as {"path": "system/main", "input": other}
	}
	log.mask == [{"op": "upsert", "path": "/input", "value": {}}] with input as {"path": "system/main"}
}

test_admission_decisions_alone_are_logged if {
	log.drop == false with input as {"path": "system/main"}
	every other in [{"path": "kubernetes/namespaces"}, {"path": ""}, {"path": "system/authz/allow"}, {}] {
		log.drop == true with input as other
	}
}
