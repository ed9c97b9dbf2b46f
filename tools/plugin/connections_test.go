package main

// These tests ask the plugin over TLS, as API servers do.

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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// setting is a running front and a client of it.
type setting struct {
	url    string
	client *http.Transport
}

func newSetting(t *testing.T) *setting {
	t.Helper()
	folder := t.TempDir()
	certificate, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	writeCertificate(t, certificate, key)
	server := &http.Server{
		Handler:   newFront(always("{}"), nil, 1<<20, func(bool) {}),
		TLSConfig: serverTLS(shown(certificate, key)),
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go server.ServeTLS(listener, "", "")
	t.Cleanup(func() { server.Close() })

	config := trusting(t, certificate)
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	return &setting{"https://" + listener.Addr().String(), &http.Transport{TLSClientConfig: config}}
}

// trusting is how to connect to a server that the CAs of a file verify.
func trusting(t *testing.T, file string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: pool}
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
