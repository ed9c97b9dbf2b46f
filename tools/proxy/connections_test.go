package main

// These tests run the proxy between a client and two servers, in the place of OPA and the sidecar, all with TLS.

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// connected says from which address the proxy asked a server, and whether that connection resumed a TLS session.
type connected struct {
	From    string
	Resumed bool
}

// newServer answers each request with its `connected`.
func newServer(t *testing.T) *httptest.Server {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(connected{r.RemoteAddr, r.TLS.DidResume})
	}))
	t.Cleanup(server.Close)
	return server
}

// setting is a running proxy and a client of it.
type setting struct {
	url         string
	client      *http.Transport
	proxy       *http.Transport // what the proxy asks servers by
	trust       *kept[*tls.Config]
	cas         string // the file with the certificate of both servers
	certificate string // the file with the proxy's own certificate
}

func newSetting(t *testing.T) *setting {
	opa, sidecar := newServer(t), newServer(t)
	folder := t.TempDir()
	s := &setting{cas: filepath.Join(folder, "ca.crt"), certificate: filepath.Join(folder, "tls.crt")}
	write(t, s.cas, "CERTIFICATE", opa.Certificate().Raw)
	key := filepath.Join(folder, "tls.key")
	writeCertificate(t, s.certificate, key)

	opaURL, err := address("--opa-url", opa.URL)
	must(t, err)
	sidecarURL, err := address("--sidecar-url", sidecar.URL)
	must(t, err)
	s.trust = trusted(s.cas)
	handler := newProxy(opaURL, sidecarURL, s.trust, 1<<20, func(bool) {})
	s.proxy = handler.client.(*http.Transport)
	server := &http.Server{Handler: handler, TLSConfig: serverTLS(shown(s.certificate, key))}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go server.ServeTLS(listener, "", "")
	t.Cleanup(func() { server.Close() })

	s.url = "https://" + listener.Addr().String()
	config, err := trusted(s.certificate).get()
	must(t, err)
	s.client = &http.Transport{TLSClientConfig: config}
	return s
}

// ask posts a review. It returns whether the client's connection resumed a session, and what the server answered.
func (s *setting) ask(t *testing.T, path string) (bool, connected) {
	t.Helper()
	response, text := s.post(t, path)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", path, response.StatusCode, text)
	}
	var there connected
	must(t, json.Unmarshal(text, &there))
	return response.TLS.DidResume, there
}

func (s *setting) post(t *testing.T, path string) (*http.Response, []byte) {
	t.Helper()
	client := http.Client{Transport: s.client}
	response, err := client.Post(s.url+path, "application/json", strings.NewReader("{}"))
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response, text
}

// replaceCAs lets the proxy read its file of CAs with a new content, at its next connection.
func (s *setting) replaceCAs(t *testing.T, content []byte) {
	t.Helper()
	must(t, os.WriteFile(s.cas, content, 0o600))
	s.trust.mutex.Lock()
	s.trust.looked, s.trust.written = time.Time{}, nil
	s.trust.mutex.Unlock()
	s.proxy.CloseIdleConnections()
}

func TestRequestsShareAConnectionToOPA(t *testing.T) {
	s := newSetting(t)
	_, first := s.ask(t, "/")
	for _, path := range []string{"/", "/intents/x", "/v1/data/x"} {
		if _, next := s.ask(t, path); next != first {
			t.Errorf("%s: %v and before %v", path, next, first)
		}
	}
}

func TestANewConnectionToTheProxyResumesItsSession(t *testing.T) {
	s := newSetting(t)
	if resumed, _ := s.ask(t, "/"); resumed {
		t.Error("the first connection has nothing to resume")
	}
	s.client.CloseIdleConnections()
	if resumed, _ := s.ask(t, "/"); !resumed {
		t.Error("not resumed")
	}
}

func TestNewConnectionsToOPAAndTheSidecarResumeTheirSessions(t *testing.T) {
	s := newSetting(t)
	for _, want := range []bool{false, true, true} {
		for _, path := range []string{"/", policyReviews} {
			if _, there := s.ask(t, path); there.Resumed != want {
				t.Errorf("%s: %v, not %v", path, there.Resumed, want)
			}
		}
		s.proxy.CloseIdleConnections()
	}
}

func TestNoSessionOutlivesTheCAsThatItWasVerifiedBy(t *testing.T) {
	s := newSetting(t)
	s.ask(t, "/")
	same, err := os.ReadFile(s.cas)
	must(t, err)
	s.replaceCAs(t, same)
	if _, there := s.ask(t, "/"); there.Resumed {
		t.Error("resumed, although the CAs were read again")
	}

	other, err := os.ReadFile(s.certificate)
	must(t, err)
	s.replaceCAs(t, other)
	if response, text := s.post(t, "/"); response.StatusCode != http.StatusBadGateway {
		t.Errorf("%d %s", response.StatusCode, text)
	}
}

// writeCertificate writes a certificate for 127.0.0.1 that verifies itself, and its key.
func writeCertificate(t *testing.T, certificate, key string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter:     time.Now().Add(time.Hour),
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	must(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	write(t, certificate, "CERTIFICATE", signed)
	write(t, key, "PRIVATE KEY", encoded)
}

func write(t *testing.T, file, kind string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
