package main

// These tests run a whole OPA, whose decisions are written where a console would be.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/logging"
	"github.com/open-policy-agent/opa/v1/runtime"
)

// written are the entries of a decision log.
type written struct {
	logging.NoOpLogger
	lock    sync.Mutex
	entries []map[string]any
	fields  map[string]any
	parent  *written
}

func (w *written) WithFields(fields map[string]any) logging.Logger {
	return &written{fields: fields, parent: w}
}

func (w *written) Info(string, ...any) {
	w.parent.lock.Lock()
	defer w.parent.lock.Unlock()
	w.parent.entries = append(w.parent.entries, w.fields)
}

// until waits for a number of entries, and returns them.
func (w *written) until(t *testing.T, count int) []map[string]any {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		w.lock.Lock()
		entries := w.entries
		w.lock.Unlock()
		if len(entries) >= count {
			return entries
		}
	}
	t.Fatalf("there are not %d entries", count)
	return nil
}

// startLogging runs OPA with its decision logs on the console.
func startLogging(t *testing.T, overrides ...string) (*running, *written) {
	t.Helper()
	console := &written{}
	return start(t, func(params *runtime.Params) {
		params.ConsoleLogger = console
		params.ConfigOverrides = append(params.ConfigOverrides, append(overrides,
			"decision_logs.plugin=fairlead", "plugins.fairlead.decision_logs.console=true")...)
	}), console
}

func TestDecisionsAreLoggedAndTheReadsOfOthersAreNot(t *testing.T) {
	opa, console := startLogging(t)
	if code, _ := opa.ask(t, "POST", "/", "", reviewOf("null", "null")); code != 503 {
		t.Errorf("decided without policies: %d", code)
	}
	opa.put(t, "/v1/policies/main", "package system\nmain := {\"response\": {\"allowed\": true, \"uid\": input.request.uid}}")
	opa.put(t, "/v1/policies/limits", "package teams.limits\ndeny contains input.secret")
	for _, path := range []string{"teams", "teams/limits", "teams/limits/deny", "value"} {
		opa.ask(t, "POST", "/v1/data/"+path, token, `{"input": {"secret": "secret"}}`)
		opa.ask(t, "GET", "/v1/data/"+path, token, "")
	}
	opa.ask(t, "POST", "/", "", reviewOf("null", "null"))
	opa.ask(t, "POST", "/v1/data/system/main", token, `{"input": `+reviewOf("null", "null")+`}`)
	seen := []string{}
	for _, entry := range console.until(t, 3) {
		text, err := json.Marshal([]any{entry["path"], entry["input"], entry["result"]})
		must(t, err)
		if strings.Contains(string(text), "secret") {
			t.Errorf("%s", text)
		}
		seen = append(seen, fmt.Sprintf("%v %v %v", entry["path"], entry["result"], entry["error"] != nil))
		if entry["decision_id"] == "" || entry["requested_by"] == "" {
			t.Errorf("%v", entry)
		}
	}
	slices.Sort(seen) // what the API decided is logged a little later
	admitted := "system/main map[response:map[allowed:true uid:42]] false"
	if !slices.Equal(seen, []string{"system/main <nil> true", admitted, admitted}) {
		t.Errorf("%q", seen)
	}
}

func TestEachDecisionIsLoggedWithTheRevisionOfItsBundle(t *testing.T) {
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, ".manifest"), []byte(`{"revision": "r7", "roots": ["system"]}`), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "authz.rego"), []byte(authz), 0o600))
	policy := "package system\nmain := {\"response\": {\"allowed\": true, \"uid\": input.request.uid}}"
	must(t, os.WriteFile(filepath.Join(folder, "main.rego"), []byte(policy), 0o600))
	console := &written{}
	opa := start(t, func(params *runtime.Params) {
		params.ConsoleLogger = console
		params.BundleMode, params.Paths = true, []string{folder}
		params.ConfigOverrides = append(params.ConfigOverrides, "decision_logs.plugin=fairlead",
			"plugins.fairlead.decision_logs.console=true")
	})
	opa.ask(t, "POST", "/", "", reviewOf("null", "null"))
	opa.ask(t, "POST", "/v1/data/system/main", token, `{"input": `+reviewOf("null", "null")+`}`)
	for _, entry := range console.until(t, 2) {
		text, err := json.Marshal(entry["bundles"])
		must(t, err)
		if want := `{"` + folder + `":{"revision":"r7"}}`; string(text) != want {
			t.Errorf("%s: %s, not %s", entry["path"], text, want)
		}
	}
}

func TestOfWhatIsAdmittedASampleIsLogged(t *testing.T) {
	opa, console := startLogging(t, "labels.decision_sample=0.000001")
	opa.put(t, "/v1/policies/main", `package system
main := {"response": object.union({"uid": input.request.uid}, data.answer)}`)
	answers := []string{`{"allowed": true}`, `{"allowed": false}`, `{"allowed": true, "warnings": ["careful"]}`, `{}`}
	for _, answer := range answers {
		opa.put(t, "/v1/data/answer", answer)
		for range 5 {
			opa.ask(t, "POST", "/", "", reviewOf("null", "null"))
		}
	}
	for _, entry := range console.until(t, 15) {
		response := entry["result"].(map[string]any)["response"].(map[string]any)
		if _, warns := response["warnings"]; response["allowed"] == true && !warns {
			t.Errorf("logged: %v", entry)
		}
	}
}

func TestWithoutDecisionLogsNothingIsLogged(t *testing.T) {
	console := &written{}
	opa := start(t, func(params *runtime.Params) { params.ConsoleLogger = console })
	opa.put(t, "/v1/policies/main", "package system\nmain := 3")
	opa.ask(t, "POST", "/", "", reviewOf("null", "null"))
	if len(console.entries) > 0 {
		t.Errorf("%v", console.entries)
	}
}
