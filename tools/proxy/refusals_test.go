package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
)

// status is what API servers read of an answer that is no decision; see `Result.Error` of client-go. They show `message`.
type status struct {
	Kind, APIVersion, Status, Message string
	Code                              int
}

// asked returns the status and the body that a proxy answers to a POST, if OPA and the sidecar answer by `opa`.
func asked(t *testing.T, opa roundTrip, target, body string) (int, []byte) {
	t.Helper()
	p := newProxy(&url.URL{Scheme: "https", Host: "opa"}, &url.URL{Scheme: "https", Host: "sidecar"}, nil, 1<<20, func(bool) {})
	p.client = opa
	server := httptest.NewServer(p)
	defer server.Close()
	response, err := http.Post(server.URL+target, "application/json", strings.NewReader(body))
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, text
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answers(code int, body string) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

func fails(err error) roundTrip {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func TestAnAPIServerIsToldWhatToDoWhileThereIsNoDecision(t *testing.T) {
	dial := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}
	}
	for name, row := range map[string]struct {
		opa  roundTrip
		code int
		want string
	}{
		"no process":          {fails(dial(syscall.ECONNREFUSED)), 502, "OPA is starting: retry in a second"},
		"a process that ends": {fails(dial(syscall.ECONNRESET)), 502, "OPA is starting: retry in a second"},
		"the same, later":     {fails(fmt.Errorf("read: %w", io.EOF)), 502, "OPA is starting: retry in a second"},
		"no policies": {
			answers(404, `{"code":"undefined_document","message":"document missing: data.system.main"}`), 503, "OPA is starting: retry",
		},
		"hangs":      {fails(context.DeadlineExceeded), 502, "OPA did not answer in time: retry in a second"},
		"other CAs":  {fails(fmt.Errorf("x509: unknown authority")), 502, "OPA does not answer: x509: unknown authority"},
		"an error":   {answers(500, `{"code":"internal_error","message":"main.rego:7: conflict"}`), 500, "OPA cannot decide (status 500): main.rego:7: conflict"},
		"a long one": {answers(500, `{"code":"x","message":"`+strings.Repeat("y", 9000)+`"}`), 500, "(status 500): " + strings.Repeat("y", 200)},
		"no JSON":    {answers(500, `<html>`), 500, "OPA cannot decide (status 500): `fairlead status` says why"},
		"no authz":   {answers(401, `{"code":"unauthorized","message":"request rejected by administrative policy"}`), 401, "status 401"},
	} {
		for _, target := range []string{"/?timeout=10s", "/intents/node-pool?timeout=10s"} {
			code, text := asked(t, row.opa, target, `{}`)
			var got status
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatalf("%s: %v: %s", name, err, text)
			}
			if code != row.code || got.Code != row.code || !strings.Contains(got.Message, row.want) {
				t.Errorf("%s: %d %+v", name, code, got)
			}
			if got.Kind != "Status" || got.APIVersion != "v1" || got.Status != "Failure" || len(got.Message) > 300 {
				t.Errorf("%s: API servers do not show %+v", name, got)
			}
		}
	}
}

func TestWhatTheProxyRefusesItselfIsShownToo(t *testing.T) {
	for target, want := range map[string]string{"/": "more than 1048576 bytes", policyReviews: "more than 1048576 bytes"} {
		code, text := asked(t, answers(200, `{}`), target, strings.Repeat(" ", 1<<20+1))
		var got status
		if err := json.Unmarshal(text, &got); err != nil || got.Kind != "Status" || got.Message != want {
			t.Errorf("%s: %d %s", target, code, text)
		}
	}
}

func TestTheSidecarIsNotTakenForOPA(t *testing.T) {
	for body, want := range map[string]string{
		`{"message":"another upload is being taken: send it again"}`: "the sidecar cannot decide (status 503): another upload is being taken",
		`{}`: "the sidecar cannot decide (status 503): `fairlead status` says why",
	} {
		if _, text := asked(t, answers(503, body), policyReviews, `{}`); !strings.Contains(string(text), want) {
			t.Errorf("%s", text)
		}
	}
}

func TestADecisionIsPassedOnAsItIs(t *testing.T) {
	decision := `{"response":{"allowed":false}}`
	if code, text := asked(t, answers(200, decision), "/", `{}`); code != 200 || string(text) != decision {
		t.Errorf("%d %s", code, text)
	}
}

func TestOthersThanAPIServersGetTheFormOfOPAsErrors(t *testing.T) {
	code, text := asked(t, fails(io.EOF), "/v1/data/x", `{}`)
	var got map[string]string
	if err := json.Unmarshal(text, &got); err != nil || got["code"] != "refused_by_proxy" {
		t.Errorf("%d %s", code, text)
	}
}
