package image_sources_references_test

import data.image_sources

_digest := "sha256:9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0"

test_references_have_full_names if {
	repositories := {
		"nginx": "docker.io/library/nginx",
		"nginx:1.27": "docker.io/library/nginx",
		concat("", ["nginx:1.27@", _digest]): "docker.io/library/nginx",
		"grafana/grafana": "docker.io/grafana/grafana",
		"docker.io/nginx": "docker.io/library/nginx",
		"docker.io/library/nginx": "docker.io/library/nginx",
		"index.docker.io/nginx:1": "docker.io/library/nginx",
		"index.docker.io/grafana/grafana": "docker.io/grafana/grafana",
		"registry-1.docker.io/grafana/grafana": "registry-1.docker.io/grafana/grafana",
		"localhost/app": "localhost/app",
		"localhost:5000/app:2": "localhost:5000/app",
		"registry:5000/app": "registry:5000/app",
		"10.0.0.7:5000/app": "10.0.0.7:5000/app",
		"[2001:db8::1]:5000/app": "[2001:db8::1]:5000/app",
		"Good.Example.COM/team/app": "good.example.com/team/app",
		"LOCALHOST/app": "localhost/app",
		"foo:5000": "docker.io/library/foo",
		"foo_bar/app": "docker.io/foo_bar/app",
		"good.example.com/a.b/c__d/e---f": "good.example.com/a.b/c__d/e---f",
		"xn--7o8h.com/app": "xn--7o8h.com/app",
		"good.example.com.evil.io/app": "good.example.com.evil.io/app",
	}
	every reference, repository in repositories { image_sources.repository_of(reference) == repository }
}

test_other_texts_are_no_references if {
	texts := {
		"", " ", "nginx ", " nginx", "nginx 1.27", "nginx\n", "Nginx", "team/App", ":1.27", "nginx:", "nginx:-1", "nginx@", "/nginx", "nginx/",
		"good.example.com//app", "good.example.com/", "good.example.com/team/../app", "good.example.com/./app",
		"https://good.example.com/app", "user:password@good.example.com/app", "good.example.com@evil.io/app",
		"good.example.com:port/app", "good_example.com/app", "good.example.com./app", "-good.example.com/app", "good..example.com/app",
		"[::1/app", "goоd.example.com/app", "good.example.com/tеam/app", "good.example.com/team\u200b/app", "nginx?x=1", "nginx#x", `nginx\evil`,
		"nginx@sha256:abc", "nginx@md5:9834876dcfb05cb167a5c24953eba58c", concat("", ["nginx@", upper(_digest)]), concat("@", ["nginx", _digest, _digest]),
		_digest, trim_prefix(_digest, "sha256:"),
	}
	every text in texts { not image_sources.repository_of(text) }
	every value in [null, 1, {}, ["nginx"]] { not image_sources.repository_of(value) }
}

test_a_tag_has_128_characters_at_most if {
	tag := concat("", [_digest, "1234567890123456789012345678901234567890123456789012345678"])
	count(tag) == 129
	image_sources.repository_of(concat(":", ["nginx", replace(substring(tag, 1, -1), ":", "_")]))
	not image_sources.repository_of(concat(":", ["nginx", replace(tag, ":", "_")]))
}

test_a_digest_pins_an_image if {
	image_sources.is_pinned(concat("@", ["nginx", _digest]))
	image_sources.is_pinned(concat("@", ["good.example.com/app:1", _digest]))
	not image_sources.is_pinned("nginx:1.27")
	not image_sources.is_pinned("nginx@sha256:abc")
	not image_sources.is_pinned(_digest)
}
