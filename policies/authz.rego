# METADATA
# title: The guard of OPA's API
# description: |
#   Anonymous callers may ask for the decision and for health, by exactly these requests; all else takes the token.
#   OPA holds only SHA-256 digests of the tokens in force, which deployment adds as `token_digests`; two while a token
#   is rotated, so that no valid caller is refused.
# schemas:
#   - input: schema.authorization
package system.authz

# METADATA
# description: Whether the request is let through.
# entrypoint: true
default allow := false

allow if {
	[input.method, input.path] in _anonymous
	input.params == {}
}

# The API server tells a webhook in a query how long it will wait: 1 to 30 s.
allow if {
	[input.method, input.path] == ["POST", [""]]
	object.keys(input.params) == {"timeout"}
	[timeout] := input.params.timeout
	regex.match(`^[0-9]{1,2}s$`, timeout)
}

allow if crypto.sha256(input.identity) in data.system.authz.token_digests

_anonymous := {
	["POST", [""]],
	["GET", ["health"]],
	["GET", ["health", "ready"]],
}
