package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"
)

// How often files are looked at for a change, at most.
const look = time.Second

// shown is the certificate that is served with, and its key: files that may be replaced at any time.
type shown struct {
	certificate, key string

	mutex   sync.Mutex
	looked  time.Time
	changed [2]time.Time
	loaded  *tls.Certificate
}

// get is the pair as it is now, or the last one that could be read.
func (s *shown) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if now := time.Now(); now.Sub(s.looked) >= look {
		s.looked = now
		s.load()
	}
	if s.loaded == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return s.loaded, nil
}

func (s *shown) load() {
	changed := [2]time.Time{modified(s.certificate), modified(s.key)}
	if s.loaded != nil && changed == s.changed {
		return
	}
	pair, err := tls.LoadX509KeyPair(s.certificate, s.key)
	if err != nil {
		log.Printf("the certificate cannot be read: %v", err) // the next look tries again
		return
	}
	s.loaded, s.changed = &pair, changed
}

// trusted are the authorities that OPA is verified by: a file that may be replaced at any time.
type trusted struct {
	file string

	mutex   sync.Mutex
	looked  time.Time
	changed time.Time
	pool    *x509.CertPool
}

// get is the authorities as they are now, or the last ones that could be read.
func (t *trusted) get() (*x509.CertPool, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := time.Now()
	if changed := modified(t.file); t.pool == nil || (now.Sub(t.looked) >= look && changed != t.changed) {
		text, err := os.ReadFile(t.file)
		pool := x509.NewCertPool()
		if err == nil && !pool.AppendCertsFromPEM(text) {
			err = fmt.Errorf("%s has no certificate", t.file)
		}
		if err != nil && t.pool == nil {
			return nil, err
		}
		if err == nil {
			t.pool, t.changed = pool, changed
		}
		t.looked = now
	}
	return t.pool, nil
}

func serverTLS(certificate *shown) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate.get}
}

// modified is when a file was written last; the zero time where it cannot be told.
func modified(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
