# METADATA
# title: Controllers
# description: |
#   What controllers of Kubernetes make from a template that was admitted: the ReplicaSets of Deployments, and the Jobs of
#   CronJobs. tools/fairlead/policy/controllers.py says the same for the other engines.
# schemas:
#   - input: schema.admission_review
package lib.controllers

import data.review

# METADATA
# description: |
#   The kind of the owner, as `group/Kind`, from whose template a controller makes the request's object; undefined for any
#   other object. Anyone can write an owner reference, so it counts only if that controller sends the request.
owner := maker.owner if {
	not review.subresource
	maker := _makers[concat("/", review.kind)]
	input.request.userInfo.username in maker.users
	some reference in input.request.object.metadata.ownerReferences
	reference.controller == true
	concat("/", [reference.apiVersion, reference.kind]) == maker.reference
}

_makers := {
	"apps/ReplicaSet": {
		"owner": "apps/Deployment",
		"reference": "apps/v1/Deployment",
		"users": {"system:serviceaccount:kube-system:deployment-controller", _without_own_account},
	},
	"batch/Job": {
		"owner": "batch/CronJob",
		"reference": "batch/v1/CronJob",
		"users": {"system:serviceaccount:kube-system:cronjob-controller", _without_own_account},
	},
}

# Every controller, where kube-controller-manager runs without --use-service-account-credentials.
_without_own_account := "system:kube-controller-manager"
