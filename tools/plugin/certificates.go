package main

// This file reads the certificate to serve with, and the CAs of the sidecar, again when their files change.

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log"
	"os"
	"slices"
	"sync"
	"time"
)

// The least time between two checks of the files.
const look = time.Second

// kept is a value that is read from files, which may be replaced at any time.
type kept[T any] struct {
	files []string
	read  func() (T, error)

	mutex   sync.Mutex
	looked  time.Time
	written []time.Time // the modification times of the files when they were read
	value   T
	err     error // why there is no value yet
}

func newKept[T any](read func() (T, error), files ...string) *kept[T] {
	return &kept[T]{files: files, read: read, err: errors.New("not read yet")}
}

// get returns the current value, or the last one that could be read.
func (k *kept[T]) get() (T, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if now := time.Now(); now.Sub(k.looked) >= look {
		k.looked = now
		k.look()
	}
	return k.value, k.err
}

// look reads the files if any was replaced. If that fails, the next look tries again.
func (k *kept[T]) look() {
	written := make([]time.Time, len(k.files))
	for at, file := range k.files {
		written[at] = modified(file)
	}
	if k.err == nil && slices.Equal(written, k.written) {
		return
	}
	value, err := k.read()
	if err == nil {
		k.value, k.written, k.err = value, written, nil
		return
	}
	log.Printf("%s cannot be read: %v", k.files[0], err)
	if k.err != nil {
		k.err = err
	}
}

// shown is the certificate to serve with, and its key.
func shown(certificate, key string) *kept[*tls.Certificate] {
	return newKept(func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		return &pair, err
	}, certificate, key)
}

// trusted is how to connect to the sidecar: the CAs that verify it.
func trusted(file string) *kept[*tls.Config] {
	return newKept(func() (*tls.Config, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, errors.New("it holds no certificate")
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
	}, file)
}

func serverTLS(certificate *kept[*tls.Certificate]) *tls.Config {
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
