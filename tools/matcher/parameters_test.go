package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

const ranges = `{"type": "object", "required": ["ranges"], "properties": {"ranges": {"type": "array", "maxItems": 100, "items": {
  "type": "object",
  "properties": {"least": {"type": "integer"}, "most": {"type": "integer", "default": 9}},
  "x-kubernetes-validations": [{
    "rule": "self.least <= self.most", "messageExpression": "'least %d is above most %d'.format([self.least, self.most])"
  }]
}}}}`

// judged is what the program says of one schema and value, each in JSON.
func judged(t *testing.T, schema string, value string) judgement {
	t.Helper()
	var out strings.Builder
	if err := run(strings.NewReader(`{"parameters": [{"schema": `+schema+`, "value": `+value+`}]}`), &out); err != nil {
		t.Fatal(err)
	}
	var got reply
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Parameters) != 1 {
		t.Fatalf("no judgement: %s", out.String())
	}
	return got.Parameters[0]
}

func TestEachRuleThatDoesNotHoldIsNamedWithItsPlace(t *testing.T) {
	got := judged(t, ranges, `{"ranges": [{"least": 1, "most": 2}, {"least": 5, "most": 3}]}`)
	want := []mistake{{Path: "parameters.ranges[1]", Message: "least 5 is above most 3"}}
	if len(got.Schema) > 0 || !reflect.DeepEqual(got.Value, want) {
		t.Errorf("%+v", got)
	}
	if good := judged(t, ranges, `{"ranges": [{"least": 3, "most": 3}]}`); len(good.Schema)+len(good.Value) > 0 {
		t.Errorf("%+v", good)
	}
}

func TestARuleMayBeAboutAllParameters(t *testing.T) {
	schema := `{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
	  "x-kubernetes-validations": [{"rule": "self.a < self.b", "message": "a is not below b"}]}`
	want := []mistake{{Path: "parameters", Message: "a is not below b"}}
	if got := judged(t, schema, `{"a": 2, "b": 2}`); !reflect.DeepEqual(got.Value, want) {
		t.Errorf("%+v", got)
	}
}

func TestASchemaThatNoAPIServerTakesIsNamed(t *testing.T) {
	for schema, part := range map[string]string{
		`{"type": "object", "properties": {"a": {}}}`:                                             "parameters.properties[a].type",
		`{"type": "object", "properties": {"a": {"type": "string", "const": "x"}}}`:               `unknown field "const"`,
		`{"type": "object", "x-kubernetes-validations": [{"rule": "self.nowhere == 1"}]}`:         "undefined field 'nowhere'",
		`{"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}]}}}`:                "parameters.properties[a]",
		`{"type": "object", "properties": {"a": {"type": "integer", "default": "not a number"}}}`: "parameters.properties[a].default",
	} {
		got := judged(t, schema, `null`)
		text := ""
		for _, each := range got.Schema {
			text += each.Path + ": " + each.Message + "\n"
		}
		if !strings.Contains(text, part) {
			t.Errorf("%s: %q does not say %q", schema, text, part)
		}
	}
}

func TestARuleThatMayCostTooMuchIsNamed(t *testing.T) {
	schema := `{"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}},
	  "x-kubernetes-validations": [{"rule": "self.a.all(x, self.a.all(y, x.contains(y)))"}]}`
	got := judged(t, schema, `{"a": []}`)
	if len(got.Schema) == 0 || !strings.Contains(got.Schema[0].Message, "cost") {
		t.Errorf("%+v", got)
	}
}
