package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func (r *running) change(t *testing.T, of change) (int, string) {
	t.Helper()
	body, err := json.Marshal(of)
	must(t, err)
	return r.ask(t, "POST", "/v1/fairlead/policies", token, string(body))
}

func (r *running) value(t *testing.T, path string) string {
	t.Helper()
	_, text := r.ask(t, "GET", "/v1/data/"+path, token, "")
	return strings.TrimSpace(text)
}

func TestSeveralPoliciesAreChangedAtOnce(t *testing.T) {
	opa := start(t)
	used := map[string]string{"a": "package a\nx := data.b.f(1)", "b": "package b\nf(x) := x + 1"}
	if code, text := opa.change(t, change{Put: used}); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	if got := opa.value(t, "a/x"); got != `{"result":2}` {
		t.Error(got)
	}
	next := change{Put: map[string]string{"a": "package a\nx := data.c.f(1)", "c": "package c\nf(x) := x + 2"}, Remove: []string{"b", "never"}}
	if code, text := opa.change(t, next); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	if got := opa.value(t, "a/x") + opa.value(t, "b"); got != `{"result":3}{}` {
		t.Error(got)
	}
	// OPA's own API goes on from there.
	opa.put(t, "/v1/policies/d", "package d\nx := data.a.x")
	if got := opa.value(t, "d/x"); got != `{"result":3}` {
		t.Error(got)
	}
}

func TestAChangeThatIsWrongChangesNothing(t *testing.T) {
	opa := start(t)
	opa.put(t, "/v1/data/value", `{"x": 1}`)
	opa.put(t, "/v1/policies/b", "package b\nf(x) := x")
	opa.put(t, "/v1/policies/a", "package a\nx := data.b.f(1)")
	for want, wrong := range map[string]change{
		"undefined function data.b.f":    {Put: map[string]string{"c": "package c"}, Remove: []string{"b"}},
		"rego_parse_error":               {Put: map[string]string{"c": "package c", "b": "package"}},
		"empty module":                   {Put: map[string]string{"c": ""}},
		"var y is unsafe":                {Put: map[string]string{"c": "package c\nx := y"}},
		"conflicting rule for data path": {Put: map[string]string{"c": "package value\nx := 1"}},
	} {
		if code, text := opa.change(t, wrong); code != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", want, code, text)
		}
	}
	if got := opa.value(t, "a/x") + opa.value(t, "c"); got != `{"result":1}{}` {
		t.Error(got)
	}
}

func TestOnlyWhoeverHasTheTokenChangesPolicies(t *testing.T) {
	opa := start(t)
	for _, other := range []string{"", "a-scope"} {
		if code, _ := opa.ask(t, "POST", "/v1/fairlead/policies", other, `{"put": {"a": "package a"}}`); code != 401 {
			t.Errorf("%q: %d", other, code)
		}
	}
	if code, text := opa.ask(t, "POST", "/v1/fairlead/policies", token, `[`); code != 400 {
		t.Errorf("%d %s", code, text)
	}
}
