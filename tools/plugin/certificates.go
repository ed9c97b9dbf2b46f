package main

// This file reads the certificate to serve with again when its files change.

import (
	"crypto/tls"
	"errors"
	"log"
	"os"
	"sync"
	"time"
)

// The least time between two checks of the files.
const look = time.Second

// pair is a certificate and its key, whose files may be replaced at any time.
type pair struct {
	certificate, key string

	mutex   sync.Mutex
	looked  time.Time
	written [2]time.Time // the modification times of the files when they were read
	value   *tls.Certificate
	err     error // why there is no value yet
}

// shown is the certificate to serve with, and its key.
func shown(certificate, key string) *pair {
	return &pair{certificate: certificate, key: key, err: errors.New("not read yet")}
}

// get returns the current certificate, or the last one that could be read.
func (p *pair) get() (*tls.Certificate, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if now := time.Now(); now.Sub(p.looked) >= look {
		p.looked = now
		p.look()
	}
	return p.value, p.err
}

// look reads the files if one was replaced. If that fails, the next look tries again.
func (p *pair) look() {
	written := [2]time.Time{modified(p.certificate), modified(p.key)}
	if p.err == nil && written == p.written {
		return
	}
	value, err := tls.LoadX509KeyPair(p.certificate, p.key)
	if err == nil {
		p.value, p.written, p.err = &value, written, nil
		return
	}
	log.Printf("%s cannot be read: %v", p.certificate, err)
	if p.err != nil {
		p.err = err
	}
}

func serverTLS(certificate *pair) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate.get() },
	}
}

// modified is the modification time of a file; the zero time if unknown.
func modified(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
