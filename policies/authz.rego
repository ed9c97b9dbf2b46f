# METADATA
# title: The authz policy of OPA's API
# description: |
#   Anonymous callers may ask for a decision and for health, by the exact requests below. Every other request needs a
#   token. OPA holds only the SHA-256 digests of the valid tokens, which a deployment adds as `token_digests`. During a
#   rotation there are two, so that no valid caller is refused. Tokens of a scope open some requests alone: a deployment
#   adds these, by the digest of the token, as `scoped_requests`.
# schemas:
#   - input: schema.authorization
package system.authz

# METADATA
# description: Whether OPA may answer the request.
# entrypoint: true
default allow := false

allow if {
	[input.method, input.path] in _anonymous
	input.params == {}
}

# API servers add a query to a webhook's URL that says how long they wait: 1 to 30 s.
allow if {
	[input.method, input.path] == ["POST", [""]]
	object.keys(input.params) == {"timeout"}
	[timeout] := input.params.timeout
	regex.match(`^[0-9]{1,2}s$`, timeout)
}

allow if crypto.sha256(input.identity) in data.system.authz.token_digests

allow if {
	[input.method, input.path] in data.system.authz.scoped_requests[crypto.sha256(input.identity)]
	input.params == {}
}

_anonymous := {
	["POST", [""]],
	["GET", ["health"]],
	["GET", ["health", "ready"]],
}
