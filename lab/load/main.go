// Command fairlead-load sends the same POST request to an API server again and again, by several clients at once, and says how
// long each request took. `make bench` measures with it: a client in Python takes as much of the processor as the API server does.
//
// It reads one burst a line from stdin, and writes one result a line to stdout, both as JSON; see burst and result. Connections are
// kept from one burst to the next. It ends at the end of stdin.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// version is set by the linker.
var version = "unknown"

// burst says what to send.
type burst struct {
	URL  string `json:"url"`
	Body string `json:"body"`
	// Clients send at the same time, each its next request as soon as its last one is answered.
	Clients int `json:"clients"`
	// Requests are sent by all clients together.
	Requests int64 `json:"requests"`
}

// result says what became of a burst.
type result struct {
	// Milliseconds of each request, in no particular order, also of those that failed.
	Milliseconds []float64 `json:"milliseconds"`
	// Seconds from the first request to the last answer.
	Seconds float64 `json:"seconds"`
	Failed  int     `json:"failed"`
	// Error is the first one.
	Error string `json:"error"`
}

func main() {
	ca := flag.String("ca-file", "", "CAs that the API server is verified by (PEM)")
	certificate := flag.String("cert-file", "", "certificate of the clients")
	key := flag.String("key-file", "", "its key")
	printVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *printVersion {
		fmt.Println("fairlead-load", version)
		return
	}
	config, err := trust(*ca, *certificate, *key)
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(os.Stdin, os.Stdout, config); err != nil {
		log.Fatal(err)
	}
}

func trust(ca, certificate, key string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate in it", ca)
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: cas, Certificates: []tls.Certificate{pair}}, nil
}

func serve(in io.Reader, out io.Writer, config *tls.Config) error {
	var clients []*http.Client
	lines, results := bufio.NewScanner(in), json.NewEncoder(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var wanted burst
		if err := json.Unmarshal(lines.Bytes(), &wanted); err != nil {
			return fmt.Errorf("stdin: %w", err)
		}
		for len(clients) < wanted.Clients {
			// One connection for each client: without HTTP/2, as TLSClientConfig is set.
			transport := &http.Transport{TLSClientConfig: config, DisableCompression: true}
			clients = append(clients, &http.Client{Transport: transport, Timeout: time.Minute})
		}
		if err := results.Encode(wanted.send(clients[:wanted.Clients])); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (b burst) send(clients []*http.Client) result {
	var left atomic.Int64
	left.Store(b.Requests)
	each := make([]result, len(clients))
	var group sync.WaitGroup
	began := time.Now()
	for i, client := range clients {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				sent := time.Now()
				err := b.post(client)
				each[i].Milliseconds = append(each[i].Milliseconds, time.Since(sent).Seconds()*1000)
				if err != nil {
					each[i].Failed++
					each[i].Error = err.Error()
				}
			}
		})
	}
	group.Wait()
	all := result{Milliseconds: []float64{}, Seconds: time.Since(began).Seconds()}
	for _, one := range each {
		all.Milliseconds = append(all.Milliseconds, one.Milliseconds...)
		all.Failed += one.Failed
		if all.Error == "" {
			all.Error = one.Error
		}
	}
	return all
}

func (b burst) post(client *http.Client) error {
	response, err := client.Post(b.URL, "application/json", strings.NewReader(b.Body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}
