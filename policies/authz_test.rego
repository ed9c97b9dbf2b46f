package system.authz_test

import data.system.authz

_request(method, path) := {"method": method, "path": path, "params": {}, "headers": {}}

_digests := {crypto.sha256("old"), crypto.sha256("new")}

_as(identity) := object.union(_request("PUT", ["v1", "policies", "x"]), {"identity": identity})

test_anonymous_callers_may_ask_for_the_decision_and_for_health if {
	every request in [
		_request("POST", [""]),
		_request("GET", ["health"]),
		_request("GET", ["health", "ready"]),
	] {
		authz.allow with input as request with authz.token_digests as _digests
	}
}

test_anonymous_callers_may_do_nothing_else if {
	every request in [
		_request("GET", [""]),
		_request("PUT", [""]),
		_request("POST", ["", ""]),
		_request("POST", ["health"]),
		_request("HEAD", ["health"]),
		_request("GET", ["health", ""]),
		_request("GET", ["health", "live"]),
		_request("GET", ["Health"]),
		_request("GET", ["metrics"]),
		_request("GET", ["v1", "data"]),
		_request("POST", ["v1", "data", "system", "main"]),
		_request("POST", ["v0", "data"]),
		_request("PUT", ["v1", "policies", "x"]),
		_request("POST", ["v1", "query"]),
		_request("POST", ["v1", "compile"]),
		_request("GET", ["v1", "config"]),
	] {
		not authz.allow with input as request with authz.token_digests as _digests
	}
}

_asked(query) := object.union(_request("POST", [""]), {"params": query})

test_api_servers_may_say_how_long_they_wait if {
	every timeout in ["1s", "30s"] {
		authz.allow with input as _asked({"timeout": [timeout]}) with authz.token_digests as _digests
	}
}

test_the_decision_takes_no_other_query if {
	every query in [
		{"timeout": ["100s"]},
		{"timeout": ["s"]},
		{"timeout": ["5s", "5s"]},
		{"timeout": []},
		{"timeout": ["5s&explain=full"]},
		{"timeout": ["5s"], "pretty": ["true"]},
	] {
		not authz.allow with input as _asked(query) with authz.token_digests as _digests
	}
}

test_health_takes_no_timeout if {
	health := object.union(_request("GET", ["health"]), {"params": {"timeout": ["5s"]}})
	not authz.allow with input as health with authz.token_digests as _digests
}

test_a_query_makes_any_request_need_the_token if {
	every request in [_request("POST", [""]), _request("GET", ["health"]), _request("GET", ["health", "ready"])] {
		not authz.allow with input as object.union(request, {"params": {"explain": ["full"]}})
			with authz.token_digests as _digests
	}
}

test_each_valid_token_may_do_everything if {
	every token in ["old", "new"] {
		authz.allow with input as _as(token) with authz.token_digests as _digests
	}
}

test_other_tokens_may_do_nothing if {
	every token in ["", "ol", "oldnew", "OLD", crypto.sha256("old")] {
		not authz.allow with input as _as(token) with authz.token_digests as _digests
	}
}

test_without_digests_no_token_is_valid if {
	not authz.allow with input as _as("old")
}

_placement := ["POST", ["v1", "data", "k8s", "placement"]]

_scoped := {crypto.sha256("places"): [_placement], crypto.sha256("syncs"): [["POST", ["v0", "data", "controller"]]]}

_with_scope(identity, method, path) := object.union(_request(method, path), {"identity": identity})

test_a_scoped_token_opens_the_requests_of_its_scope if {
	every identity, path in {"places": ["v1", "data", "k8s", "placement"], "syncs": ["v0", "data", "controller"]} {
		authz.allow with input as _with_scope(identity, "POST", path)
			with authz.token_digests as _digests
			with authz.scoped_requests as _scoped
	}
}

test_a_scoped_token_opens_nothing_else if {
	every request in [
		["GET", ["v1", "data", "k8s", "placement"]],
		["PUT", ["v1", "data", "k8s", "placement"]],
		["PATCH", ["v1", "data", "k8s", "placement"]],
		["DELETE", ["v1", "data", "k8s", "placement"]],
		["POST", ["v0", "data", "k8s", "placement"]],
		["POST", ["v0", "data", "controller"]],
		["POST", ["v1", "data", "k8s"]],
		["POST", ["v1", "data", "k8s/placement"]],
		["POST", ["v1", "data", "k8s", "placement", ""]],
		["POST", ["v1", "data", "k8s", "placement", "errors"]],
		["POST", ["v1", "data", "", "k8s", "placement"]],
		["POST", ["v1", "data", "K8s", "placement"]],
		["POST", ["v1", "data"]],
		["POST", ["v1", "query"]],
		["POST", ["v1", "compile", "k8s", "placement"]],
		["GET", ["v1", "policies"]],
		["PUT", ["v1", "policies", "x"]],
		["GET", [""]],
	] {
		[method, path] := request
		not authz.allow with input as _with_scope("places", method, path)
			with authz.token_digests as _digests
			with authz.scoped_requests as _scoped
	}
}

test_a_scoped_token_allows_no_query if {
	asked := object.union(_with_scope("places", "POST", ["v1", "data", "k8s", "placement"]), {"params": {"explain": ["full"]}})
	not authz.allow with input as asked with authz.scoped_requests as _scoped
}

test_a_scoped_token_does_what_everyone_may if {
	every request in [["POST", [""]], ["GET", ["health"]]] {
		[method, path] := request
		authz.allow with input as _with_scope("places", method, path) with authz.scoped_requests as _scoped
	}
}

test_other_tokens_open_no_scope if {
	every token in ["", "place", "placesx", "PLACES", crypto.sha256("places")] {
		not authz.allow with input as _with_scope(token, "POST", ["v1", "data", "k8s", "placement"])
			with authz.token_digests as _digests
			with authz.scoped_requests as _scoped
	}
	not authz.allow with input as _request("POST", ["v1", "data", "k8s", "placement"])
		with authz.scoped_requests as _scoped
}
