# METADATA
# title: Image sources
# description: |
#   Every image of a pod comes from an allowed registry or repository: those of containers, init containers, ephemeral
#   containers and image volumes, in pods and in the templates of workloads. References are read as container runtimes
#   read them, so `nginx` is docker.io/library/nginx. An update of a pod is about the images that it adds or changes; an
#   update of a template that changes an image is about all of its images, because it makes new pods. Any other update of a
#   template gets a warning about the images that it leaves. Mirror pods are left alone, because their nodes run them anyway.
# schemas:
#   - input: schema.admission_review
package image_sources

import data.lib.mirror_pods
import data.lib.pod_specs
import data.lib.templates
import data.review
import data.settings

# METADATA
# description: What this intent has to say of the request.
decision := {"deny": deny, "patch": [], "warn": warn}

# METADATA
# description: Why the request is refused.
deny contains sprintf("%s: %s", [review.subject, problem]) if {
	input.request.operation in {"CREATE", "UPDATE"}
	not mirror_pods.is_mirror
	some problem in (pod_specs.problems | _new_problems)
}

# METADATA
# description: What an update leaves wrong in a template.
warn contains templates.warning("image-sources", problem) if {
	_is_left
	some problem in _problems
}

_new_problems := _problems if not _is_left

else := set()

# Whether the update makes new pods with the same images as before.
_is_left if {
	templates.changes
	_images(input.request.object) == _images(input.request.oldObject)
}

_problems contains sprintf(
	"%s has the image %q, which is not a valid reference: write it like registry.example.com/team/app:1.0",
	[image.title, image.reference],
) if {
	some image in _checked
	not repository_of(image.reference)
}

_problems contains sprintf(
	"%s has the image %q from %s, which is not an allowed source: use an image from %s",
	[image.title, image.reference, repository, concat(" or ", settings.parameters.image_sources.sources)],
) if {
	some image in _checked
	repository := repository_of(image.reference)
	not _allowed(repository)
}

_problems contains sprintf(
	"%s has the image %q without a digest: write it like registry.example.com/team/app@sha256:DIGEST",
	[image.title, image.reference],
) if {
	settings.parameters.image_sources.require_digest
	some image in _checked
	repository_of(image.reference)
	not is_pinned(image.reference)
}

_allowed(repository) if {
	some source in settings.parameters.image_sources.sources
	startswith(concat("", [repository, "/"]), concat("", [source, "/"]))
}

# The images that the request is about, by their paths.
_checked := _images(input.request.object) if input.request.operation == "CREATE"

_checked := _images(input.request.object) if templates.changes

_checked := object.remove(_images(input.request.object), _unchanged) if {
	input.request.operation == "UPDATE"
	pod_specs.is_pod
}

_unchanged contains path if {
	before := _images(input.request.oldObject)
	some path, image in _images(input.request.object)
	before[path].reference == image.reference
}

_images(workload) := {path: image |
	spec := pod_specs.of(workload)
	some [path, title, reference] in array.concat(_of_containers(spec), _of_volumes(spec))
	image := {"title": title, "reference": reference}
}

_of_containers(spec) := [[entry.path, entry.title, object.get(entry.container, "image", "")] |
	some entry in pod_specs.containers(spec)
]

_of_volumes(spec) := [[path, title, object.get(volume.image, "reference", "")] |
	some index, volume in spec.volumes
	path := sprintf("volumes[%d]", [index])
	title := sprintf("volume %q", [volume.name])
]
