// Command fairlead-proxy listens on the port that others reach, and limits what the OPA behind it has to read.
//
// OPA reads and parses the body of a request before it evaluates its authz policy, and serves as many requests at once
// as arrive. So anyone who reaches its port could exhaust its memory without a token. The proxy checks the size of each
// body before OPA gets it, and forwards only a few at a time, with callers taking turns. OPA alone decides who may do
// what: the proxy knows no token.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// version is set when the program is built.
var version = "unknown"

const (
	// The most connections at once. By default, an API server has up to 200 changing requests in flight.
	mostConnections = 1024
	// An idle connection is closed after this time. API servers close theirs after 90 seconds.
	idle = 120 * time.Second
	// At shutdown, the time for requests that are being answered.
	endWithin = 20 * time.Second
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8443", "`host:port` to serve at")
	opa := flag.String("opa-url", "https://127.0.0.1:8181", "address of OPA, on loopback")
	sidecar := flag.String("sidecar-url", "", "address of the sidecar, if it answers reviews of PlacementPolicies")
	cas := flag.String("opa-ca-file", "", "CAs that OPA and the sidecar are verified by (PEM)")
	certificate := flag.String("tls-cert-file", "", "certificate to serve with; read again within a second of a change")
	key := flag.String("tls-private-key-file", "", "key of the certificate")
	largest := flag.Int64("largest-review", 3<<20, "the most `bytes` of a review")
	printVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *printVersion {
		fmt.Println("fairlead-proxy", version)
		return
	}
	log.SetFlags(log.LstdFlags | log.LUTC)
	log.SetOutput(os.Stderr)
	if err := serve(*listen, *opa, *sidecar, *cas, *certificate, *key, *largest); err != nil {
		log.Fatal(err)
	}
}

func serve(listen, opa, sidecar, cas, certificate, key string, largest int64) error {
	target, err := address("--opa-url", opa)
	if err != nil {
		return err
	}
	var beside *url.URL
	if sidecar != "" {
		if beside, err = address("--sidecar-url", sidecar); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{
		// Also the time until the first request of a connection. An API server that has many requests connects ahead
		// of them, and may use such a connection much later. If it finds it closed, it does not try again.
		ReadHeaderTimeout: idle,
		IdleTimeout:       idle,
		MaxHeaderBytes:    16 << 10,
		TLSConfig:         serverTLS(shown(certificate, key)),
		ErrorLog:          log.New(quiet{}, "", 0),
	}
	// SetKeepAlivesEnabled(false) also closes the connections that are idle at the moment.
	server.Handler = newProxy(target, beside, trusted(cas), largest, server.SetKeepAlivesEnabled)
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true) // like OPA; one HTTP/2 connection could carry hundreds of requests
	ended := make(chan error, 1)
	go func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
		<-signals
		ctx, cancel := context.WithTimeout(context.Background(), endWithin)
		defer cancel()
		ended <- server.Shutdown(ctx)
	}()
	err = server.ServeTLS(newLimited(listener, mostConnections), "", "")
	if errors.Is(err, http.ErrServerClosed) {
		return <-ended
	}
	return err
}

// address parses the value of a flag that names a server.
func address(flag, value string) (*url.URL, error) {
	parsed, err := url.Parse(value)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return nil, fmt.Errorf("%s: %q is not like https://127.0.0.1:8181", flag, value)
	}
	return parsed, nil
}

// quiet drops what the HTTP library logs about each failed handshake, because anybody can cause many.
type quiet struct{}

func (quiet) Write(text []byte) (int, error) { return len(text), nil }
