package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// results sends the bursts, in which %s stands for the server's URL, and returns what came of each.
func results(t *testing.T, handler http.HandlerFunc, bursts ...string) []result {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	cas := x509.NewCertPool()
	cas.AddCert(server.Certificate())
	var in strings.Builder
	for _, each := range bursts {
		fmt.Fprintf(&in, each+"\n", server.URL)
	}
	var out bytes.Buffer
	if err := serve(strings.NewReader(in.String()), &out, &tls.Config{RootCAs: cas}); err != nil {
		t.Fatal(err)
	}
	var every []result
	for lines := json.NewDecoder(&out); ; {
		var one result
		if err := lines.Decode(&one); err == io.EOF {
			return every
		} else if err != nil {
			t.Fatal(err)
		}
		every = append(every, one)
	}
}

func TestAllRequestsAreSentByAllClients(t *testing.T) {
	var sent atomic.Int64
	var callers sync.Map
	meet := make(chan struct{})
	every := results(t, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) != "{}" || r.Method != "POST" {
			t.Errorf("%s %q", r.Method, body)
		}
		callers.Store(r.RemoteAddr, true)
		if sent.Add(1) == 3 {
			close(meet)
		}
		<-meet // until three clients have asked
	}, `{"url": "%s", "body": "{}", "clients": 3, "requests": 20}`, `{"url": "%s", "body": "{}", "clients": 1, "requests": 2}`)
	connections := 0
	callers.Range(func(_, _ any) bool { connections++; return true })
	if len(every) != 2 || len(every[0].Milliseconds) != 20 || len(every[1].Milliseconds) != 2 || every[0].Failed != 0 {
		t.Error(every)
	}
	if sent.Load() != 22 || connections != 3 {
		t.Errorf("%d requests by %d connections", sent.Load(), connections)
	}
}

func TestFailuresAreCounted(t *testing.T) {
	var sent atomic.Int64
	every := results(t, func(w http.ResponseWriter, r *http.Request) {
		if sent.Add(1)%2 == 0 {
			http.Error(w, "not this one", http.StatusForbidden)
		}
	}, `{"url": "%s", "clients": 1, "requests": 5}`)
	if every[0].Failed != 2 || every[0].Error != "403 Forbidden: not this one\n" || len(every[0].Milliseconds) != 5 {
		t.Error(every[0])
	}
}
