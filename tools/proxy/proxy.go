package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// A review is plain within these bounds, as nearly every one is: an average pod has 8 KiB and 500 values.
	plainBytes  = 32 << 10
	plainValues = 8_000
	// In so many bytes a review tells its namespace.
	beginning = 4 << 10
	// One of so many takes OPA some 130 MB. A review of an update, of the largest pods that an API server lets through
	// (fairlead.deployment.pod_sizes) with each entry as large as it can be, has 300,000.
	mostValues = 400_000

	plainAtOnce = 16 // reviews that OPA has at a time
	largeAtOnce = 1
	largeInHand = 8 // large ones that are read, or wait for OPA, at a time
	largeShare  = 4 // of one address
	restAtOnce  = 32

	// For a body to arrive: this and a second for each megabyte.
	bodyWithin = time.Second
	// For who waits no longer than it says by `timeout`, as API servers do, and for who says nothing.
	longest = 30 * time.Second
	// For a body of who has a token, to arrive and be worked on.
	trustedWithin = 2 * time.Minute
	// For an answer to be taken.
	answerWithin = 10 * time.Second
	// Of OPA's answer to a review.
	largestAnswer = 8 << 20
)

const late = "the body did not arrive in time"

var timeout = regexp.MustCompile(`^[0-9]{1,2}s$`)

// proxy answers requests by asking OPA, when it is their turn.
type proxy struct {
	opa     url.URL
	client  http.RoundTripper
	pass    *httputil.ReverseProxy
	largest int64
	journal *journal

	// keep says whether connections are kept after a request. Those to an OPA that is not Ready are closed, so that who
	// has them comes to another one: a Service sends nobody new here.
	keep  func(bool)
	mutex sync.Mutex
	keeps bool

	plain, large, inHand, rest *queue
}

func newProxy(opa *url.URL, authorities *kept[*x509.CertPool], largest int64, keep func(bool)) *proxy {
	transport := &http.Transport{
		MaxIdleConns:        2 * restAtOnce,
		MaxIdleConnsPerHost: 2 * restAtOnce,
		IdleConnTimeout:     idle,
		DisableCompression:  true,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			pool, err := authorities.get()
			if err != nil {
				return nil, err
			}
			dialer := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}}
			return dialer.DialContext(ctx, network, address)
		},
	}
	p := &proxy{
		opa: *opa, client: transport, largest: largest, journal: newJournal(), keep: keep, keeps: true,
		plain: newQueue(plainAtOnce, plainAtOnce), large: newQueue(largeAtOnce, largeAtOnce),
		inHand: newQueue(largeInHand, largeShare), rest: newQueue(restAtOnce, restAtOnce),
	}
	p.pass = &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = p.opa.Scheme, p.opa.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery // as it came: what of it is valid is for OPA to say
		},
		ModifyResponse: func(response *http.Response) error {
			if response.Request.URL.Path == "/health/ready" {
				p.ready(response.StatusCode == http.StatusOK)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { p.away(w, r, err) },
	}
	return p
}

// ready takes to heart what OPA says to a probe, or that it does not answer.
func (p *proxy) ready(is bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.keeps != is {
		p.keeps = is
		p.keep(is)
	}
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.RequestURI == "/live":
		w.WriteHeader(http.StatusOK) // that this program turns; /health is OPA's
	case isReview(r):
		p.decide(w, r)
	default:
		p.forward(w, r)
	}
}

// isReview says whether a request is one that OPA's guard lets in from everyone. Others go with their credentials.
func isReview(r *http.Request) bool {
	query := r.URL.Query()
	timeouts := query["timeout"]
	plain := len(query) == 0 || len(query) == 1 && len(timeouts) == 1 && timeout.MatchString(timeouts[0])
	return plain && r.Method == http.MethodPost && r.URL.Path == "/" && r.ContentLength != 0
}

// decide has OPA decide about a review. Of a large one only the beginning is read before its turn comes.
func (p *proxy) decide(w http.ResponseWriter, r *http.Request) {
	if why, status := p.unreadable(r); why != "" {
		p.refuse(w, r, status, why)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience(r))
	defer cancel()
	body, err := readMore(w, r, nil, min(r.ContentLength, beginning))
	if err != nil {
		p.refuse(w, r, http.StatusRequestTimeout, late)
		return
	}
	who := caller{host(r.RemoteAddr), namespaceOf(body)}
	if r.ContentLength > plainBytes {
		if err := p.inHand.enter(ctx, who); err != nil {
			p.refuse(w, r, http.StatusServiceUnavailable, "other large reviews were in hand")
			return
		}
		defer p.inHand.leave(who)
	}
	if body, err = readMore(w, r, body, r.ContentLength); err != nil {
		p.refuse(w, r, http.StatusRequestTimeout, late)
		return
	}
	p.decideInTurn(ctx, w, r, who, body)
}

func (p *proxy) decideInTurn(ctx context.Context, w http.ResponseWriter, r *http.Request, who caller, body []byte) {
	queue, count := p.plain, values(body)
	if count > mostValues {
		p.refuse(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("more than %d values", mostValues))
		return
	}
	if count > plainValues || len(body) > plainBytes {
		queue = p.large
	}
	if err := queue.enter(ctx, who); err != nil {
		p.refuse(w, r, http.StatusServiceUnavailable, "OPA was busy with other reviews")
		return
	}
	decision, err := p.ask(ctx, r.URL.RawQuery, body)
	queue.leave(who)
	if err != nil {
		p.away(w, r, err)
		return
	}
	if decision.status == http.StatusOK {
		p.journal.decided(who.address)
	}
	decision.write(w)
}

// unreadable is why a review's body is not read, and the status for that; "" where it is.
func (p *proxy) unreadable(r *http.Request) (string, int) {
	switch {
	case r.Header.Get("Content-Encoding") != "":
		return "the body is packed: send it as it is", http.StatusBadRequest
	case strings.Contains(r.Header.Get("Content-Type"), "yaml"):
		return "the body is YAML: send JSON", http.StatusUnsupportedMediaType
	case r.ContentLength < 0:
		return "the length is not told: send a Content-Length", http.StatusLengthRequired
	case r.ContentLength > p.largest:
		return fmt.Sprintf("more than %d bytes", p.largest), http.StatusRequestEntityTooLarge
	}
	return "", 0
}

// readMore is a body up to `size` bytes, of which `body` was read. What is slower than bodyWithin allows is an error.
func readMore(w http.ResponseWriter, r *http.Request, body []byte, size int64) ([]byte, error) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(bodyWithin + time.Duration(size)*time.Microsecond))
	all := make([]byte, size)
	if _, err := io.ReadFull(r.Body, all[copy(all, body):]); err != nil {
		return nil, err
	}
	return all, control.SetReadDeadline(time.Time{}) // from now on the connection is watched for its end
}

// ask has OPA decide about a review; `query` is passed on.
func (p *proxy) ask(ctx context.Context, query string, body []byte) (answer, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	return p.send(ctx, http.MethodPost, query, header, body)
}

// send sends OPA a request to `/`, and takes all of its answer: nobody who is slow to take it keeps others from OPA.
func (p *proxy) send(ctx context.Context, method, query string, header http.Header, body []byte) (answer, error) {
	at := p.opa
	at.Path, at.RawQuery = "/", query
	request, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header = header
	response, err := p.client.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	return answer{response.StatusCode, response.Header.Get("Content-Type"), text}, err
}

// answer is what OPA said.
type answer struct {
	status int
	kind   string
	body   []byte
}

func (a answer) write(w http.ResponseWriter) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerWithin))
	w.Header().Set("Content-Type", a.kind)
	w.WriteHeader(a.status)
	w.Write(a.body)
}

// forward passes on a request other than a review; one with a body only for whom OPA's guard lets in.
func (p *proxy) forward(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	who := caller{address: host(r.RemoteAddr)}
	if err := p.rest.enter(ctx, who); err != nil {
		p.refuse(w, r, http.StatusServiceUnavailable, "OPA was busy with other requests")
		return
	}
	defer p.rest.leave(who)
	switch {
	case r.ContentLength == 0 || r.Method == http.MethodGet || r.Method == http.MethodHead:
		r.Body, r.ContentLength = http.NoBody, 0 // a body here means nothing (RFC 9110, 9.3.1)
		p.hand(w, r.WithContext(ctx), longest)
	case p.letIn(ctx, w, r):
		p.hand(w, r, trustedWithin)
	}
}

// letIn asks OPA's guard whether it lets in who sends a request, and answers where not.
//
// The guard is asked by a request with the same credentials and no body. It lets nobody in without a token but for
// `POST /` and health, so that what it says of the one request goes for the other, too; and if not, it is asked about
// that one again.
func (p *proxy) letIn(ctx context.Context, w http.ResponseWriter, r *http.Request) bool {
	said, err := p.send(ctx, http.MethodGet, "", http.Header{"Authorization": r.Header["Authorization"]}, nil)
	switch {
	case err != nil:
		p.away(w, r, err)
	case said.status >= http.StatusBadRequest:
		said.write(w)
	default:
		return true
	}
	return false
}

// hand passes a request on as it is, and its answer back.
func (p *proxy) hand(w http.ResponseWriter, r *http.Request, within time.Duration) {
	end := time.Now().Add(within)
	control := http.NewResponseController(w)
	control.SetReadDeadline(end)
	control.SetWriteDeadline(end)
	p.pass.ServeHTTP(w, r)
}

// away answers for an OPA that does not.
func (p *proxy) away(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		panic(http.ErrAbortHandler) // who asked has gone
	}
	p.ready(false)
	p.refuse(w, r, http.StatusBadGateway, fmt.Sprintf("OPA does not answer: %v", err))
}

// refuse answers in the form of OPA's own errors, and logs it.
func (p *proxy) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	p.journal.refuse(host(r.RemoteAddr), why)
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin)) // of what was not read of the body
	text, _ := json.Marshal(map[string]string{"code": "refused_by_proxy", "message": why})
	answer{status, "application/json", text}.write(w)
}

// patience is how long who asks will wait.
func patience(r *http.Request) time.Duration {
	if timeouts := r.URL.Query()["timeout"]; len(timeouts) == 1 && timeout.MatchString(timeouts[0]) {
		if wait, err := time.ParseDuration(timeouts[0]); err == nil && wait > 0 && wait < longest {
			return wait
		}
	}
	return longest
}
