// Command fairlead-proxy stands before an OPA, on the port that others reach, and bounds what OPA is made to read.
//
// OPA reads and parses the body of a request before its guard is asked, and serves as many at once as arrive. So who
// reaches its port can end it without a token. The proxy passes on no body before its size is known to be bearable, and
// few at a time, by turns of those who ask. Who may do what is OPA's to say: the proxy knows no token.
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
	// Connections at once. API servers ask for 200 changes at a time each, unless they are told otherwise.
	mostConnections = 1024
	// Seconds that a connection is kept which nobody uses: API servers themselves close theirs after 90.
	idle = 120 * time.Second
	// For a handshake, or for a request's headers.
	headersWithin = 5 * time.Second
	// For requests that are being answered when the program is told to end.
	endWithin = 20 * time.Second
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8443", "`host:port` to serve at")
	opa := flag.String("opa-url", "https://127.0.0.1:8181", "address of OPA, on loopback")
	authorities := flag.String("opa-ca-file", "", "authorities that OPA is verified by (PEM)")
	certificate := flag.String("tls-cert-file", "", "certificate to serve with; a replaced one is taken within a second")
	key := flag.String("tls-private-key-file", "", "its key")
	largest := flag.Int64("largest-review", 3<<20, "`bytes` that a review may have")
	printVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *printVersion {
		fmt.Println("fairlead-proxy", version)
		return
	}
	log.SetFlags(log.LstdFlags | log.LUTC)
	log.SetOutput(os.Stderr)
	if err := serve(*listen, *opa, *authorities, *certificate, *key, *largest); err != nil {
		log.Fatal(err)
	}
}

func serve(listen, opa, authorities, certificate, key string, largest int64) error {
	target, err := url.Parse(opa)
	if err != nil || target.Scheme != "https" || target.Host == "" {
		return fmt.Errorf("--opa-url: %q is not like https://127.0.0.1:8181", opa)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{
		ReadHeaderTimeout: headersWithin,
		IdleTimeout:       idle,
		MaxHeaderBytes:    16 << 10,
		TLSConfig:         serverTLS(shown(certificate, key)),
		ErrorLog:          log.New(quiet{}, "", 0),
	}
	// To keep none closes those that nobody uses at the moment.
	server.Handler = newProxy(target, trusted(authorities), largest, server.SetKeepAlivesEnabled)
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true) // as OPA serves; one HTTP/2 connection would stand for hundreds of requests
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

// quiet drops what the HTTP library logs of each failed handshake, as anybody can make many.
type quiet struct{}

func (quiet) Write(text []byte) (int, error) { return len(text), nil }
