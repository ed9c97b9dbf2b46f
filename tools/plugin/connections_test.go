package main

// These tests ask the plugin over TLS, as API servers do, with a sidecar behind it.

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// setting is a running front and a client of it.
type setting struct {
	url         string
	client      *http.Transport
	sidecar     *http.Transport // what the sidecar is asked by
	trust       *kept[*tls.Config]
	cas         string // the file with the sidecar's certificate
	certificate string // the file with the front's own certificate
}

func newSetting(t *testing.T) *setting {
	t.Helper()
	there := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.RemoteAddr)
	}))
	t.Cleanup(there.Close)
	folder := t.TempDir()
	s := &setting{cas: filepath.Join(folder, "ca.crt"), certificate: filepath.Join(folder, "tls.crt")}
	write(t, s.cas, "CERTIFICATE", there.Certificate().Raw)
	key := filepath.Join(folder, "tls.key")
	writeCertificate(t, s.certificate, key)

	at, err := url.Parse(there.URL)
	must(t, err)
	s.trust = trusted(s.cas)
	asked := newSidecar(*at, s.trust)
	s.sidecar = asked.client
	server := &http.Server{
		Handler:   newFront(always("{}"), nil, asked, 1<<20, func(bool) {}),
		TLSConfig: serverTLS(shown(s.certificate, key)),
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go server.ServeTLS(listener, "", "")
	t.Cleanup(func() { server.Close() })

	s.url = "https://" + listener.Addr().String()
	config, err := trusted(s.certificate).get()
	must(t, err)
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	s.client = &http.Transport{TLSClientConfig: config}
	return s
}

// always is a decision about every review.
func always(text string) decide {
	return func(context.Context, []byte, string, string) ([]byte, error) { return []byte(text), nil }
}

func (s *setting) post(t *testing.T, path string) (*http.Response, string) {
	t.Helper()
	client := http.Client{Transport: s.client}
	response, err := client.Post(s.url+path, "application/json", strings.NewReader("{}"))
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response, string(text)
}

func TestANewConnectionResumesItsSession(t *testing.T) {
	s := newSetting(t)
	for _, want := range []bool{false, true} {
		if response, _ := s.post(t, "/"); response.TLS.DidResume != want {
			t.Errorf("resumed: %v", response.TLS.DidResume)
		}
		s.client.CloseIdleConnections()
	}
}

func TestReviewsShareAConnectionToTheSidecar(t *testing.T) {
	s := newSetting(t)
	_, first := s.post(t, policyReviews)
	if _, next := s.post(t, policyReviews); next != first {
		t.Errorf("from %s, and before from %s", next, first)
	}
}

func TestANewConnectionIsVerifiedByTheCAsThatTheFileHasThen(t *testing.T) {
	s := newSetting(t)
	other, err := os.ReadFile(s.certificate)
	must(t, err)
	must(t, os.WriteFile(s.cas, other, 0o600))
	s.trust.mutex.Lock()
	s.trust.looked, s.trust.written = time.Time{}, nil
	s.trust.mutex.Unlock()
	s.sidecar.CloseIdleConnections()
	if response, text := s.post(t, policyReviews); response.StatusCode != http.StatusBadGateway {
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
