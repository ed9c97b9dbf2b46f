# METADATA
# title: Placement over clusters
# description: |
#   The answer to `POST /v1/data/k8s/placement`: on which clusters a workload runs, and why. The package
#   `lib.workload_placement.decision` decides. Every rule here is a part of the answer, so helpers belong there.
# schemas:
#   - input: schema.placement
# entrypoint: true
package k8s.placement

import data.lib.workload_placement.decision as placement

# METADATA
# description: The clusters with their weights, which say how replicas are divided; none if there are errors.
annotations := {"replica-set-preferences": {"clusters": placement.weights}}

# METADATA
# description: What is wrong, as lists of sentences (of names for `invalid cluster(s)`) by what they are about.
errors := placement.errors

# METADATA
# description: For each cluster `allowed`, or the rule that excludes it, in a sentence.
explanation := placement.explanation
