package main

// These tests run a whole OPA with the plugin, as `fairlead-opa run --server` does.

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/runtime"
	"github.com/open-policy-agent/opa/v1/server"
)

const (
	token = "a-token"
	authz = `package system.authz
default allow := false
allow if input.identity == "a-token"
allow if { input.identity == "a-scope"; input.path == ["v1", "data", "documents", "one"] }
allow if input.path == ["health", "ready"]
`
	decision = `package system
main := {"intents": object.get(input, "intents", []), "with": data.value}
`
	document = `package documents
one := {"got": input.x}
`
)

// running is an OPA with the plugin, and how to ask it.
type running struct {
	url    string
	client http.Client
}

// start runs OPA with the authz policy, and nothing else yet.
func start(t *testing.T, changes ...func(*runtime.Params)) *running {
	t.Helper()
	folder := t.TempDir()
	certificate, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	writeCertificate(t, certificate, key)
	rules := filepath.Join(folder, "authz.rego")
	must(t, os.WriteFile(rules, []byte(authz), 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())

	runtime.RegisterPlugin(pluginName, factory{})
	params := runtime.NewParams()
	params.Addrs = &[]string{"127.0.0.1:0"}
	params.Authentication, params.Authorization = server.AuthenticationToken, server.AuthorizationBasic
	params.Paths = []string{rules}
	params.Logging.Level = "error"
	params.ConfigOverrides = []string{
		"plugins.fairlead.listen=" + address,
		"plugins.fairlead.tls_cert_file=" + certificate,
		"plugins.fairlead.tls_private_key_file=" + key,
	}
	for _, change := range changes {
		change(&params)
	}
	ctx, cancel := context.WithCancel(context.Background())
	opa, err := runtime.NewRuntime(ctx, params)
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- opa.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })

	client := http.Client{Transport: &http.Transport{TLSClientConfig: trusting(t, certificate)}}
	r := &running{"https://" + address, client}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if response, err := r.client.Get(r.url + "/live"); err == nil {
			response.Body.Close()
			<-opa.Manager.ServerInitializedChannel()
			return r
		}
		if time.Now().After(deadline) {
			t.Fatal("the plugin does not listen")
		}
	}
}

// ask sends a request with a token, or without one, and returns the status and the body.
func (r *running) ask(t *testing.T, method, path, token, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, r.url+path, bytes.NewReader([]byte(body)))
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := r.client.Do(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(text)
}

func (r *running) put(t *testing.T, path, body string) {
	t.Helper()
	if code, text := r.ask(t, "PUT", path, token, body); code >= 300 {
		t.Fatalf("PUT %s: %d %s", path, code, text)
	}
}

func TestADecisionIsByThePoliciesAndTheDataOfThatMoment(t *testing.T) {
	opa := start(t)
	if code, text := opa.ask(t, "POST", "/", "", "{}"); code != 503 || !strings.Contains(text, "OPA is starting") {
		t.Errorf("%d %s", code, text)
	}
	opa.put(t, "/v1/data/value", "1")
	opa.put(t, "/v1/policies/main", decision)
	for _, row := range []struct{ path, body, want string }{
		{"/", `{}`, `{"intents":[],"with":1}`},
		{"/?timeout=5s", `{}`, `{"intents":[],"with":1}`},
		{"/intents/no-host-network", ` {"a":1}`, `{"intents":["no-host-network"],"with":1}`},
		{"/intents/x", `{"intents":["y"]}`, `{"intents":["x"],"with":1}`}, // whatever the body says
	} {
		if code, text := opa.ask(t, "POST", row.path, "", row.body); code != 200 || text != row.want {
			t.Errorf("%s %s: %d %s", row.path, row.body, code, text)
		}
	}
	opa.put(t, "/v1/data/value", "2")
	if _, text := opa.ask(t, "POST", "/", "", "{}"); text != `{"intents":[],"with":2}` {
		t.Errorf("the data before: %s", text)
	}
	opa.put(t, "/v1/policies/main", "package system\nmain := 3")
	if _, text := opa.ask(t, "POST", "/", "", "{}"); text != "3" {
		t.Errorf("the policies before: %s", text)
	}
	if code, _ := opa.ask(t, "DELETE", "/v1/policies/main", token, ""); code != 200 {
		t.Errorf("%d", code)
	}
	if code, text := opa.ask(t, "POST", "/", "", "{}"); code != 503 {
		t.Errorf("decided without policies: %d %s", code, text)
	}
}

func TestWhatIsNoJSONIsNotDecided(t *testing.T) {
	opa := start(t)
	opa.put(t, "/v1/policies/main", "package system\nmain := 3")
	for _, body := range []string{"{", "{}{}", "{} x", "nul", "\xff"} {
		if code, text := opa.ask(t, "POST", "/", "", body); code != 400 {
			t.Errorf("%q: %d %s", body, code, text)
		}
	}
}

func TestTheAPIIsOPAsWithItsAuthzPolicy(t *testing.T) {
	opa := start(t)
	opa.put(t, "/v1/policies/documents", document)
	for _, row := range []struct {
		method, path, token, body string
		code                      int
		want                      string
	}{
		{"GET", "/v1/policies", "", "", 401, "unauthorized"},
		{"GET", "/v1/policies", "wrong", "", 401, "unauthorized"},
		{"GET", "/v1/policies", token, "", 200, "documents"},
		{"PUT", "/v1/data/x", "", "1", 401, "unauthorized"},
		{"PUT", "/v1/data/x", "a-scope", "1", 401, "unauthorized"},
		{"POST", "/v1/data/documents/one", "a-scope", `{"input":{"x":7}}`, 200, `{"got":7}`},
		{"POST", "/v1/data/documents", "a-scope", `{"input":{"x":7}}`, 401, "unauthorized"},
		{"POST", "/v1/data/documents/one", token, `{"input":{"x":7}}`, 200, `{"got":7}`},
		{"GET", "/health/ready", "", "", 500, "health"},
		{"GET", "/nowhere", token, "", 404, ""},
	} {
		code, text := opa.ask(t, row.method, row.path, row.token, row.body)
		if code != row.code || !strings.Contains(text, row.want) {
			t.Errorf("%s %s: %d %s", row.method, row.path, code, text)
		}
	}
}

func TestAConfigurationSaysWhatItLacks(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:            "is missing",
		`{"listen": 1}`: "plugins.fairlead",
		`{"listen": ":1", "tls_cert_file": "a", "tls_private_key_file": "b", "largest_review": -1}`: "largest_review",
	} {
		if _, err := (factory{}).Validate(nil, json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
