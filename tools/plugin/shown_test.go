package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/util"
)

// read returns the value of a JSON text, as OPA reads it.
func read(t *testing.T, text string) any {
	t.Helper()
	var value any
	must(t, util.UnmarshalJSON([]byte(text), &value))
	return value
}

// wants compares a value with that of a JSON text.
func wants(t *testing.T, what string, got any, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	must(t, err)
	if !reflect.DeepEqual(read(t, string(text)), read(t, want)) {
		t.Errorf("%s:\n%.600s\nnot\n%.600s", what, text, want)
	}
}

// "secret" stands in every place that can hold a secret and that policies do not decide by.
const (
	containers = `[{"name": "secret", "image": "secret", "command": ["secret"], "args": ["--password=secret"],
		"env": [{"name": "PASSWORD", "value": "secret"}], "envFrom": [{"secretRef": {"name": "secret"}}],
		"livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "secret"}]}}}]`
	placement = `"nodeName": "node", "nodeSelector": {"agentpool": "pool1"}, "tolerations": [{"operator": "Exists"}],
		"schedulingGates": [{"name": "example.com/quota"}]`
	podSpec = `{` + placement + `, "containers": ` + containers + `, "initContainers": ` + containers + `,
		"ephemeralContainers": ` + containers + `, "volumes": [{"csi": {"volumeAttributes": {"key": "secret"}}}]}`
	whole = `{"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "web", "labels": {"app": "web"},
		"annotations": {"last-applied": "secret", "kubernetes.io/config.mirror": "hash"}, "managedFields": ["secret"]},
		"data": {"password": "secret"}, "stringData": {"password": "secret"}, "status": "secret", "spec": %s}`
	shownWhole = `{"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "web", "labels": {"app": "web"},
		"annotations": {"kubernetes.io/config.mirror": "hash"}}, "spec": %s}`
	requestFields = `"uid": "42", "kind": {"group": "", "version": "v1", "kind": "Pod"%s},
		"resource": {"group": "", "version": "v1", "resource": "pods"}, "operation": "UPDATE",
		"namespace": "payments", "name": "web", "dryRun": false`
)

// reviewOf is a review of these objects, and shownOf what is shown of it.
func reviewOf(object, old string) string {
	return `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "secret": "secret", "request": {` +
		fmt.Sprintf(requestFields, `, "secret": "secret"`) + `, "options": {"secret": "secret"}, "userInfo": {"username": "jane",
		"groups": ["dev"], "uid": "secret", "extra": {"token": ["secret"]}}, "object": ` + object + `, "oldObject": ` + old + `}}`
}

func shownOf(object, old string) string {
	return `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {` + fmt.Sprintf(requestFields, "") +
		`, "userInfo": {"username": "jane", "groups": ["dev"]}, "object": ` + object + `, "oldObject": ` + old + `}}`
}

func TestOnlyThePlacementOfAnObjectIsShown(t *testing.T) {
	template := `{"metadata": {"annotations": {"a": "secret", "fairlead.dev/assigned": "{}"}}, "spec": ` + podSpec + `}`
	shownTemplate := `{"metadata": {"annotations": {"fairlead.dev/assigned": "{}"}}, "spec": {` + placement + `}}`
	unnoted := `{"metadata": {"labels": {"a": "secret"}}, "spec": ` + podSpec + `}`
	for spec, shown := range map[string]string{
		podSpec: `{` + placement + `}`,
		`{"replicas": 2, "template": ` + template + `}`:                              `{"template": ` + shownTemplate + `}`,
		`{"jobTemplate": {"spec": {"parallelism": 2, "template": ` + unnoted + `}}}`: `{"jobTemplate": {"spec": {"template": {"metadata": {}, "spec": {` + placement + `}}}}}`,
	} {
		given, want := fmt.Sprintf(whole, spec), fmt.Sprintf(shownWhole, shown)
		wants(t, spec, shownReview(read(t, reviewOf(given, given))), shownOf(want, want))
		wants(t, spec, shownReview(read(t, reviewOf(given, "null"))), shownOf(want, "null"))
	}
}

func TestAValueOfTheWrongTypeIsNotShown(t *testing.T) {
	for given, shown := range map[string]string{
		`"secret"`:                              `null`,
		`["secret"]`:                            `null`,
		`{"metadata": "secret", "spec": "s"}`:   `{"metadata": null, "spec": null}`,
		`{"metadata": {"annotations": "s"}}`:    `{"metadata": {"annotations": null}, "spec": null}`,
		`{"spec": {"template": "secret"}}`:      `{"metadata": null, "spec": {"template": null}}`,
		`{"spec": {"template": {"spec": "s"}}}`: `{"metadata": null, "spec": {"template": {"spec": null}}}`,
		`{"spec": {"nodeName": ["s"], "tolerations": [{"tolerationSeconds": ` + strings.Repeat("1", 300) + `}]}}`: `{"metadata": null, "spec": {"tolerations": [{}]}}`,
	} {
		wants(t, given, shownReview(read(t, reviewOf(given, "null"))), shownOf(shown, "null"))
	}
	for _, wrong := range []string{`"secret"`, `5`, `true`, `null`, `[["secret"]]`, `{"a": ["secret"]}`} {
		shown := shownObject(read(t, `{"metadata": {"labels": `+wrong+`, "ownerReferences": `+wrong+`}, "spec": {"nodeSelector": `+wrong+
			`, "tolerations": `+wrong+`, "schedulingGates": `+wrong+`}}`))
		if text, _ := json.Marshal(shown); strings.Contains(string(text), "secret") {
			t.Errorf("%s: %s", wrong, text)
		}
	}
	for user, shown := range map[string]string{`"secret"`: `null`, `{"groups": "secret"}`: `{}`} {
		wants(t, user, shownUser(read(t, user)), shown)
	}
}

func TestNothingIsShownOfWhatIsNoReview(t *testing.T) {
	review := read(t, reviewOf("null", "null")).(object)
	unasked := maps.Clone(review)
	delete(unasked, "request")
	for _, other := range []any{
		nil, "secret", []any{"secret"}, object{"request": object{"uid": "secret"}}, unasked, with(review, "request", "secret"),
		with(review, "kind", "secret"), with(review, "apiVersion", "secret"), with(review, "kind", object{"a": "b"}),
	} {
		wants(t, fmt.Sprint(other), shownReview(other), `{}`)
	}
	reduced := `{"apiVersion": "fairlead.dev/v1", "kind": "ReducedReview", "request": {"uid": "7"}}`
	wants(t, reduced, shownReview(read(t, reduced)), `{"apiVersion": "fairlead.dev/v1", "kind": "ReducedReview", "request":
		{"uid": "7", "kind": {}, "resource": {}, "userInfo": null, "object": null, "oldObject": null}}`)
}

func TestLongValuesAreCutAndFurtherOnesCounted(t *testing.T) {
	long, cutText := strings.Repeat("ü", 300), strings.Repeat("ü", 256)+"..."
	numbered := func(count int) string {
		pairs := object{}
		for number := range count {
			pairs[fmt.Sprintf("key-%d", number)] = "value"
		}
		text, _ := json.Marshal(pairs)
		return string(text)
	}
	several := func(text string, count int) string { return "[" + strings.Repeat(text+",", count-1) + text + "]" }
	for given, shown := range map[string]string{
		`{"name": "` + long + `"}`:                               `{"name": "` + cutText + `", "annotations": null}`,
		`{"labels": ` + numbered(32) + `}`:                       `{"labels": ` + numbered(32) + `, "annotations": null}`,
		`{"labels": ` + numbered(33) + `}`:                       `{"labels": {}, "labelsLeftOut": 33, "annotations": null}`,
		`{"labels": {"a": "` + long + `", "` + long + `": "b"}}`: `{"labels": {"a": "` + cutText + `"}, "labelsLeftOut": 1, "annotations": null}`,
		`{"ownerReferences": ` + several(`{"name": "web", "controller": true, "secret": "secret"}`, 40) + `}`: `{"ownerReferences": ` +
			several(`{"name": "web", "controller": true}`, 32) + `, "ownerReferencesLeftOut": 8, "annotations": null}`,
	} {
		wants(t, given, shownMetadata(read(t, given)), shown)
	}
	user := `{"username": "` + long + `", "groups": ["a", "` + long + `", ["secret"], 5]}`
	wants(t, user, shownUser(read(t, user)), `{"username": "`+cutText+`", "groups": ["a", "`+cutText+`", 5], "groupsLeftOut": 1}`)
}

func TestObjectsAreLeftOutIfTheirSmallValuesAreTooMany(t *testing.T) {
	selector := object{}
	for number := range mostEntries {
		selector[fmt.Sprintf("%s%d", strings.Repeat("k", 250), number)] = strings.Repeat("v", 300)
	}
	text, _ := json.Marshal(object{"spec": object{"nodeSelector": selector}})
	wants(t, "huge", shownReview(read(t, reviewOf(string(text), string(text)))), shownOf(`"left out"`, `"left out"`))
}

func TestALongPatchIsNotShown(t *testing.T) {
	short := read(t, `{"response": {"uid": "1", "patch": "x"}}`)
	wants(t, "short", shownAnswer(short), `{"response": {"uid": "1", "patch": "x"}}`)
	long := object{"response": object{"uid": "1", "patch": strings.Repeat("x", 9000)}}
	wants(t, "long", shownAnswer(long), `{"response": {"uid": "1", "patch": "9000 characters, left out"}}`)
	if len(long["response"].(object)["patch"].(string)) != 9000 {
		t.Error("the answer itself was changed")
	}
	wants(t, "none", shownAnswer(nil), `null`)
}
