package image_sources_test

import data.image_sources

_parameters := {"image_sources": {
	"sources": ["good.example.com/team", "docker.io/library", "registry:5000"],
	"require_digest": false,
}}

_digest := "sha256:9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0"

_deny(request) := deny if {
	deny := image_sources.deny with data.settings.parameters as _parameters with input as {"request": request}
}

_request(group, kind, manifest) := {
	"operation": "CREATE",
	"kind": {"group": group, "version": "v1", "kind": kind},
	"object": manifest,
}

_pod(spec) := {"metadata": {"name": "web"}, "spec": spec}

_running(image) := _pod({"containers": [{"name": "app", "image": image}]})

_updated(request, before) := object.union(request, {"operation": "UPDATE", "oldObject": before})

test_allowed_sources if {
	every image in [
		"good.example.com/team", "good.example.com/team/app", "good.example.com/team/a/b:1", "GOOD.example.com/team/app",
		"nginx", "nginx:1.27", "docker.io/nginx", "index.docker.io/library/nginx", "registry:5000/app", concat("@", ["nginx", _digest]),
	] {
		_deny(_request("", "Pod", _running(image))) == set()
	}
}

test_other_sources if {
	every image in [
		"good.example.com/team-evil/app", "good.example.com/teamevil", "good.example.com/other", "good.example.com.evil.io/team/app",
		"good.example.com:5000/team/app", "evil.io/good.example.com/team", "grafana/grafana", "registry/app", "registry:5001/app",
		"docker.io.evil.io/library/nginx", "docker.io:443/library/nginx", "DOCKER.IO/nginx", "library/evil/../nginx",
	] {
		count(_deny(_request("", "Pod", _running(image)))) == 1
	}
}

test_messages_name_the_container_and_the_way_out if {
	_deny(_request("", "Pod", _running("grafana/grafana:1"))) == {`pod "web": container "app" has the image "grafana/grafana:1" from docker.io/grafana/grafana, which is not an allowed source: use an image from good.example.com/team or docker.io/library or registry:5000`}
	_deny(_request("", "Pod", _running("good.example.com@evil.io/x"))) == {`pod "web": container "app" has the image "good.example.com@evil.io/x", which is not a valid reference: write it like registry.example.com/team/app:1.0`}
}

test_an_image_that_is_not_set_is_no_reference if {
	every container in [{"name": "app"}, {"name": "app", "image": ""}, {"name": "app", "image": null}] {
		some message in _deny(_request("", "Pod", _pod({"containers": [container]})))
		contains(message, "which is not a valid reference")
	}
	some message in _deny(_request("", "Pod", _pod({"volumes": [{"name": "models", "image": {}}]})))
	contains(message, `volume "models" has the image ""`)
}

test_every_list_is_checked if {
	every spec in [
		{"initContainers": [{"name": "init", "image": "evil.io/x"}]},
		{"ephemeralContainers": [{"name": "debug", "image": "evil.io/x"}]},
		{"volumes": [{"name": "v", "emptyDir": {}}, {"name": "models", "image": {"reference": "evil.io/x"}}]},
	] {
		count(_deny(_request("", "Pod", _pod(spec)))) == 1
		count(_deny(_request("apps", "Deployment", _pod({"template": {"spec": spec}})))) == 1
		count(_deny(_request("batch", "CronJob", _pod({"jobTemplate": {"spec": {"template": {"spec": spec}}}})))) == 1
	}
}

test_an_update_of_a_pod_is_about_what_it_changes if {
	_deny(_updated(_request("", "Pod", _running("evil.io/x")), _running("evil.io/x"))) == set()
	count(_deny(_updated(_request("", "Pod", _running("evil.io/x:2")), _running("evil.io/x")))) == 1
	_deny(_updated(_request("", "Pod", _running("nginx")), _running("evil.io/x"))) == set()
	before := _pod({"containers": [{"name": "app", "image": "evil.io/x"}]})
	_deny(_updated(_request("", "Pod", object.union(before, {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}})), before)) == set()
	count(_deny(_updated(_request("", "Pod", object.union(before, {"spec": {"ephemeralContainers": [{"name": "debug", "image": "evil.io/x"}]}})), before))) == 1
}

test_an_update_of_a_template_is_about_all_images_if_one_changes if {
	before := _template([{"name": "a", "image": "evil.io/x"}, {"name": "b", "image": "nginx:1"}])
	_deny(_updated(_request("apps", "Deployment", object.union(before, {"spec": {"replicas": 2}})), before)) == set()
	changed := _template([{"name": "a", "image": "evil.io/x"}, {"name": "b", "image": "nginx:2"}])
	count(_deny(_updated(_request("apps", "Deployment", changed), before))) == 1
}

test_an_update_of_a_template_that_keeps_its_images_warns_of_them if {
	before := _template([{"name": "a", "image": "evil.io/x"}])
	restarted := object.union(before, {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}})
	update := _updated(_request("apps", "Deployment", restarted), before)
	decision := image_sources.decision with data.settings.parameters as _parameters with input as {"request": update}
	decision.deny == set()
	some message in decision.warn
	startswith(message, `every pod of Deployment "web" will be refused: container "a" has the image "evil.io/x"`)
	scaled := _updated(_request("apps", "Deployment", object.union(before, {"spec": {"replicas": 2}})), before)
	unwarned := image_sources.warn with data.settings.parameters as _parameters with input as {"request": scaled}
	unwarned == set()
}

_template(containers) := _pod({"template": {"spec": {"containers": containers}}})

test_a_digest_may_be_required if {
	_unpinned("nginx:1.27") == {`pod "web": container "app" has the image "nginx:1.27" without a digest: write it like registry.example.com/team/app@sha256:DIGEST`}
	_unpinned(concat("@", ["nginx:1.27", _digest])) == set()
	count(_unpinned("nginx@sha256:abc")) == 1
}

_unpinned(image) := deny if {
	deny := image_sources.deny with input as {"request": _request("", "Pod", _running(image))}
		with data.settings.parameters as {"image_sources": {"sources": ["docker.io"], "require_digest": true}}
}

test_objects_without_a_readable_pod_spec_are_refused if {
	_deny(_request("apps", "Deployment", _pod({}))) == {`deployment "web": spec.template.spec is not an object: cannot tell what its pods would do`}
	count(_deny(_request("", "Pod", _pod({"containers": {"app": {}}})))) == 1
}

test_other_objects_are_left_alone if {
	_deny(_request("", "Service", _running("evil.io/x"))) == set()
	_deny({"operation": "DELETE", "kind": {"kind": "Pod"}, "oldObject": _running("evil.io/x")}) == set()
}

test_mirror_pods_are_left_alone if {
	pod := _request("", "Pod", _running("evil.io/x"))
	mirror := object.union(pod, {
		"object": {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {"nodeName": "node-1"}},
		"userInfo": {"username": "system:node:node-1", "groups": ["system:nodes"]},
	})
	_deny(mirror) == set()
	count(_deny(object.union(mirror, {"userInfo": {"username": "alice"}}))) == 1
}

test_the_decision_only_refuses if {
	decision := image_sources.decision with data.settings.parameters as _parameters
		with input as {"request": _request("", "Pod", _running("nginx"))}
	decision == {"deny": set(), "patch": [], "warn": set()}
}
