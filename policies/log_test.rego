package system.log_test

import data.system.log

# "secret" stands in every place that can hold a secret and that policies do not decide by.
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
	"schedulingGates": [{"name": "example.com/quota"}],
	"containers": [_container],
	"initContainers": [_container],
	"ephemeralContainers": [_container],
	"volumes": [{"name": "v", "csi": {"volumeAttributes": {"key": "secret"}}}],
}

_shown_spec := {
	"nodeName": "node",
	"nodeSelector": {"agentpool": "pool1"},
	"tolerations": [{"operator": "Exists"}],
	"schedulingGates": [{"name": "example.com/quota"}],
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

test_only_the_placement_of_a_pod_is_shown if {
	pod := _object("Pod", _spec)
	shown := _shown_object("Pod", _shown_spec)
	log.mask == _shown(shown, shown) with input as _event(pod, pod)
	log.mask == _shown(shown, null) with input as _event(pod, null)
}

# By the rule for plain pods, which fuzzing compares with the general rules.
test_only_the_placement_of_a_plain_pod_is_shown if {
	metadata := {
		"name": "web",
		"labels": {"app": "web"},
		"ownerReferences": [{"kind": "Job", "name": "web", "controller": true, "blockOwnerDeletion": true}],
	}
	usual := {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
	spec := {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}, usual]}
	secret := {"token": "secret"}
	pod := {
		"kind": "Pod",
		"metadata": object.union(metadata, {"annotations": secret, "managedFields": ["secret"]}),
		"spec": object.union(spec, {"containers": [_container]}),
		"status": "secret",
	}
	shown := {"kind": "Pod", "metadata": object.union(metadata, {"annotations": {}}), "spec": spec}
	log.mask == _shown(shown, null) with input as _event(pod, null)
	log.mask == _shown(shown, shown) with input as _event(pod, pod)
	log._plain with input as _event(pod, pod)
}

test_a_reduced_review_is_shown_as_such if {
	reduced := {"apiVersion": "fairlead.dev/v1", "kind": "ReducedReview"}
	event := object.union(_event(null, null), {"input": reduced})
	shown := object.union(_shown(null, null)[0], {"value": reduced})
	log.mask == [shown] with input as event
}

_shown_template := {"metadata": {"annotations": {}}, "spec": _shown_spec}

test_only_the_placement_of_a_template_is_shown if {
	template := {"metadata": {"annotations": {"a": "secret"}}, "spec": _spec}
	deployment := _object("Deployment", {"replicas": 2, "template": template})
	shown := _shown_object("Deployment", {"template": _shown_template})
	log.mask == _shown(shown, shown) with input as _event(deployment, deployment)
}

test_the_note_on_a_template_is_shown if {
	note := {"fairlead.dev/assigned": `{"nodeSelector": {"agentpool": "pool1"}, "tolerations": []}`}
	template := {"metadata": {"annotations": object.union(note, {"a": "secret"})}, "spec": _spec}
	daemon_set := _object("DaemonSet", {"template": template})
	shown := _shown_object("DaemonSet", {"template": {"metadata": {"annotations": note}, "spec": _shown_spec}})
	log.mask == _shown(shown, null) with input as _event(daemon_set, null)
}

test_only_the_placement_of_a_job_template_is_shown if {
	template := {"metadata": {"labels": {"a": "secret"}}, "spec": _spec}
	job := _object("CronJob", {"jobTemplate": {"spec": {"parallelism": 2, "template": template}}})
	shown := _shown_object("CronJob", {"jobTemplate": {"spec": {"template": {"metadata": {}, "spec": _shown_spec}}}})
	log.mask == _shown(shown, shown) with input as _event(job, job)
}

test_a_value_of_the_wrong_type_is_not_shown if {
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

test_nothing_is_shown_of_an_input_that_is_not_a_review if {
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

test_only_admission_decisions_are_logged if {
	log.drop == false with input as {"path": "system/main"}
	log.drop == false with input as {"path": "signed_bundle/main"}
	every other in [{"path": "kubernetes/namespaces"}, {"path": ""}, {"path": "system/authz/allow"}, {}] {
		log.drop == true with input as other
	}
}

_admitted := {"response": {"allowed": true}}

_logged(id, share, result) if {
	log.drop == false with input as {
		"path": "system/main",
		"decision_id": id,
		"labels": {"decision_sample": share},
		"result": result,
	}
}

test_of_what_is_admitted_a_sample_is_logged if {
	_logged("1", "1.000000", _admitted)
	not _logged("1", "0.000000", _admitted)
	half := [id | some id in numbers.range(1, 400); _logged(sprintf("%d", [id]), "0.500000", _admitted)]
	count(half) in numbers.range(100, 300) # 10 times the standard deviation around 200
}

test_refusals_warnings_and_missing_answers_are_always_logged if {
	every result in [
		{"response": {"allowed": false}},
		{"response": {"allowed": true, "warnings": ["careful"]}},
		{"response": {}},
		null,
	] {
		_logged("1", "0.000000", result)
	}
}

# The part that is shown of a value that could have a megabyte.
_long(character) := concat("", [character | some _ in numbers.range(1, 300)])

_cut(character) := concat("", [substring(_long(character), 0, 256), "..."])

_numbered(count) := {sprintf("key-%d", [number]): "value" | some number in numbers.range(1, count)}

_only(object) := shown if {
	[entry] := log.mask with input as _event(object, null)
	shown := entry.value.request.object
}

_shown_metadata(metadata) := _only({"metadata": metadata}).metadata

_shown_spec_of(spec) := _only({"spec": spec}).spec

test_a_long_text_is_cut if {
	long := _long("x")
	_shown_metadata({"name": long}) == {"name": _cut("x"), "annotations": null}
	_shown_metadata({"labels": {"a": _long("ü"), long: "b"}}) == {
		"labels": {"a": _cut("ü")},
		"labelsLeftOut": 1,
		"annotations": null,
	}
	_shown_spec_of({"nodeName": "node", "nodeSelector": {"a": long}}) == {"nodeName": "node", "nodeSelector": {"a": _cut("x")}}
	[entry] := log.mask with input as json.patch(_event(null, null), [
		{"op": "replace", "path": "/input/request/uid", "value": long},
		{"op": "replace", "path": "/input/request/kind/kind", "value": long},
		{"op": "replace", "path": "/input/request/userInfo", "value": {"username": long, "groups": ["a", long, ["secret"], 5]}},
	])
	entry.value.request.uid == _cut("x")
	entry.value.request.kind == {"group": "", "version": "v1", "kind": _cut("x")}
	entry.value.request.userInfo == {"username": _cut("x"), "groups": ["a", _cut("x"), 5], "groupsLeftOut": 1}
}

test_the_rest_of_long_lists_and_maps_is_counted if {
	_shown_metadata({"labels": _numbered(32)}) == {"labels": _numbered(32), "annotations": null}
	_shown_metadata({"labels": _numbered(33)}) == {"labels": {}, "labelsLeftOut": 33, "annotations": null}
	owner := {"name": "web", "controller": true}
	owners := [object.union(owner, {"secret": "secret"}) | some _ in numbers.range(1, 40)]
	_shown_metadata({"ownerReferences": owners}) == {
		"ownerReferences": [owner | some _ in numbers.range(1, 32)],
		"ownerReferencesLeftOut": 8,
		"annotations": null,
	}
	tolerations := [{"key": "a", "tolerationSeconds": 5, "secret": "secret"} | some _ in numbers.range(1, 33)]
	_shown_spec_of({"tolerations": tolerations}) == {
		"tolerations": [{"key": "a", "tolerationSeconds": 5} | some _ in numbers.range(1, 32)],
		"tolerationsLeftOut": 1,
	}
}

test_nothing_is_shown_of_a_field_of_another_type if {
	every wrong in ["secret", 5, true, null, [["secret"]], {"a": ["secret"]}] {
		shown := _only({"metadata": {"labels": wrong, "ownerReferences": wrong}, "spec": {
			"nodeSelector": wrong,
			"tolerations": wrong,
			"nodeName": [wrong],
		}})
		not contains(json.marshal(shown), "secret")
	}
	every user, shown in {"secret": null, {"groups": "secret"}: {}} {
		asked := json.patch(_event(null, null), [{"op": "replace", "path": "/input/request/userInfo", "value": user}])
		[entry] := log.mask with input as asked
		entry.value.request.userInfo == shown
	}
	_shown_spec_of({"tolerations": [{"tolerationSeconds": json.unmarshal(_long("1"))}]}) == {"tolerations": [{}]}
}

test_objects_are_left_out_if_their_small_values_are_too_many if {
	every_text := {sprintf("%s%d", [substring(_long("k"), 0, 250), number]): _long("v") | some number in numbers.range(1, 32)}
	huge := _object("Pod", {"nodeSelector": every_text})
	[entry] := log.mask with input as _event(huge, huge)
	entry.value.request == object.union(_asked, {
		"userInfo": {"username": "jane", "groups": ["dev"]},
		"object": "left out",
		"oldObject": "left out",
	})
}

test_a_long_patch_is_not_shown if {
	answered := object.union(_event(null, null), {"result": {"response": {"patch": _long("x")}}})
	count(log.mask) == 1 with input as answered
	patch := concat("", [_long("x") | some _ in numbers.range(1, 30)])
	masks := log.mask with input as object.union(answered, {"result": {"response": {"patch": patch}}})
	masks[1] == {"op": "upsert", "path": "/result/response/patch", "value": "9000 characters, left out"}
}

_policies := {"packages": {"teams/limits": true}}

_of(asked, decided) := mask if {
	mask := log.mask with input as {"path": "teams/limits", "input": asked, "result": decided}
		with data.fairlead_sync as _policies
}

test_decisions_of_placement_policies_are_logged if {
	every path in ["teams/limits", "teams/limits/deny", "teams/limits/a/b"] {
		log.drop == false with input as {"path": path} with data.fairlead_sync as _policies
	}
	every path in ["teams", "teams/limitsa", "limits", "", "kubernetes/teams/limits"] {
		log.drop == true with input as {"path": path} with data.fairlead_sync as _policies
	}
}

test_of_their_input_only_the_kind_and_the_name_are_shown if {
	secret := {"token": "secret"}
	subject := {"kind": "Pod", "namespace": "team", "name": "web"}
	metadata := {"namespace": "team", "name": "web", "annotations": secret}
	pod := {"kind": "Pod", "metadata": metadata, "spec": secret}
	request := {"kind": {"kind": "Pod", "group": ""}, "namespace": "team", "name": "web", "object": pod}
	every asked in [{"request": request}, {"resource": pod, "token": "secret"}, pod] {
		_of(asked, secret) == [
			{"op": "upsert", "path": "/input", "value": subject},
			{"op": "upsert", "path": "/result", "value": "answered"},
		]
	}
	every asked in [null, "secret", ["secret"], {"kind": ["secret"], "metadata": "secret"}, {"request": {"kind": "secret"}}] {
		_of(asked, "secret")[0].value == {}
	}
}

test_of_their_result_only_the_outcome_is_shown if {
	every decided, outcome in {
		{"deny": ["secret"], "allow": true}: "refused",
		{"violation": [{"msg": "secret"}]}: "refused",
		{"allow": false}: "refused",
		{"allowed": false, "deny": []}: "refused",
		{"deny": []}: "allowed",
		{"allow": true}: "allowed",
		{"other": "secret"}: "answered",
		["secret"]: "answered",
		"secret": "answered",
	} {
		_of({}, decided)[1].value == outcome
	}
	every path, outcome in {"teams/limits/deny": "refused", "teams/limits/allow": "answered"} {
		mask := log.mask with input as {"path": path, "result": ["secret"]} with data.fairlead_sync as _policies
		mask[1].value == outcome
	}
}
