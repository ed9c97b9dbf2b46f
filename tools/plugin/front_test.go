package main

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestAReviewIsWhatTheGuardLetsInFromEveryone(t *testing.T) {
	for target, want := range map[string]bool{
		"/":                       true,
		"/?timeout=5s":            true,
		"/intents/x-y?timeout=5s": true,
		"/intents/":               false,
		"/intents/x/y":            false,
		"/?timeout=5m":            false,
		"/?timeout=5s&timeout=5s": false,
		"/?timeout=5s&pretty":     false,
		"/?pretty=true":           false,
		"/v1/data":                false,
	} {
		if got := isReview(httptest.NewRequest("POST", target, strings.NewReader("{}"))); got != want {
			t.Errorf("POST %s: %v", target, got)
		}
	}
	for _, other := range []string{"GET", "PUT"} {
		if isReview(httptest.NewRequest(other, "/", strings.NewReader("{}"))) {
			t.Errorf("%s / is not a review", other)
		}
	}
	if isReview(httptest.NewRequest("POST", "/", nil)) {
		t.Error("a request without a body is not a review")
	}
}

func TestAWebhooksPathNamesItsIntent(t *testing.T) {
	for path, want := range map[string]string{"/": "", "/intents/no-host-network": "no-host-network", "/intents/": "", "/intents/x/y": ""} {
		if got := intentOf(path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestOnlyAQuestionForADocumentIsAskedWithoutItsBodyFirst(t *testing.T) {
	for _, row := range []struct {
		method, target, token string
		want                  bool
	}{
		{"POST", "/v1/data/k8s/placement", "Bearer x", true},
		{"POST", "/v0/data/controller", "Bearer x", true},
		{"POST", "/v1/data/k8s/placement", "", false},
		{"PUT", "/v1/data/k8s/placement", "Bearer x", false},
		{"PATCH", "/v1/data/k8s/placement", "Bearer x", false},
		{"POST", "/v1/data", "Bearer x", false},
		{"POST", "/v1/query", "Bearer x", false},
		{"POST", "/v1/policies/v1/data/x", "Bearer x", false},
	} {
		request := httptest.NewRequest(row.method, row.target, strings.NewReader("{}"))
		if row.token != "" {
			request.Header.Set("Authorization", row.token)
		}
		if got := asksForDocument(request); got != row.want {
			t.Errorf("%s %s: %v", row.method, row.target, got)
		}
	}
}

func TestConnectionsAreClosedWhenOPAIsNotReadyAndAfterAnAnswerWhenItIsLate(t *testing.T) {
	var kept []bool
	f := newFront(always("{}"), nil, 1<<20, func(keeps bool) { kept = append(kept, keeps) })
	closes := func() bool {
		answered := httptest.NewRecorder()
		f.ServeHTTP(answered, httptest.NewRequest("POST", "/", strings.NewReader("{}")))
		return answered.Header().Get("Connection") == "close"
	}
	const ready, late = true, true
	for _, probe := range [][2]bool{{ready, !late}, {!ready, late}, {ready, late}, {!ready, late}} {
		if f.ready(probe[0], probe[1]); closes() {
			t.Error("single late answers close a connection")
		}
	}
	if f.ready(!ready, late); !closes() {
		t.Error("the second late answer in a row does not have clients connect again")
	}
	if f.ready(ready, !late); closes() || len(kept) != 0 {
		t.Errorf("an answer in time keeps connections: %v", kept)
	}
	f.ready(!ready, !late)
	f.ready(!ready, late)
	f.ready(ready, !late)
	if want := []bool{false, true}; !slices.Equal(kept, want) {
		t.Errorf("%v, not %v", kept, want)
	}
}
