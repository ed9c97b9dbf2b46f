# METADATA
# title: Templates
# description: |
#   Templates by which every pod will be refused. What was wrong before, an update may keep: the object can still be labelled,
#   restarted or deleted. But an update that changes anything in the template makes new pods, and its user has to know.
# schemas:
#   - input: schema.admission_review
package lib.templates

import data.lib.pod_specs
import data.review
import data.settings

# METADATA
# description: Whether the request updates a workload so that it makes new pods.
changes if {
	input.request.operation == "UPDATE"
	pod_specs.is_template
	pod_specs.template_of(input.request.object) != pod_specs.template_of(input.request.oldObject)
}

# METADATA
# description: The warning that an intent, by its name, will refuse every pod of the request's workload.
warning(intent, problem) := sprintf(
	"every pod of %s %q %s be refused: %s",
	[input.request.kind.kind, review.name, will(intent), problem],
)

# METADATA
# description: |
#   Whether an intent `will` refuse something, or `would` if its enforcement is `warn`. An instance with another name has its
#   own enforcement under the name of its intent.
will(intent) := "would" if object.get(settings.enforcement, intent, "deny") == "warn"

else := "will"
