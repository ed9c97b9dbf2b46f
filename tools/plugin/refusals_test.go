package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/topdown"
)

// status is what API servers read of an answer that is no decision; see `Result.Error` of client-go. They show `message`.
type status struct {
	Kind, APIVersion, Status, Message string
	Code                              int
}

// asked returns the status and the body that a POST is answered with.
func asked(t *testing.T, of *front, target, body string) (int, []byte) {
	t.Helper()
	server := httptest.NewServer(of)
	defer server.Close()
	response, err := http.Post(server.URL+target, "application/json", strings.NewReader(body))
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, text
}

// fronted is a front whose policies fail with an error; nil if they decide.
func fronted(err error) *front {
	return newFront(func(context.Context, []byte, string, string) ([]byte, error) {
		return []byte(`{"response":{"allowed":false}}`), err
	}, nil, 1<<20, func(bool) {})
}

func TestAnAPIServerIsToldWhatToDoWhileThereIsNoDecision(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		code int
		want string
	}{
		"no policies": {errUndefined, 503, "OPA is starting: retry in a second"},
		"hangs":       {context.DeadlineExceeded, 504, "OPA did not answer in time: retry in a second"},
		"is ended":    {&topdown.Error{Code: topdown.CancelErr}, 504, "OPA did not answer in time: retry in a second"},
		"no JSON":     {errMalformed, 400, "the body is not JSON"},
		"an error":    {errors.New("main.rego:7: conflict"), 500, "OPA cannot decide (status 500): main.rego:7: conflict"},
		"a long one":  {errors.New(strings.Repeat("y", 9000)), 500, "(status 500): " + strings.Repeat("y", 200)},
		"a wrapped":   {fmt.Errorf("x: %w", errUndefined), 503, "OPA is starting"},
	} {
		for _, target := range []string{"/?timeout=10s", "/intents/node-pool?timeout=10s"} {
			code, text := asked(t, fronted(row.err), target, `{}`)
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

func TestWhatIsRefusedUnreadIsShownToo(t *testing.T) {
	code, text := asked(t, fronted(nil), "/", strings.Repeat(" ", 1<<20+1))
	var got status
	if err := json.Unmarshal(text, &got); err != nil || got.Kind != "Status" || got.Message != "more than 1048576 bytes" {
		t.Errorf("%d %s", code, text)
	}
}

func TestADecisionIsPassedOnAsItIs(t *testing.T) {
	if code, text := asked(t, fronted(nil), "/", `{}`); code != 200 || string(text) != `{"response":{"allowed":false}}` {
		t.Errorf("%d %s", code, text)
	}
}
