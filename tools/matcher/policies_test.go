package main

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// everyPod is a matchConstraints for pods and their subresources.
const everyPod = `{"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods", "pods/*"]}]}`

// policyObject is a policy or a binding with its spec.
func policyObject(kind, name, spec string) string {
	return `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "` + kind + `", "metadata": {"name": "` + name + `"}, "spec": {` + spec + `}}`
}

// bound is a ValidatingAdmissionPolicy for pods with further fields, and its binding. With matchConstraints among the fields, it
// is for what these match.
func bound(name, fields, binding string) []string {
	if !strings.Contains(fields, "matchConstraints") {
		fields = `"matchConstraints": ` + everyPod + `, ` + fields
	}
	if !strings.Contains(binding, "validationActions") {
		binding = `"validationActions": ["Deny"]` + binding
	}
	return []string{
		policyObject("ValidatingAdmissionPolicy", name, fields),
		policyObject("ValidatingAdmissionPolicyBinding", name+"-bound", `"policyName": "`+name+`", `+binding),
	}
}

func validations(expression string) string {
	return `"validations": [{"expression": "` + expression + `", "message": "no"}]`
}

// decided is the decision of policies about a request, given as its fields.
func decided(t *testing.T, fields string, objects ...[]string) decision {
	t.Helper()
	var raws []json.RawMessage
	for _, group := range objects {
		for _, each := range group {
			raws = append(raws, json.RawMessage(each))
		}
	}
	review := `{"request": {` + fields + `}}`
	if !json.Valid([]byte(review)) {
		t.Fatalf("the test is wrong: %s", review)
	}
	read, err := readPolicies(raws)
	if err != nil {
		t.Fatal(err)
	}
	got := decide(json.RawMessage(review), nil, read, namespaces)
	if got.Decision == nil {
		t.Fatalf("no decision: %+v", got)
	}
	return *got.Decision
}

func TestARefusalHasTheWordsOfAnAPIServer(t *testing.T) {
	request := pod("mapped", "CREATE", plain)
	allowed := decided(t, request, bound("p", validations("true"), ""))
	if want := (decision{Allowed: true, Warnings: []string{}, Audited: []string{}}); !reflect.DeepEqual(allowed, want) {
		t.Errorf("got %+v", allowed)
	}
	refused := `"validations": [{"expression": "true"}, {"expression": "false", "message": " twice "}, {"expression": "false"}]`
	got := decided(t, request, bound("p", refused, ""))
	if got.Allowed || got.Message != "ValidatingAdmissionPolicy 'p' with binding 'p-bound' denied request: twice" || got.Reason != "Invalid" {
		t.Errorf("got %+v", got)
	}
	got = decided(t, request, bound("p", `"validations": [{"expression": "1 > 2", "reason": "Forbidden"}]`, ""))
	if got.Reason != "Forbidden" || !strings.HasSuffix(got.Message, "denied request: failed expression: 1 > 2") {
		t.Errorf("got %+v", got)
	}
}

func TestMessageExpressions(t *testing.T) {
	for expression, want := range map[string]string{
		`'not ' + object.metadata.name + variables.mark`: "not p!",
		`string(object.spec.absent)`:                     "no",
		`' '`:                                            "no",
		`'two' + '\\n' + 'lines'`:                        "no",
		`string('x'.split('').map(x, dyn('` + strings.Repeat("x", 6000) + `'))[0])`: "no",
	} {
		fields := `"variables": [{"name": "mark", "expression": "'!'"}], "validations": [{"expression": "false", "message": "no", "messageExpression": "` + expression + `"}]`
		if got := decided(t, pod("mapped", "CREATE", plain), bound("p", fields, "")); !strings.HasSuffix(got.Message, "request: "+want) {
			t.Errorf("%s: got %q", expression[:10], got.Message)
		}
	}
}

func TestWhichRequestsAPolicyIsFor(t *testing.T) {
	create := pod("mapped", "CREATE", plain)
	no := validations("false")
	rules := strings.TrimSuffix(strings.TrimPrefix(everyPod, "{"), "}")
	matching := func(more string) string { return `"matchConstraints": {` + rules + more + `}, ` + no }
	for name, test := range map[string]struct {
		request, fields, binding string
		asked                    bool
	}{
		"pods":                               {create, no, "", true},
		"a subresource":                      {pod("mapped", "CREATE", plain+`, "subResource": "resize"`), no, "", true},
		"another resource":                   {strings.ReplaceAll(pod("mapped", "CREATE", ""), "pods", "secrets"), no, "", false},
		"a deletion":                         {pod("mapped", "DELETE", strings.ReplaceAll(plain, `"object"`, `"oldObject"`)), no, "", true},
		"another operation":                  {create, strings.ReplaceAll(matching(""), `"*"]`, `"UPDATE"]`), "", false},
		"an excluded resource":               {create, matching(`, "excludeResourceRules": ` + strings.TrimPrefix(rules, `"resourceRules": `)), "", false},
		"a selected namespace":               {create, matching(`, "namespaceSelector": {"matchLabels": {"pool": "a"}}`), "", true},
		"a namespace by its name":            {create, matching(`, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "mapped"}}`), "", true},
		"another namespace":                  {pod("free", "CREATE", plain), matching(`, "namespaceSelector": {"matchLabels": {"pool": "a"}}`), "", false},
		"a selected object":                  {create, matching(`, "objectSelector": {"matchLabels": {"app": "web"}}`), "", true},
		"another object":                     {create, matching(`, "objectSelector": {"matchLabels": {"app": "db"}}`), "", false},
		"a name":                             {create + `, "name": "p"`, strings.ReplaceAll(matching(""), `["pods", "pods/*"]`, `["pods"], "resourceNames": ["p"]`), "", true},
		"another name":                       {create + `, "name": "q"`, strings.ReplaceAll(matching(""), `["pods", "pods/*"]`, `["pods"], "resourceNames": ["p"]`), "", false},
		"the namespace of a binding":         {create, no, `, "matchResources": {"namespaceSelector": {"matchLabels": {"pool": "a"}}}`, true},
		"another namespace than a binding's": {pod("free", "CREATE", plain), no, `, "matchResources": {"namespaceSelector": {"matchLabels": {"pool": "a"}}}`, false},
		"a matchCondition":                   {create, `"matchConditions": [{"name": "c", "expression": "object.spec.nodeName == 'n'"}], ` + no, "", true},
		"a false matchCondition":             {create, `"matchConditions": [{"name": "c", "expression": "variables.other"}], "variables": [{"name": "other", "expression": "object.spec.nodeName != 'n'"}], ` + no, "", false},
	} {
		if got := decided(t, test.request, bound("p", test.fields, test.binding)); got.Allowed == test.asked || got.Error != "" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestOtherVersionsAreEquivalentUnlessThePolicySaysExact(t *testing.T) {
	request := `"operation": "CREATE", "namespace": "mapped", "kind": {"group": "x.io", "version": "v1", "kind": "Widget"},
		"resource": {"group": "x.io", "version": "v1", "resource": "widgets"}, "object": {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}}`
	for policy, refused := range map[string]bool{``: true, `, "matchPolicy": "Equivalent"`: true, `, "matchPolicy": "Exact"`: false} {
		fields := `"matchConstraints": {"resourceRules": [{"apiGroups": ["x.io"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["widgets"]}]` + policy + `},
			"validations": [{"expression": "object.apiVersion != 'x.io/v2' || request.resource.version != 'v2' || request.requestKind.version != 'v1'"}]`
		if got := decided(t, request, bound("p", fields, "")); got.Allowed == refused {
			t.Errorf("%s: got %+v", policy, got)
		}
	}
}

func TestWhatPoliciesKnow(t *testing.T) {
	user := `, "dryRun": true, "userInfo": {"username": "root", "groups": ["system:masters"]}`
	for _, expression := range []string{
		"namespaceObject.metadata.labels.pool == 'a' && namespaceObject.metadata.name == 'mapped'",
		"request.userInfo.username == 'root' && request.dryRun && request.namespace == 'mapped'",
		"oldObject == null && object.spec.nodeName == 'n'",
		"authorizer.group('').resource('pods').check('create').allowed()",
	} {
		if got := decided(t, pod("mapped", "CREATE", plain+user), bound("p", validations(expression), "")); !got.Allowed {
			t.Errorf("%s: got %+v", expression, got)
		}
	}
}

func TestVariablesAreEvaluatedWhenTheyAreNeeded(t *testing.T) {
	variables := `"variables": [{"name": "bad", "expression": "object.spec.absent"}, {"name": "node", "expression": "object.spec.nodeName"},
		{"name": "there", "expression": "variables.node != ''"}], `
	request := pod("mapped", "CREATE", plain)
	if got := decided(t, request, bound("p", variables+validations("variables.there"), "")); !got.Allowed {
		t.Errorf("got %+v", got)
	}
	if got := decided(t, request, bound("p", variables+validations("variables.bad == 1"), "")); !strings.Contains(got.Message, "no such key: absent") {
		t.Errorf("got %+v", got)
	}
}

func TestErrorsCountByTheFailurePolicy(t *testing.T) {
	costly := `[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, true))))))`
	for expression, words := range map[string]string{
		"object.spec.absent == 1": "no such key: absent",
		"nothing(":                "compilation error",
		costly:                    "cost limit exceeded",
	} {
		for policy, refused := range map[string]bool{``: true, `"failurePolicy": "Fail", `: true, `"failurePolicy": "Ignore", `: false} {
			for _, fields := range []string{validations(expression), `"matchConditions": [{"name": "c", "expression": "` + expression + `"}], ` + validations("true")} {
				got := decided(t, pod("mapped", "CREATE", plain), bound("p", policy+fields, ""))
				if got.Allowed == refused || (refused && !strings.Contains(got.Message, words)) {
					t.Errorf("%s with %s: got %+v", words, policy, got)
				}
			}
		}
	}
}

func TestWarningsAndAuditsAdmitTheRequest(t *testing.T) {
	warning := "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-bound': no"
	for actions, want := range map[string]decision{
		`["Warn"]`:          {Allowed: true, Warnings: []string{warning}, Audited: []string{}},
		`["Audit"]`:         {Allowed: true, Warnings: []string{}, Audited: []string{"no"}},
		`["Warn", "Audit"]`: {Allowed: true, Warnings: []string{warning}, Audited: []string{"no"}},
		`["Deny", "Audit"]`: {Message: "ValidatingAdmissionPolicy 'p' with binding 'p-bound' denied request: no", Reason: "Invalid", Warnings: []string{}, Audited: []string{"no"}},
	} {
		got := decided(t, pod("mapped", "CREATE", plain), bound("p", validations("false"), `"validationActions": `+actions))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v", actions, got)
		}
	}
	two := decided(t, pod("mapped", "CREATE", plain),
		bound("b", validations("false"), `"validationActions": ["Warn", "Audit"]`), bound("a", validations("false"), `"validationActions": ["Warn", "Audit"]`))
	if len(two.Audited) != 2 || len(two.Warnings) != 2 || !strings.Contains(two.Warnings[0], "'a'") {
		t.Errorf("two policies, in the order of their names: got %+v", two)
	}
}

func TestAPolicyWithoutABindingDecidesNothing(t *testing.T) {
	objects := bound("p", validations("false"), "")
	for _, alone := range objects {
		if got := decided(t, pod("mapped", "CREATE", plain), []string{alone}); !got.Allowed {
			t.Errorf("got %+v", got)
		}
	}
}

func TestNobodyIsAskedAboutPoliciesAndRights(t *testing.T) {
	all := bound("p", `"matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}, `+validations("false"), "")
	for resource, allowed := range map[string]bool{
		`"admissionregistration.k8s.io", "version": "v1", "resource": "mutatingadmissionpolicies"`:     true,
		`"authorization.k8s.io", "version": "v1", "resource": "subjectaccessreviews"`:                  true,
		`"admissionregistration.k8s.io", "version": "v1", "resource": "mutatingwebhookconfigurations"`: false,
	} {
		request := `"operation": "CREATE", "kind": {"group": "x", "version": "v1", "kind": "X"}, "resource": {"group": ` + resource + `}`
		if got := decided(t, request, all); got.Allowed != allowed {
			t.Errorf("%s: got %+v", resource, got)
		}
	}
}

func TestWhatOnlyAnAPIServerKnowsIsNoDecision(t *testing.T) {
	asks := bound("p", validations("authorizer.group('').resource('pods').check('create').allowed()"), "")
	selects := bound("p", `"matchConstraints": {"namespaceSelector": {"matchLabels": {"a": "b"}}, `+everyPod[1:]+`, `+validations("true"), "")
	for name, test := range map[string]struct {
		got   decision
		words string
	}{
		"rights":         {decided(t, pod("mapped", "CREATE", plain+`, "userInfo": {"username": "jane"}`), asks), "what the user may do"},
		"a selector":     {decided(t, pod("new", "CREATE", plain), selects), `the namespace "new"`},
		"its own object": {decided(t, pod("new", "CREATE", plain), bound("p", validations("true"), "")), `the namespace "new"`},
	} {
		if test.got.Allowed || !strings.Contains(test.got.Error, test.words) || test.got.Message != "" {
			t.Errorf("%s: got %+v", name, test.got)
		}
	}
}

func TestPoliciesThatCannotBeReadAreNamed(t *testing.T) {
	policy := bound("p", validations("true"), "")[0]
	for words, objects := range map[string][]string{
		"ValidatingAdmissionPolicy p: it is given twice": {policy, policy},
		"it has no name": {`{"apiVersion": "v1", "kind": "ConfigMap"}`},
		"MutatingAdmissionPolicy m: mutations[0] has no expression": {policyObject("MutatingAdmissionPolicy", "m", `"mutations": [{"patchType": "JSONPatch"}]`)},
		"one of the policies cannot be read":                        {`{"metadata": {"name": "p"}}`},
	} {
		var raws []json.RawMessage
		for _, each := range objects {
			raws = append(raws, json.RawMessage(each))
		}
		if _, err := readPolicies(raws); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v", err)
		}
	}
}

func TestOneRunDecidesAll(t *testing.T) {
	var out strings.Builder
	question := `{"namespaces": {"mapped": {}}, "policies": [` + strings.Join(bound("p", validations("object.metadata.name != 'p'"), ""), ",") + `], "reviews": [
		{"request": {` + pod("mapped", "CREATE", plain) + `}}, {"request": {` + pod("mapped", "CREATE", strings.ReplaceAll(plain, `"p"`, `"q"`)) + `}}, {"request": {}}]}`
	if err := run(strings.NewReader(question), &out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Answers []struct{ Decision *decision }
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Answers) != 3 || got.Answers[0].Decision.Allowed || !got.Answers[1].Decision.Allowed || got.Answers[2].Decision != nil {
		t.Errorf("got %s", out.String())
	}
}

// panicking is a policy that a library fails on.
type panicking struct{ validating.Validator }

func (panicking) Validate(
	context.Context, schema.GroupVersionResource, *admission.VersionedAttributes, runtime.Object, *corev1.Namespace, int64, authorizer.UnconditionalAuthorizer,
) validating.ValidateResult {
	panic("oops")
}

func TestAPanicEndsOneRequest(t *testing.T) {
	read, err := readPolicies([]json.RawMessage{json.RawMessage(bound("p", validations("true"), "")[0]), json.RawMessage(bound("p", validations("true"), "")[1])})
	if err != nil {
		t.Fatal(err)
	}
	read.validating[0].Evaluator = panicking{}
	got := decide(json.RawMessage(`{"request": {`+pod("mapped", "CREATE", plain)+`}}`), nil, read, namespaces)
	if got.Decision.Allowed || got.Decision.Error != "the policies cannot be evaluated: oops" {
		t.Errorf("got %+v", got.Decision)
	}
}
