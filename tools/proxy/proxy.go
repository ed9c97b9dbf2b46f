package main

// This file answers requests by asking OPA, within limits of size, time and number.

import (
	"bytes"
	"context"
	"crypto/tls"
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
	"syscall"
	"time"
)

const (
	// A review above either bound counts as large. Nearly all are smaller: an average pod has 8 KiB and 500 values.
	plainBytes  = 32 << 10
	plainValues = 8_000
	// The namespace of a review is within its first bytes.
	beginning = 4 << 10
	// The most values of a review. OPA takes about 130 MB for so many. The review of an update has 300,000 if its pods are
	// the largest that are not reduced (reduction.go) and each entry is as large as possible.
	mostValues = 400_000

	plainAtOnce = 16 // plain reviews in OPA at a time
	largeAtOnce = 1  // large reviews in OPA at a time
	largeInHand = 8  // large reviews at a time that are read or wait for OPA
	largeShare  = 4  // the same, of one address
	restAtOnce  = 32 // other requests in OPA at a time
	// Reviews of PlacementPolicies at a time: the sidecar compiles one after the other.
	policiesAtOnce = 1

	// The time for a body to arrive is this and a second for each megabyte. A busy machine may need seconds.
	bodyWithin = 5 * time.Second
	// The same for a body that keeps others waiting while it arrives.
	largeWithin = time.Second
	// The longest time that a request waits for OPA. API servers ask for a shorter one with the query `timeout`.
	longest = 30 * time.Second
	// The time for a request with a token and a body to arrive and be answered.
	trustedWithin = 2 * time.Minute
	// The time for a client to read an answer.
	answerWithin = 10 * time.Second
	// The most bytes of OPA's answer to a review.
	largestAnswer = 8 << 20
)

const (
	late = "the body did not arrive in time"
	// While OPA has no policies, or its process has not begun to listen.
	starting = "OPA is starting: retry in a second. If this lasts, `fairlead status` says why"
	// The path at which the sidecar answers reviews of PlacementPolicies, here and there.
	policyReviews = "/placement-policies"
)

var (
	timeout = regexp.MustCompile(`^[0-9]{1,2}s$`)
	// The path by which a webhook asks for the decision of one intent alone.
	ofIntent = regexp.MustCompile(`^/intents/([a-z0-9-]+)$`)
	// The path of one document, or of several, but not of all that OPA has.
	ofDocument = regexp.MustCompile(`^/v[01]/data/.`)
)

// proxy answers requests by asking OPA, each when it is its turn.
type proxy struct {
	opa     url.URL
	sidecar *url.URL // nil if it answers no reviews
	client  http.RoundTripper
	pass    *httputil.ReverseProxy
	largest int64
	journal *journal

	// keep sets whether connections stay open after a request. While OPA is not Ready they are closed, so that clients
	// connect again. The Service then routes them to another OPA.
	keep  func(bool)
	mutex sync.Mutex
	keeps bool

	plain, large, inHand, rest, policies *queue
}

func newProxy(opa, sidecar *url.URL, trust *kept[*tls.Config], largest int64, keep func(bool)) *proxy {
	transport := &http.Transport{
		MaxIdleConns:        2 * restAtOnce,
		MaxIdleConnsPerHost: 2 * restAtOnce,
		IdleConnTimeout:     idle,
		DisableCompression:  true,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			config, err := trust.get()
			if err != nil {
				return nil, err
			}
			config = config.Clone()
			config.ClientSessionCache = sessionsOf{config.ClientSessionCache, address}
			dialer := tls.Dialer{Config: config}
			return dialer.DialContext(ctx, network, address)
		},
	}
	p := &proxy{
		opa: *opa, sidecar: sidecar, client: transport, largest: largest, journal: newJournal(), keep: keep, keeps: true,
		plain: newQueue(plainAtOnce, plainAtOnce), large: newQueue(largeAtOnce, largeAtOnce),
		inHand: newQueue(largeInHand, largeShare), rest: newQueue(restAtOnce, restAtOnce),
		policies: newQueue(policiesAtOnce, policiesAtOnce),
	}
	p.pass = &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = p.opa.Scheme, p.opa.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery // unchanged: OPA decides which queries are valid
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

// ready records whether OPA is Ready, by its answer to a probe; it is not if it does not answer.
func (p *proxy) ready(isReady bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.keeps != isReady {
		p.keeps = isReady
		p.keep(isReady)
	}
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.RequestURI == "/live":
		w.WriteHeader(http.StatusOK) // the proxy itself is alive; OPA answers /health
	case p.sidecar != nil && r.URL.Path == policyReviews && isQuestion(r):
		p.decide(w, r, target{at: url.URL{Path: policyReviews}, sidecar: true})
	case isReview(r):
		p.decide(w, r, target{at: url.URL{Path: "/", RawQuery: r.URL.RawQuery}, intent: intentOf(r.URL.Path)})
	default:
		p.forward(w, r)
	}
}

// isReview says whether a request is a review that OPA's authz policy allows to everyone. Others need credentials.
func isReview(r *http.Request) bool {
	return isQuestion(r) && (r.URL.Path == "/" || ofIntent.MatchString(r.URL.Path))
}

// isAsked says whether an API server asks: about an object, for OPA or for the sidecar.
func isAsked(r *http.Request) bool {
	return isReview(r) || r.URL.Path == policyReviews && isQuestion(r)
}

// isQuestion says whether a request has the form in which API servers ask webhooks.
func isQuestion(r *http.Request) bool {
	query := r.URL.Query()
	timeouts := query["timeout"]
	plain := len(query) == 0 || len(query) == 1 && len(timeouts) == 1 && timeout.MatchString(timeouts[0])
	return plain && r.Method == http.MethodPost && r.ContentLength != 0
}

// target is where OPA is asked: at a path with a query, for the decision of an intent or with credentials. With
// `sidecar`, the sidecar is asked in its place.
type target struct {
	at          url.URL
	intent      string
	credentials []string
	sidecar     bool
}

// isReview says whether the body is an AdmissionReview for OPA.
func (t target) isReview() bool { return t.at.Path == "/" && !t.sidecar }

// decide asks OPA for the decision on a review. Only the beginning of a large one is read before its turn comes.
func (p *proxy) decide(w http.ResponseWriter, r *http.Request, to target) {
	if why, status := p.unreadable(r); why != "" {
		p.refuse(w, r, status, why)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience(r))
	defer cancel()
	body, err := readMore(w, r, nil, min(r.ContentLength, beginning), bodyWithin)
	if err != nil {
		p.refuse(w, r, http.StatusRequestTimeout, late)
		return
	}
	who, within := caller{host(r.RemoteAddr), namespaceOf(body)}, bodyWithin
	if r.ContentLength > plainBytes {
		within = largeWithin
		if err := p.inHand.enter(ctx, who); err != nil {
			p.refuse(w, r, http.StatusServiceUnavailable, "too many large reviews at a time: try again")
			return
		}
		defer p.inHand.leave(who)
	}
	if body, err = readMore(w, r, body, r.ContentLength, within); err != nil {
		p.refuse(w, r, http.StatusRequestTimeout, late)
		return
	}
	p.decideInTurn(ctx, w, r, to, who, body)
}

func (p *proxy) decideInTurn(
	ctx context.Context, w http.ResponseWriter, r *http.Request, to target, who caller, body []byte,
) {
	queue, count := p.plain, values(body)
	if count > surelySmall && to.isReview() {
		if text := reduced(body); text != nil {
			body, count = text, values(text)
		}
	}
	if count > mostValues {
		p.refuse(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("more than %d values", mostValues))
		return
	}
	if count > plainValues || len(body) > plainBytes {
		queue = p.large
	}
	if to.sidecar {
		queue = p.policies
	}
	if err := queue.enter(ctx, who); err != nil {
		p.refuse(w, r, http.StatusServiceUnavailable, "busy with other reviews: try again")
		return
	}
	decision, err := p.send(ctx, http.MethodPost, to, withIntent(to.intent, body))
	queue.leave(who)
	if err != nil && to.sidecar {
		p.refuse(w, r, http.StatusBadGateway, fmt.Sprintf("the sidecar does not answer: %v", err))
		return
	}
	if err != nil {
		p.away(w, r, err)
		return
	}
	if decision.status != http.StatusOK && isAsked(r) {
		status := decision.status
		if status == http.StatusNotFound {
			status = http.StatusServiceUnavailable // it comes to be there
		}
		p.refuse(w, r, status, decision.trouble(to))
		return
	}
	if decision.status == http.StatusOK {
		p.journal.decided(who.address)
	}
	decision.write(w)
}

// intentOf returns the intent that the path of a webhook names; "" if it names none.
func intentOf(path string) string {
	if named := ofIntent.FindStringSubmatch(path); named != nil {
		return named[1]
	}
	return ""
}

// withIntent adds the intent to the review, as `"intents": [NAME]`. OPA cannot see the path of a webhook otherwise: it
// answers a decision at `/` alone, from the body alone.
func withIntent(intent string, body []byte) []byte {
	fields, isObject := bytes.CutPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
	if intent == "" || !isObject {
		return body
	}
	return append(fmt.Appendf(nil, `{"intents":[%q],`, intent), fields...)
}

// unreadable returns why a review's body is not read, and the status for that; "" if it is read.
func (p *proxy) unreadable(r *http.Request) (string, int) {
	switch {
	case r.Header.Get("Content-Encoding") != "":
		return "the body is compressed: send it uncompressed", http.StatusBadRequest
	case strings.Contains(r.Header.Get("Content-Type"), "yaml"):
		return "the body is YAML: send JSON", http.StatusUnsupportedMediaType
	case r.ContentLength < 0:
		return "the length is missing: send a Content-Length", http.StatusLengthRequired
	case r.ContentLength > p.largest:
		return fmt.Sprintf("more than %d bytes", p.largest), http.StatusRequestEntityTooLarge
	}
	return "", 0
}

// readMore returns the first `size` bytes of a body; `body` are those that were read before. It fails if the rest takes
// longer than `within` and a second for each megabyte.
func readMore(w http.ResponseWriter, r *http.Request, body []byte, size int64, within time.Duration) ([]byte, error) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(within + time.Duration(size)*time.Microsecond))
	all := make([]byte, size)
	if _, err := io.ReadFull(r.Body, all[copy(all, body):]); err != nil {
		return nil, err
	}
	return all, control.SetReadDeadline(time.Time{}) // the server goes on reading, to notice a closed connection
}

// send sends OPA a request and reads its whole answer first, so that a slow client does not keep others from OPA.
func (p *proxy) send(ctx context.Context, method string, to target, body []byte) (answer, error) {
	at := p.opa
	if to.sidecar {
		at = *p.sidecar
	}
	at.Path, at.RawPath, at.RawQuery = to.at.Path, to.at.RawPath, to.at.RawQuery
	request, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header["Authorization"] = to.credentials
	response, err := p.client.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	return answer{response.StatusCode, response.Header.Get("Content-Type"), text}, err
}

// answer is an answer of OPA.
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

// trouble says, to those whose request is refused for it, why an answer of OPA or the sidecar is no decision.
func (a answer) trouble(to target) string {
	who := "OPA"
	switch {
	case to.sidecar:
		who = "the sidecar"
	case a.status == http.StatusNotFound:
		return starting // OPA has no policies yet
	}
	var failure struct{ Message string }
	if json.Unmarshal(a.body, &failure) != nil || failure.Message == "" {
		return fmt.Sprintf("%s cannot decide (status %d): `fairlead status` says why", who, a.status)
	}
	message := []rune(failure.Message)
	return fmt.Sprintf("%s cannot decide (status %d): %s", who, a.status, string(message[:min(len(message), 200)]))
}

// forward passes on a request that is not a review. One with a body is passed on only if OPA's authz policy allows it.
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
		r.Body, r.ContentLength = http.NoBody, 0 // a body has no meaning here (RFC 9110, 9.3.1)
		p.hand(w, r.WithContext(ctx), longest)
	default:
		p.letIn(ctx, w, r)
	}
}

// letIn asks OPA whether it accepts the credentials of a request with a body, and passes it on if so.
//
// The question is `GET /` with the same credentials and no body. Without a token, OPA's authz policy allows only
// `POST /` and health, so that its answer also applies to the request itself. OPA checks the request again when it
// gets it.
//
// The token of a scope opens less than `GET /`. So if that is refused, and the request asks for a document, which
// changes nothing, the question is the request itself without its body. Who has such a token is not trusted to send
// what OPA cannot take: its body has the limits of a review.
func (p *proxy) letIn(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	credentials := r.Header["Authorization"]
	response, err := p.send(ctx, http.MethodGet, target{at: url.URL{Path: "/"}, credentials: credentials}, nil)
	if err == nil && response.status < http.StatusBadRequest {
		p.hand(w, r, trustedWithin)
		return
	}
	if err == nil && response.status == http.StatusUnauthorized && asksForDocument(r) {
		to := target{at: *r.URL, credentials: credentials}
		response, err = p.send(ctx, http.MethodPost, to, nil)
		if err == nil && response.status != http.StatusUnauthorized {
			p.decide(w, r.WithContext(ctx), to)
			return
		}
	}
	if err != nil {
		p.away(w, r, err)
		return
	}
	response.write(w)
}

// asksForDocument says whether a request with credentials asks OPA for a document, by an input.
func asksForDocument(r *http.Request) bool {
	return r.Method == http.MethodPost && len(r.Header["Authorization"]) > 0 && ofDocument.MatchString(r.URL.Path)
}

// hand passes a request on to OPA unchanged, and OPA's answer back.
func (p *proxy) hand(w http.ResponseWriter, r *http.Request, within time.Duration) {
	end := time.Now().Add(within)
	control := http.NewResponseController(w)
	control.SetReadDeadline(end)
	control.SetWriteDeadline(end)
	p.pass.ServeHTTP(w, r)
}

// away answers a request for which OPA gave no answer.
func (p *proxy) away(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		panic(http.ErrAbortHandler) // the client has gone
	}
	p.ready(false)
	why := fmt.Sprintf("OPA does not answer: %v", err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		why = starting
	case errors.Is(err, context.DeadlineExceeded):
		why = "OPA did not answer in time: retry in a second. If this lasts, `fairlead status` says why"
	}
	p.refuse(w, r, http.StatusBadGateway, why)
}

// refuse answers why there is no decision, and logs it. API servers get a Status, whose message they show; others get
// the form of OPA's errors.
func (p *proxy) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	p.journal.refuse(host(r.RemoteAddr), why)
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(largeWithin)) // the server reads the rest of the body
	refusal := map[string]any{"code": "refused_by_proxy", "message": why}
	if isAsked(r) {
		refusal = map[string]any{
			"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "message": why, "code": status,
		}
	}
	text, _ := json.Marshal(refusal)
	answer{status, "application/json", text}.write(w)
}

// patience is the time that the client waits for an answer.
func patience(r *http.Request) time.Duration {
	if timeouts := r.URL.Query()["timeout"]; len(timeouts) == 1 && timeout.MatchString(timeouts[0]) {
		if wait, err := time.ParseDuration(timeouts[0]); err == nil && wait > 0 && wait < longest {
			return wait
		}
	}
	return longest
}
