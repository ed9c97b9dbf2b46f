package lib.controllers_test

import data.lib.controllers

_of_deployment := {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": true}

_of_cron_job := {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "controller": true}

_by_deployments := "system:serviceaccount:kube-system:deployment-controller"

_by_cron_jobs := "system:serviceaccount:kube-system:cronjob-controller"

_by_all := "system:kube-controller-manager"

_created(user, group, kind, owners) := {"request": {
	"operation": "CREATE",
	"kind": {"group": group, "version": "v1", "kind": kind},
	"userInfo": {"username": user},
	"object": {"metadata": {"name": "web", "ownerReferences": owners}},
}}

test_a_controller_makes_the_replica_sets_of_deployments if {
	every user in [_by_deployments, _by_all] {
		controllers.owner == "apps/Deployment" with input as _created(user, "apps", "ReplicaSet", [_of_deployment])
	}
}

test_a_controller_makes_the_jobs_of_cron_jobs if {
	every user in [_by_cron_jobs, _by_all] {
		controllers.owner == "batch/CronJob" with input as _created(user, "batch", "Job", [_of_cron_job])
	}
}

test_the_owner_does_not_count_without_its_controller if {
	every user in ["jane", "system:serviceaccount:shop:deployment-controller", _by_cron_jobs] {
		not controllers.owner with input as _created(user, "apps", "ReplicaSet", [_of_deployment])
	}
}

test_the_controller_does_not_count_without_such_an_owner if {
	owners := [
		[],
		[{"apiVersion": "v1", "kind": "ConfigMap", "name": "own", "controller": true}],
		[{"apiVersion": "example.com/v1", "kind": "Deployment", "name": "web", "controller": true}],
		[object.remove(_of_deployment, ["controller"])],
		[object.union(_of_deployment, {"controller": false})],
		[_of_cron_job],
	]
	every references in owners {
		not controllers.owner with input as _created(_by_deployments, "apps", "ReplicaSet", references)
	}
}

test_objects_of_other_kinds_have_no_such_owner if {
	every pair in [["", "Pod"], ["apps", "StatefulSet"], ["example.com", "ReplicaSet"]] {
		[group, kind] := pair
		not controllers.owner with input as _created(_by_all, group, kind, [_of_deployment])
	}
}
