package lib.templates_test

import data.lib.templates

_updated(group, kind, before, after) := {"request": {
	"operation": "UPDATE",
	"kind": {"group": group, "version": "v1", "kind": kind},
	"oldObject": {"metadata": {"name": "web"}, "spec": before},
	"object": {"metadata": {"name": "web"}, "spec": after},
}}

_restarted := {"template": {"metadata": {"annotations": {"restarted": "now"}}}}

test_an_update_of_the_template_makes_new_pods if {
	templates.changes with input as _updated("apps", "Deployment", {"template": {}}, _restarted)
	cron_job := _updated("batch", "CronJob", {}, {"jobTemplate": {"spec": _restarted}})
	templates.changes with input as cron_job
}

test_other_requests_do_not if {
	not templates.changes with input as _updated("apps", "Deployment", _restarted, object.union(_restarted, {"replicas": 2}))
	not templates.changes with input as _updated("", "Pod", {}, {"nodeName": "n1"})
	created := json.patch(_updated("apps", "Deployment", {}, _restarted), [
		{"op": "replace", "path": "request/operation", "value": "CREATE"},
		{"op": "remove", "path": "request/oldObject"},
	])
	not templates.changes with input as created
}

test_the_warning_names_the_workload if {
	update := _updated("apps", "Deployment", {}, _restarted)
	templates.warning("fair", "no") == `every pod of Deployment "web" will be refused: no` with input as update
	would := templates.warning("fair", "no") with input as update with data.settings.enforcement as {"fair": "warn"}
	would == `every pod of Deployment "web" would be refused: no`
}
