package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// pods is a webhook for pods in labelled namespaces.
const pods = `{"name": "pods", "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"], "scope": "Namespaced"}],
 "namespaceSelector": {"matchExpressions": [{"key": "pool", "operator": "Exists"}, {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]}`

var namespaces = map[string]map[string]string{"mapped": {"pool": "a"}, "free": {}, "kube-system": {"pool": "a"}}

// asked is the answer to one request, given as its fields.
func asked(t *testing.T, webhook string, fields string) answer {
	t.Helper()
	configuration := `{"metadata": {"name": "c"}, "webhooks": [` + webhook + `]}`
	review := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {` + fields + `}}`
	for _, text := range []string{configuration, review} {
		if !json.Valid([]byte(text)) {
			t.Fatalf("the test is wrong: %s", text)
		}
	}
	webhooks, err := readWebhooks([]json.RawMessage{json.RawMessage(configuration)})
	if err != nil {
		t.Fatal(err)
	}
	return decide(json.RawMessage(review), webhooks, nil, namespaces)
}

func of(t *testing.T, webhook string, fields string) verdict {
	t.Helper()
	got := asked(t, webhook, fields)
	if len(got.Webhooks) != 1 {
		t.Fatalf("no verdict: %+v", got)
	}
	return got.Webhooks[0]
}

func pod(namespace, operation, more string) string {
	kind := `"kind": {"version": "v1", "kind": "Pod"}, "resource": {"version": "v1", "resource": "pods"}`
	return kind + `, "operation": "` + operation + `", "namespace": "` + namespace + `"` + more
}

const plain = `, "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {"nodeName": "n"}}`

func TestWhatAWebhookIsFor(t *testing.T) {
	for name, test := range map[string]struct{ fields, by string }{
		"all holds":               {pod("mapped", "CREATE", plain), ""},
		"another operation":       {pod("mapped", "DELETE", ""), byOperation},
		"a subresource":           {pod("mapped", "CREATE", `, "subResource": "eviction"`), byResource},
		"no label":                {pod("free", "CREATE", plain), byNamespaceSelector},
		"an exempt namespace":     {pod("kube-system", "CREATE", plain), byNamespaceSelector},
		"a namespace nobody told": {pod("new", "CREATE", plain), ""},
		"no namespaced object":    {pod("", "CREATE", plain), byResource},
		"another resource":        {strings.ReplaceAll(pod("mapped", "CREATE", ""), "pods", "secrets"), byResource},
		"another group":           {strings.ReplaceAll(pod("mapped", "CREATE", ""), `"version"`, `"group": "x.io", "version"`), byResource},
	} {
		got := of(t, pods+"}", test.fields)
		if got.By != test.by || got.Called != (test.by == "") {
			t.Errorf("%s: got %+v, want by %q", name, got, test.by)
		}
	}
}

func TestNobodyIsAskedAboutWebhooks(t *testing.T) {
	all := `{"name": "all", "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]}`
	for group, called := range map[string]bool{"admissionregistration.k8s.io": false, "x.io": true} {
		got := of(t, all, `"operation": "CREATE", "kind": {"group": "`+group+`", "version": "v1", "kind": "MutatingWebhookConfiguration"},
			"resource": {"group": "`+group+`", "version": "v1", "resource": "mutatingwebhookconfigurations"}`)
		if got.Called != called {
			t.Errorf("%s: got %+v", group, got)
		}
	}
}

func TestTheRequirementsThatDoNotHoldAreNamed(t *testing.T) {
	name := "kube-system"
	want := []requirement{{Key: "kubernetes.io/metadata.name", Operator: "notin", Values: []string{"kube-system"}, Actual: &name}}
	if got := of(t, pods+"}", pod("kube-system", "CREATE", plain)).Requirements; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	got := of(t, pods+`, "objectSelector": {"matchLabels": {"app": "db"}}}`, pod("mapped", "CREATE", plain))
	if got.By != byObjectSelector || got.Requirements[0].Key != "app" || *got.Requirements[0].Actual != "web" {
		t.Errorf("got %+v", got)
	}
}

func TestTheOldObjectMayMatchTheObjectSelector(t *testing.T) {
	webhook := pods + `, "objectSelector": {"matchLabels": {"app": "web"}}}`
	without := strings.ReplaceAll(plain, "web", "other")
	for fields, called := range map[string]bool{
		without: false, plain: true,
		without + strings.ReplaceAll(plain, `"object"`, `"oldObject"`):   true,
		without + strings.ReplaceAll(without, `"object"`, `"oldObject"`): false,
	} {
		if got := of(t, webhook, pod("mapped", "UPDATE", fields)); got.Called != called {
			t.Errorf("%s: got %+v", fields, got)
		}
	}
}

func TestOtherVersionsAreEquivalentUnlessTheWebhookSaysExact(t *testing.T) {
	webhook := `{"name": "w", "rules": [{"apiGroups": ["x.io"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["widgets"]}],
		"matchConditions": [{"name": "version", "expression": "object.apiVersion == 'x.io/v2' && request.resource.version == 'v1' && request.kind.version == 'v2'"}]`
	fields := `"operation": "CREATE", "namespace": "mapped", "kind": {"group": "x.io", "version": "v1", "kind": "Widget"},
		"resource": {"group": "x.io", "version": "v1", "resource": "widgets"}, "object": {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}}`
	for policy, called := range map[string]bool{`}`: true, `, "matchPolicy": "Equivalent"}`: true, `, "matchPolicy": "Exact"}`: false} {
		if got := of(t, webhook+policy, fields); got.Called != called {
			t.Errorf("%s: got %+v", policy, got)
		}
	}
	converted := strings.ReplaceAll(fields, "v1", "v2") + `, "requestKind": {"group": "x.io", "version": "v1", "kind": "Widget"}, "requestResource": {"group": "x.io", "version": "v1", "resource": "widgets"}`
	if got := of(t, webhook+`}`, converted); !got.Called {
		t.Errorf("a review of another version: got %+v", got)
	}
	if got := of(t, webhook+`}`, strings.ReplaceAll(fields, "widgets", "gadgets")); got.Called {
		t.Errorf("another resource: got %+v", got)
	}
	events := `{"name": "w", "rules": [{"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["events"]}]}`
	core := `"operation": "DELETE", "namespace": "mapped", "kind": {"version": "v1", "kind": "Event"}, "resource": {"version": "v1", "resource": "events"}`
	if got := of(t, events, core); !got.Called {
		t.Errorf("events: got %+v", got)
	}
}

func TestTheObjectOfASubresourceKeepsItsKind(t *testing.T) {
	webhook := `{"name": "w", "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments/scale"]}],
		"matchConditions": [{"name": "kind", "expression": "object.apiVersion == 'autoscaling/v1' && request.kind.group == 'autoscaling' && request.resource.group == 'apps'"}]}`
	fields := `"operation": "UPDATE", "namespace": "mapped", "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}, "subResource": "scale",
		"resource": {"group": "apps", "version": "v1", "resource": "deployments"}, "object": {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}}`
	if got := of(t, webhook, fields); !got.Called {
		t.Errorf("got %+v", got)
	}
}

func TestMatchConditions(t *testing.T) {
	fails := `"object.spec.priority > 3"`
	for name, test := range map[string]struct {
		expressions     []string
		policy          string
		called, refused bool
		condition       string
	}{
		"all true":                  {[]string{`"true"`, `"object.spec.nodeName == 'n'"`}, "", true, false, ""},
		"one false":                 {[]string{`"true"`, `"false"`}, "", false, false, "c1"},
		"false outweighs errors":    {[]string{fails, `"false"`}, "Fail", false, false, "c1"},
		"an error, by default":      {[]string{fails}, "", false, true, ""},
		"an error, Fail":            {[]string{`"true"`, fails}, "Fail", false, true, ""},
		"an error, Ignore":          {[]string{`"true"`, fails}, "Ignore", false, false, ""},
		"a field of the type":       {[]string{`"object.spec.containers == null"`}, "", true, false, ""},
		"a superuser may do all":    {[]string{`"authorizer.group('').resource('pods').check('create').allowed()"`}, "", true, false, ""},
		"the user is known":         {[]string{`"request.userInfo.username == 'root' && request.dryRun"`}, "", true, false, ""},
		"the options are known":     {[]string{`"request.options.fieldManager == 'me'"`}, "", true, false, ""},
		"no old object":             {[]string{`"oldObject == null"`}, "", true, false, ""},
		"webhooks get no namespace": {[]string{`"namespaceObject != null"`}, "", false, false, "c0"},
	} {
		var conditions []string
		for i, expression := range test.expressions {
			conditions = append(conditions, `{"name": "c`+string(rune('0'+i))+`", "expression": `+expression+`}`)
		}
		webhook := pods + `, "matchConditions": [` + strings.Join(conditions, ",") + `]`
		if test.policy != "" {
			webhook += `, "failurePolicy": "` + test.policy + `"`
		}
		user := `, "dryRun": true, "userInfo": {"username": "root", "groups": ["system:masters"]}, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}`
		got := of(t, webhook+"}", pod("mapped", "CREATE", plain+user))
		if got.Called != test.called || got.Refused != test.refused || got.Condition != test.condition {
			t.Errorf("%s: got %+v", name, got)
		}
		failed := !test.called && test.condition == ""
		if failed != strings.Contains(got.Error, "resulted in error: no such key: priority") || failed != strings.HasPrefix(got.Error, "matchCondition c") {
			t.Errorf("%s: got the error %q", name, got.Error)
		}
	}
}

func TestRightsThatOnlyAnAPIServerKnowsCountAsHeld(t *testing.T) {
	webhook := pods + `, "matchConditions": [{"name": "may", "expression": "authorizer.group('').resource('pods').check('create').allowed()"}]}`
	got := of(t, webhook, pod("mapped", "CREATE", plain+`, "userInfo": {"username": "jane"}`))
	if !got.Called || !got.Rights {
		t.Errorf("got %+v", got)
	}
}

func TestANamespaceIsSelectedByTheLabelsThatItWillHave(t *testing.T) {
	webhook := `{"name": "n", "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["namespaces"], "scope": "Cluster"}],
		"namespaceSelector": {"matchLabels": {"pool": "a", "kubernetes.io/metadata.name": "free"}}}`
	fields := `"kind": {"version": "v1", "kind": "Namespace"}, "resource": {"version": "v1", "resource": "namespaces"}, "namespace": "free", "name": "free",
		"object": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "free", "labels": {"pool": "a"}}}, "operation": `
	for operation, called := range map[string]bool{`"UPDATE"`: true, `"DELETE"`: false} {
		if got := of(t, webhook, fields+operation); got.Called != called {
			t.Errorf("%s: got %+v", operation, got)
		}
	}
}

func TestWhatNoAPIServerSendsIsTold(t *testing.T) {
	if got := asked(t, pods+"}", `"kind": "Pod"`); got.Unreadable == "" || got.Webhooks != nil {
		t.Errorf("got %+v", got)
	}
	if got := asked(t, pods+"}", `"uid": "a"`); got.Unreadable == "" {
		t.Errorf("got %+v", got)
	}
	bad := `, "object": {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": "none"}}`
	if got := asked(t, pods+"}", pod("mapped", "CREATE", bad)); !strings.Contains(got.Invalid, "containers") {
		t.Errorf("got %+v", got)
	}
}

func TestAConfigurationThatCannotBeReadIsNamed(t *testing.T) {
	bad := `{"metadata": {"name": "c"}, "webhooks": [{"name": "w", "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}]}`
	if _, err := readWebhooks([]json.RawMessage{json.RawMessage(bad)}); err == nil || !strings.Contains(err.Error(), "webhook w of configuration c: namespaceSelector") {
		t.Errorf("got %v", err)
	}
}

func TestOneRunAnswersAll(t *testing.T) {
	var out strings.Builder
	question := `{"configurations": [{"metadata": {"name": "c"}, "webhooks": [` + pods + `}]}], "namespaces": {"a": {"pool": "x"}, "b": {}}, "reviews": [
		{"request": {` + pod("a", "CREATE", "") + `}}, {"request": {` + pod("b", "CREATE", "") + `}}]}`
	if err := run(strings.NewReader(question), &out); err != nil {
		t.Fatal(err)
	}
	var got struct{ Answers []answer }
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Answers) != 2 || !got.Answers[0].Webhooks[0].Called || got.Answers[1].Webhooks[0].Called {
		t.Errorf("got %s", out.String())
	}
	if err := run(strings.NewReader("{"), &out); err == nil {
		t.Error("half a question has an answer")
	}
}
