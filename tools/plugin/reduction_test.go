package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

const pod = `{"group":"","version":"v1","kind":"Pod"}`

// review returns the review of an object, as API servers write it.
func review(kind, operation, object, oldObject string) string {
	return fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"42","kind":%s,`+
		`"namespace":"shop","operation":%q,"userInfo":{"username":"a"},"object":%s,"oldObject":%s}}`,
		kind, operation, object, oldObject)
}

// many returns a list of so many equal values.
func many(value string, count int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(value+",", count), ",") + "]"
}

// podWith returns a pod of a spec and metadata that say more than its name.
func podWith(spec, metadata string) string {
	return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"shop"` + metadata + `},"spec":{` + spec + `}}`
}

func env(count int) string { return `"containers":[{"env":` + many(`{"name":"a"}`, count) + `}]` }

func TestTheNamesOfATooLargeObjectAreLeft(t *testing.T) {
	large := podWith(env(10_001), `,"generateName":"a-","labels":{"x":"y"}`)
	want := `{"apiVersion":"fairlead.dev/v1","kind":"ReducedReview","changes":true,"request":{"uid":"42","kind":` + pod +
		`,"namespace":"shop","operation":"CREATE","userInfo":{"username":"a"},"object":{"kind":"Pod","apiVersion":"v1",` +
		`"metadata":{"name":"a","namespace":"shop","generateName":"a-"}},"oldObject":null}}`
	got := string(reduced([]byte(review(pod, "CREATE", large, "null"))))
	if got != want {
		t.Fatalf("%.500s", got)
	}
	if count := values([]byte(got)); count > surelySmall {
		t.Errorf("%d values", count)
	}
}

func TestOnlyWhatIsTooLargeIsReduced(t *testing.T) {
	daemonSet := `{"group":"apps","version":"v1","kind":"DaemonSet"}`
	job := `{"group":"batch","version":"v1","kind":"Job"}`
	cronJob := `{"group":"batch","version":"v1","kind":"CronJob"}`
	namespace := `{"kind":"Namespace"}`
	template := func(count int) string { return `{"spec":{"template":{"spec":{` + env(count) + `}}}}` }
	inCronJob := func(count int) string { return `{"spec":{"jobTemplate":` + template(count) + `}}` }
	volumes := func(count int) string { return podWith(`"volumes":`+many(`{"name":"v"}`, count), "") }
	owned := func(deep int) string {
		fields := strings.Repeat(`{"f:a":{},"f:b":`, deep) + "{}" + strings.Repeat("}", deep)
		return podWith("", `,"managedFields":[{"fieldsV1":`+fields+`}]`)
	}
	for _, row := range []struct {
		what, kind, object string
		want               bool
	}{
		{"one container, 9,999 entries", pod, podWith(env(9_999), ""), false},
		{"one container, 10,000 entries", pod, podWith(env(10_000), ""), true},
		{"1,000 volumes", pod, volumes(1_000), false},
		{"1,001 volumes", pod, volumes(1_001), true},
		{"a deep list", pod, podWith(`"hostAliases":[{"hostnames":`+many(`"a"`, 10_000)+`}]`, ""), true},
		{"labels", pod, podWith("", `,"labels":{`+strings.TrimSuffix(strings.Repeat(`"a":"b",`, 10_001), ",")+`}`), true},
		{"10,001 in two lists under one key", pod, podWith(`"tolerations":`+many("{}", 5_000)+`,"tolerations":`+many("{}", 5_001), ""), true},
		{"a key with an escape", pod, podWith(`"\u0074olerations":`+many("{}", 10_001), ""), true},
		{"4,999 levels of owned fields", pod, owned(4_999), false},
		{"5,000 levels of owned fields", pod, owned(5_000), true},
		{"fields that no list or map is known of", pod, podWith(`"unknown":`+many("{}", 20_000), ""), false},
		{"null for each list", pod, podWith(`"containers":null,"tolerations":null,"volumes":[null]`, `,"labels":null`), false},
		{"an object that is none", pod, many("{}", 20_000), false},
		{"a text", pod, `"` + strings.Repeat("[{,:", 5_000) + `"`, false},
		{"a DaemonSet's template", daemonSet, template(10_000), true},
		{"a smaller one", daemonSet, template(9_999), false},
		{"a Job's template", job, template(10_000), true},
		{"a CronJob's template", cronJob, inCronJob(10_000), true},
		{"a Namespace's finalizers", namespace, `{"spec":{"finalizers":` + many(`"a"`, 10_001) + `}}`, true},
		{"another kind", `{"kind":"ConfigMap"}`, podWith(env(20_000), ""), false},
		{"no kind", `null`, podWith(env(20_000), ""), false},
		{"a kind that is not text", `{"kind":7}`, podWith(env(20_000), ""), false},
	} {
		for _, text := range []string{
			review(row.kind, "CREATE", row.object, "null"),
			review(row.kind, "UPDATE", "{}", row.object),
		} {
			if got := reduced([]byte(text)) != nil; got != row.want {
				t.Errorf("%s: %v in %.200s", row.what, got, text)
			}
		}
	}
}

func TestAReducedReviewSaysWhetherAnythingChangesThatPoliciesJudge(t *testing.T) {
	large := podWith(env(20_000), `,"labels":{"a":"b"},"finalizers":["x"]`)
	for _, row := range []struct {
		what, operation, object, oldObject string
		want                               bool
	}{
		{"a new object", "CREATE", large, "null", true},
		{"finalizers", "UPDATE", strings.Replace(large, `["x"]`, `[]`, 1), large, false},
		{"the status", "UPDATE", strings.Replace(large, `"spec"`, `"status":{},"spec"`, 1), large, false},
		{"labels", "UPDATE", strings.Replace(large, `"b"`, `"c"`, 1), large, true},
		{"new annotations", "UPDATE", strings.Replace(large, `"labels"`, `"annotations":{},"labels"`, 1), large, true},
		{"the spec, which gets small", "UPDATE", podWith(env(1), `,"labels":{"a":"b"}`), large, true},
		{"a removed object", "DELETE", "null", large, true},
		{"no object", "UPDATE", "null", large, true},
	} {
		var answer struct {
			Changes bool
			Request struct{ Object, OldObject map[string]any }
		}
		text := reduced([]byte(review(pod, row.operation, row.object, row.oldObject)))
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatalf("%s: %v", row.what, err)
		}
		if answer.Changes != row.want {
			t.Errorf("%s: %v", row.what, answer.Changes)
		}
		if answer.Request.Object["spec"] != nil || answer.Request.OldObject["spec"] != nil {
			t.Errorf("%s: %.200s", row.what, text)
		}
	}
}

func TestABodyThatIsNoReviewIsLeftAsItIs(t *testing.T) {
	large := review(pod, "CREATE", podWith(env(20_000), ""), "null")
	for _, body := range []string{
		"", "{", "[]", "null", `"x"`, "7", "{}", `{"request":null}`, `{"request":[]}`, many("{}", 20_000), large[:len(large)-1],
		large + "}", `{"input":` + large + `}`,
	} {
		if text := reduced([]byte(body)); text != nil {
			t.Errorf("%.100s: %.200s", body, text)
		}
	}
}

func TestOPAIsToldOfTheLastRequestOfABody(t *testing.T) {
	small := `"request":{"uid":"1"}`
	large := review(pod, "CREATE", podWith(env(20_000), ""), "null")
	if reduced([]byte(`{`+small+`,`+large[1:])) == nil {
		t.Error("the large one is the last")
	}
	if reduced([]byte(large[:len(large)-1]+`,`+small+`}`)) != nil {
		t.Error("the small one is the last")
	}
}

// FuzzReduced checks that whatever is reduced stays JSON, and that no text brings the scanner down.
func FuzzReduced(f *testing.F) {
	for _, text := range []string{
		review(pod, "UPDATE", podWith(env(2), ""), "null"), `{"a":[1,2.5e3,true,null,"\\\"{"]}`, ` { "a" : [ ] , "b" : { } } `,
		`{"request":{"kind":{"kind":"Pod"},"object":{"spec":{"tolerations":[{},{}]}}}}`, "[[[]]]", `"\u00e4"`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		reduced(text)
		var value any
		if json.Unmarshal(text, &value) != nil {
			return
		}
		reader := &scanner{text: text}
		reader.value()
		if rest := strings.TrimSpace(string(text[reader.at:])); rest != "" {
			t.Fatalf("%q is left", rest)
		}
		copied := selected(text, func(_ string, value []byte) []byte { return value })
		var same any
		if err := json.Unmarshal(copied, &same); err != nil || fmt.Sprint(same) != fmt.Sprint(value) {
			t.Fatalf("%v: %q", err, copied)
		}
		var has size
		has.add(&scanner{text: text}, shape{own: true, all: true})
		if most := values(text); has.values > most {
			t.Fatalf("%d of at most %d values", has.values, most)
		}
	})
}

// TestSizesOfTheFile writes the sizes of the objects in a file of lines `group/Kind object`: test_plugin_sizes.py compares
// them with those that review_limits.py counts.
func TestSizesOfTheFile(t *testing.T) {
	text, err := os.ReadFile(os.Getenv("FAIRLEAD_OBJECTS"))
	if err != nil {
		t.Skip("FAIRLEAD_OBJECTS names no file")
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		kind, object, _ := strings.Cut(line, " ")
		has := sizeOf([]byte(object), limits.Groups[limits.Kinds[kind]])
		fmt.Printf("size %d %d\n", has.values, has.parts)
	}
}
