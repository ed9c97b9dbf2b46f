# What an image reference names, by the grammar and the defaults of github.com/distribution/reference, which container
# runtimes use: `nginx` is docker.io/library/nginx.
package image_sources

# The full name of the repository, with its registry in lower case: hosts have no case. Undefined for a text that is
# no reference.
repository_of(reference) := concat("/", [lower(parts[1]), parts[2]]) if parts := _parts(reference)

# Whether the reference names one content for ever, by its digest.
is_pinned(reference) if _parts(reference)[3] != ""

# The registry, the path in it, and the digest.
_parts(reference) := regex.find_all_string_submatch_n(_pattern, _full(reference), 1)[0] if {
	is_string(reference)
	not regex.match(_image_id, reference)
}

# A runtime takes these for the ID of an image that is on its node already, from wherever it came.
_image_id := `^(sha256:)?[a-f0-9]{64}$`

_pattern := sprintf(
	`^(%s(?::[0-9]+)?)/(%s(?:/%s)*)(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@%s)?$`,
	[_host, _component, _component, _digest],
)

_host := `(?:[a-zA-Z0-9]+(?:-+[a-zA-Z0-9]+)*(?:\.[a-zA-Z0-9]+(?:-+[a-zA-Z0-9]+)*)*|\[[a-fA-F0-9:]+\])`

_component := `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`

_digest := `(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})`

# The reference with its registry.
_full(reference) := concat("/", ["docker.io", "library", rest]) if {
	rest := _on_docker_hub(reference)
	not contains(rest, "/")
} else := concat("/", ["docker.io", rest]) if {
	rest := _on_docker_hub(reference)
} else := reference

_on_docker_hub(reference) := substring(reference, count(registry), -1) if {
	some registry in ["docker.io/", "index.docker.io/"]
	startswith(reference, registry)
} else := reference if not regex.match(_with_registry, reference)

# The first part is a registry if it cannot be the name of a user on Docker Hub.
_with_registry := `^(localhost|[^/]*[.:A-Z][^/]*)/`
