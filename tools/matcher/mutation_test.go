package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// mutation is a MutatingAdmissionPolicy for pods and its binding, by the expression of its JSONPatch.
func mutation(name, expression, more string) []string {
	return mutatingPolicy(name, `{"patchType": "JSONPatch", "jsonPatch": {"expression": "`+expression+`"}}`, more)
}

func mutatingPolicy(name, mutation, more string) []string {
	if !strings.Contains(more, "matchConstraints") {
		more += `, "matchConstraints": ` + everyPod
	}
	return []string{
		policyObject("MutatingAdmissionPolicy", name, `"reinvocationPolicy": "IfNeeded", "mutations": [`+mutation+`]`+more),
		policyObject("MutatingAdmissionPolicyBinding", name+"-bound", `"policyName": "`+name+`"`),
	}
}

func label(key, value string) string {
	return `[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('` + key + `'), value: '` + value + `'}]`
}

// labelsOf are the labels of the object after mutations; nil if nothing changed.
func labelsOf(t *testing.T, got decision) map[string]string {
	t.Helper()
	if !got.Allowed || got.Object == nil {
		return nil
	}
	var after struct {
		Metadata struct{ Labels map[string]string }
	}
	if err := json.Unmarshal(got.Object, &after); err != nil {
		t.Fatal(err)
	}
	return after.Metadata.Labels
}

func TestAJSONPatchChangesTheObjectThatIsValidated(t *testing.T) {
	adds := mutation("m", label("x.io/a", "b"), "")
	checks := bound("p", validations("object.metadata.labels[?'x.io/a'].orValue('') == 'b'"), "")
	got := decided(t, pod("mapped", "CREATE", plain), checks, adds)
	if want := map[string]string{"app": "web", "x.io/a": "b"}; !reflect.DeepEqual(labelsOf(t, got), want) {
		t.Errorf("got %+v", got)
	}
	if got := decided(t, pod("mapped", "CREATE", plain), checks); got.Allowed {
		t.Errorf("without the mutation: got %+v", got)
	}
	unchanged := decided(t, pod("mapped", "CREATE", plain), mutation("m", label("app", "web"), ""))
	if !unchanged.Allowed || unchanged.Object != nil {
		t.Errorf("the same value: got %+v", unchanged)
	}
	refused := decided(t, pod("mapped", "CREATE", plain), adds, bound("p", validations("false"), ""))
	if refused.Allowed || refused.Object != nil {
		t.Errorf("got %+v", refused)
	}
}

func TestTheRestOfTheObjectStaysAsItWas(t *testing.T) {
	future := strings.ReplaceAll(plain, `"nodeName"`, `"notYetKnown": {"a": 1.5}, "nodeName"`)
	got := decided(t, pod("mapped", "CREATE", future), mutation("m", label("a", "b"), ""))
	if want := `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b","app":"web"},"name":"p"},"spec":{"notYetKnown":{"a":1.5},"nodeName":"n"}}`; !equal(t, got.Object, want) {
		t.Errorf("got %s", got.Object)
	}
	of := `"operation": "UPDATE", "namespace": "mapped", "kind": {"group": "x.io", "version": "v1", "kind": "Widget"}, "resource": {"group": "x.io", "version": "v1", "resource": "widgets"}, `
	widget := `{"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {}}, "size": 9007199254740993}`
	for version := range map[string]bool{"v1": true, "v2": true} {
		rules := `, "matchConstraints": {"resourceRules": [{"apiGroups": ["x.io"], "apiVersions": ["` + version + `"], "operations": ["*"], "resources": ["widgets"]}]}`
		got = decided(t, of+`"object": `+widget+`, "oldObject": `+widget, mutation("m", label("a", "b"), rules))
		if want := strings.ReplaceAll(widget, "{}", `{"a": "b"}`); !equal(t, got.Object, want) {
			t.Errorf("a custom resource in %s: got %+v", version, got)
		}
	}
}

func TestItemsOfListsStayAsTheyWere(t *testing.T) {
	containers := `[{"name": "a", "resources": {}, "later": 1}, {"name": "b", "env": [{"name": "x", "value": "1"}]}]`
	request := pod("mapped", "CREATE", strings.ReplaceAll(plain, `"nodeName"`, `"containers": `+containers+`, "nodeName"`))
	first := `{"name": "new", "image": "i"}`
	for patch, want := range map[string]string{
		`op: 'add', path: '/spec/containers/0', value: {'name': 'new', 'image': 'i'}`: `[` + first + `, ` + containers[1:],
		`op: 'add', path: '/spec/containers/-', value: {'name': 'new', 'image': 'i'}`: containers[:len(containers)-1] + `, ` + first + `]`,
		`op: 'remove', path: '/spec/containers/1'`:                                    `[{"name": "a", "resources": {}, "later": 1}]`,
		`op: 'replace', path: '/spec/containers/1/env/0/value', value: '2'`:           strings.ReplaceAll(containers, `"1"`, `"2"`),
		`op: 'add', path: '/spec/containers/0/image', value: 'i'`:                     strings.ReplaceAll(containers, `"a",`, `"a", "image": "i",`),
	} {
		once := mutation("m", `[JSONPatch{`+patch+`}]`, "")
		once[0] = strings.ReplaceAll(once[0], "IfNeeded", "Never")
		got := decided(t, request, once)
		var after struct {
			Spec struct{ Containers json.RawMessage }
		}
		if err := json.Unmarshal(got.Object, &after); err != nil || !equal(t, after.Spec.Containers, want) {
			t.Errorf("%s: got %+v %s", patch, got, got.Object)
		}
	}
}

func TestLargeListsTakeNoLongerThanTheirLength(t *testing.T) {
	var before, after []any
	for i := range 100_000 {
		item := func(value int) any { return map[string]any{"name": fmt.Sprint(i), "value": value} }
		before, after = append(before, item(0)), append(after, item(1))
	}
	after = append(after, before[0])
	want := append(slices.Clone(after[:100_000]), map[string]any{"name": "0", "value": 0})
	if got := carry(before, before, after); !reflect.DeepEqual(got, any(want)) {
		t.Error("the list is not as it should be")
	}
}

// equal says whether two objects are the same, to the digit.
func equal(t *testing.T, got []byte, want string) bool {
	t.Helper()
	var values [2]any
	for i, text := range []string{string(got), want} {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&values[i]); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

func TestApplyConfigurationMergesByTheSchema(t *testing.T) {
	apply := func(expression string) []string {
		return mutatingPolicy("m", `{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "`+expression+`"}}`, "")
	}
	two := strings.ReplaceAll(plain, `"nodeName"`, `"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}], "nodeName"`)
	got := decided(t, pod("mapped", "CREATE", two), apply(`Object{spec: Object.spec{containers: [Object.spec.containers{name: 'b', image: 'z'}]}}`))
	var after struct {
		Spec struct {
			Containers []struct{ Name, Image string }
			NodeName   string
		}
	}
	if err := json.Unmarshal(got.Object, &after); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	if after.Spec.NodeName != "n" || len(after.Spec.Containers) != 2 || after.Spec.Containers[0].Image != "x" || after.Spec.Containers[1].Image != "z" {
		t.Errorf("got %s", got.Object)
	}
	got = decided(t, pod("mapped", "CREATE", two), apply(`Object{spec: Object.spec{nodeSelector: Object.spec.nodeSelector{a: 'b'}}}`))
	if got.Allowed || !strings.HasPrefix(got.Message, "policy 'm' with binding 'm-bound' denied request: ") || !strings.Contains(got.Message, "may not mutate atomic") {
		t.Errorf("an atomic map: got %+v", got)
	}
	custom := `"operation": "CREATE", "namespace": "mapped", "kind": {"group": "x.io", "version": "v1", "kind": "Widget"}, "resource": {"version": "v1", "resource": "pods"}, "object": {"apiVersion": "x.io/v1", "kind": "Widget"}`
	if got := decided(t, custom, apply(`Object{spec: Object.spec{size: 1}}`)); !strings.Contains(got.Error, "ApplyConfiguration of Widget") || got.Allowed {
		t.Errorf("a custom resource: got %+v", got)
	}
}

func TestMutationsRunAgainAfterOthers(t *testing.T) {
	// The first by name copies what the second sets.
	first := mutation("a", `has(object.metadata.labels.b) ? `+label("a", "after")+` : []`, "")
	second := mutation("b", label("b", "set"), "")
	request := pod("mapped", "CREATE", plain)
	if got := labelsOf(t, decided(t, request, second, first)); got["a"] != "after" {
		t.Errorf("got %v", got)
	}
	first[0] = strings.ReplaceAll(first[0], "IfNeeded", "Never")
	if got := labelsOf(t, decided(t, request, second, first)); got["b"] != "set" || got["a"] != "" {
		t.Errorf("never: got %v", got)
	}
}

func TestMutationsOfOnePolicySeeEachOther(t *testing.T) {
	two := `{"patchType": "JSONPatch", "jsonPatch": {"expression": "` + label("a", "1") + `"}},
		{"patchType": "JSONPatch", "jsonPatch": {"expression": "object.metadata.labels.a == '1' && variables.ready ? ` + label("b", "2") + ` : []"}}`
	got := decided(t, pod("mapped", "CREATE", plain), mutatingPolicy("m", two, `, "variables": [{"name": "ready", "expression": "has(object.metadata.labels.a)"}]`))
	if labels := labelsOf(t, got); labels["a"] != "1" || labels["b"] != "2" {
		t.Errorf("got %+v", got)
	}
}

func TestMutationsThatDoNotApply(t *testing.T) {
	adds := label("a", "b")
	for name, test := range map[string]struct{ request, expression, more string }{
		"a false matchCondition":      {pod("mapped", "CREATE", plain), adds, `, "matchConditions": [{"name": "c", "expression": "object.spec.nodeName == 'other'"}]`},
		"a test that fails":           {pod("mapped", "CREATE", plain), `[JSONPatch{op: 'test', path: '/spec/nodeName', value: 'other'}] + ` + adds, ""},
		"a deletion":                  {pod("mapped", "DELETE", strings.ReplaceAll(plain, `"object"`, `"oldObject"`)), adds, ""},
		"an error that is ignored":    {pod("mapped", "CREATE", plain), `[JSONPatch{op: 'remove', path: '/spec/absent'}]`, `, "failurePolicy": "Ignore"`},
		"a parameter that is missing": {pod("mapped", "CREATE", plain), adds, `, "paramKind": {"apiVersion": "x.io/v1", "kind": "Limit"}, "failurePolicy": "Ignore", "matchConditions": [{"name": "c", "expression": "params.most > 1"}]`},
	} {
		if got := decided(t, test.request, mutation("m", test.expression, test.more)); !got.Allowed || got.Object != nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	for words, expression := range map[string]string{
		"JSON Patch:":           `[JSONPatch{op: 'remove', path: '/spec/absent'}]`,
		"no such key: absent":   label("a", "' + object.spec.absent + '"),
		"strict decoding error": `[JSONPatch{op: 'add', path: '/spec/invented', value: 1}]`,
	} {
		if got := decided(t, pod("mapped", "CREATE", plain), mutation("m", expression, "")); got.Allowed || !strings.Contains(got.Message, words) {
			t.Errorf("%s: got %+v", expression, got)
		}
	}
}

func TestMutationsHaveParameters(t *testing.T) {
	objects := mutation("m", `[JSONPatch{op: 'add', path: '/metadata/labels/most', value: string(params.most)}]`, `, "paramKind": {"apiVersion": "x.io/v1", "kind": "Limit"}`)
	objects[1] = policyObject("MutatingAdmissionPolicyBinding", "m-bound", `"policyName": "m", "paramRef": {"name": "few", "parameterNotFoundAction": "Deny"}`)
	if got := labelsOf(t, decided(t, pod("mapped", "CREATE", plain), objects, []string{limits("few", "1")})); got["most"] != "1" {
		t.Errorf("got %v", got)
	}
	got := decided(t, pod("mapped", "CREATE", plain), objects)
	if got.Allowed || !strings.Contains(got.Message, "no params found") {
		t.Errorf("got %+v", got)
	}
}
