package required_labels_test

import data.required_labels

_parameters := {"required_labels": {
	"labels": [
		{"key": "team", "pattern": ".+", "values": []},
		{"key": "stage", "pattern": ".+", "values": ["test", "production"]},
		{"key": "example.com/cost-center", "pattern": "cc-[0-9]{4}|none", "values": []},
	],
	"kinds": ["v1/Pod", "apps/v1/Deployment", "batch/v1/CronJob"],
	"custom_resources": [{"group": "example.com", "version": "v1", "kind": "Database", "resource": "databases"}],
	"templates": false,
}}

_good := {"team": "shop", "stage": "test", "example.com/cost-center": "cc-1234"}

_deny(request) := deny if {
	deny := required_labels.deny with data.settings.parameters as _parameters with input as {"request": request}
}

_deny_with_templates(request) := deny if {
	parameters := object.union(_parameters, {"required_labels": {"templates": true}})
	deny := required_labels.deny with data.settings.parameters as parameters with input as {"request": request}
}

_deployment(labels) := {
	"operation": "CREATE",
	"kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
	"object": {"metadata": {"name": "web", "labels": labels}},
}

_update(before, after) := object.union(_deployment(after), {
	"operation": "UPDATE",
	"oldObject": {"metadata": {"name": "web", "labels": before}},
})

test_good_labels_are_admitted if {
	_deny(_deployment(_good)) == set()
	_deny(_deployment(object.union(_good, {"stage": "production", "example.com/cost-center": "none", "other": ""}))) == set()
}

test_each_missing_label_is_named_with_what_it_should_be if {
	every metadata in [{"name": "web"}, {"name": "web", "labels": null}, {"name": "web", "labels": {}}] {
		deny := _deny({
			"operation": "CREATE",
			"kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
			"object": {"metadata": metadata},
		})
		deny == {
			`deployment "web": label "team" is missing: add it to metadata.labels with a value that is not empty`,
			`deployment "web": label "stage" is missing: add it to metadata.labels with one of "test", "production"`,
			`deployment "web": label "example.com/cost-center" is missing: add it to metadata.labels with a value that matches "cc-[0-9]{4}|none"`,
		}
	}
}

test_each_wrong_label_is_named_with_its_value if {
	_deny(_deployment({"team": "", "stage": "Test", "example.com/cost-center": "cc-12345"})) == {
		`deployment "web": label "team" is "" in metadata.labels: change it to a value that is not empty`,
		`deployment "web": label "stage" is "Test" in metadata.labels: change it to one of "test", "production"`,
		`deployment "web": label "example.com/cost-center" is "cc-12345" in metadata.labels: change it to a value that matches "cc-[0-9]{4}|none"`,
	}
}

test_the_whole_value_has_to_match if {
	every value in ["xcc-1234", "cc-1234x", "xnone", "nonex"] {
		count(_deny(_deployment(object.union(_good, {"example.com/cost-center": value})))) == 1
	}
}

test_an_update_is_refused_if_it_removes_a_label_or_makes_it_wrong if {
	count(_deny(_update(_good, object.remove(_good, ["team"])))) == 1
	count(_deny(_update(_good, object.union(_good, {"stage": "x"})))) == 1
	count(_deny(_update({"stage": "x"}, {"stage": "y"}))) == 1
}

test_an_update_of_another_label_is_admitted if {
	_deny(_update({}, {"app": "web"})) == set()
	_deny(_update({"stage": "x"}, {"stage": "x", "team": "shop"})) == set()
	_deny(_update({"stage": "x"}, {"stage": "test"})) == set()
}

test_other_kinds_and_operations_are_left_alone if {
	_deny(object.union(_deployment({}), {"kind": {"kind": "StatefulSet"}})) == set()
	_deny(object.union(_deployment({}), {"kind": {"group": "example.com"}})) == set()
	_deny(object.union(_deployment({}), {"operation": "DELETE"})) == set()
}

test_an_update_of_the_status_can_take_a_label_away if {
	count(_deny(object.union(_update(_good, object.remove(_good, ["team"])), {"subResource": "status"}))) == 1
	_deny(object.union(_update({}, {"app": "web"}), {"subResource": "status"})) == set()
}

test_pods_and_custom_resources_can_need_labels if {
	every kind in [{"group": "", "version": "v1", "kind": "Pod"}, {"group": "example.com", "version": "v1", "kind": "Database"}] {
		count(_deny(object.union(_deployment({}), {"kind": kind}))) == 3
	}
}

test_templates_can_need_labels if {
	request := object.union(_deployment(_good), {"object": {"spec": {"template": {"metadata": {"labels": object.remove(_good, ["team"])}}}}})
	_deny(request) == set()
	_deny_with_templates(request) == {`deployment "web": label "team" is missing: add it to spec.template.metadata.labels with a value that is not empty`}
	updated := object.union(request, {"operation": "UPDATE", "oldObject": request.object})
	_deny_with_templates(updated) == set()
}

test_an_update_warns_of_pods_without_a_label if {
	labels := object.remove(_good, ["team"])
	template := {"object": {"spec": {"template": {"metadata": {"labels": labels}}}}}
	request := object.union(_deployment(_good), template)
	restarted := {"object": {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}}}
	update := object.union_n([request, {"operation": "UPDATE", "oldObject": request.object}, restarted])
	warning := `every pod of Deployment "web" will be refused: label "team" is missing: add it to spec.template.metadata.labels with a value that is not empty`
	_warn_with_templates(update, _parameters.required_labels.kinds) == {warning}
	_warn_with_templates(update, ["apps/v1/Deployment"]) == set()
	_warn_with_templates(request, _parameters.required_labels.kinds) == set()
}

_warn_with_templates(request, kinds) := warn if {
	parameters := object.union(_parameters, {"required_labels": {"templates": true, "kinds": kinds}})
	warn := required_labels.warn with data.settings.parameters as parameters with input as {"request": request}
}

test_the_template_of_a_cron_job if {
	request := object.union(_deployment(_good), {"kind": {"group": "batch", "version": "v1", "kind": "CronJob"}})
	some message in _deny_with_templates(request)
	contains(message, "spec.jobTemplate.spec.template.metadata.labels")
}

test_a_pod_has_only_labels_of_its_own if {
	request := object.union(_deployment(_good), {"kind": {"group": "", "version": "v1", "kind": "Pod"}})
	_deny_with_templates(request) == set()
}

test_the_decision_only_refuses if {
	decision := required_labels.decision with data.settings.parameters as _parameters with input as {"request": _deployment(_good)}
	decision == {"deny": set(), "patch": [], "warn": set()}
}
