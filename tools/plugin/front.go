package main

// This file answers requests within limits of size, time and number: reviews by the policies, others by OPA's API.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
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

	plainAtOnce = 16 // plain reviews that are decided at a time
	largeAtOnce = 1  // large reviews that are decided at a time
	largeInHand = 8  // large reviews at a time that are read or wait
	largeShare  = 4  // the same, of one address
	restAtOnce  = 32 // other requests at a time

	// The time for a body to arrive is this and a second for each megabyte. A busy machine may need seconds.
	bodyWithin = 5 * time.Second
	// The same for a body that keeps others waiting while it arrives.
	largeWithin = time.Second
	// The longest time that a request waits for an answer. API servers ask for a shorter one with the query `timeout`.
	longest = 30 * time.Second
	// The time for a request with a token and a body to arrive and be answered.
	trustedWithin = 2 * time.Minute
	// The time for a client to read an answer.
	answerWithin = 10 * time.Second
	// The late answers to probes in a row after which OPA is not Ready, as for the readinessProbe of its pod: after fewer,
	// the Service still routes to it.
	lateProbes = 2
)

const (
	late = "the body did not arrive in time"
	// While OPA has no policies, or has not begun to serve.
	starting = "OPA is starting: retry in a second. If this lasts, `fairlead status` says why"
	slow     = "OPA did not answer in time: retry in a second. If this lasts, `fairlead status` says why"
	// The most characters of another program's reason that a refusal repeats.
	longestReason = 200
)

var (
	timeout = regexp.MustCompile(`^[0-9]{1,2}s$`)
	// The path by which a webhook asks for the decision of one intent alone.
	ofIntent = regexp.MustCompile(`^/intents/([a-z0-9-]+)$`)
	// The path of one document, or of several, but not of all that OPA has.
	ofDocument = regexp.MustCompile(`^/v[01]/data/.`)
)

// decide returns the answer to a review that came from an address: of all intents, or of one.
type decide func(ctx context.Context, body []byte, intent, from string) ([]byte, error)

// front answers each request when it is its turn.
type front struct {
	decide  decide
	api     *api
	largest int64
	journal *journal

	// keep sets whether connections stay open after a request. While OPA is not Ready they are closed, so that clients
	// connect again. The Service then routes them to another OPA.
	keep  func(bool)
	mutex sync.Mutex
	keeps bool
	late  atomic.Int32 // late answers to probes in a row

	plain, large, inHand, rest *queue
}

func newFront(decide decide, api *api, largest int64, keep func(bool)) *front {
	return &front{
		decide: decide, api: api, largest: largest, journal: newJournal(), keep: keep, keeps: true,
		plain: newQueue(plainAtOnce, plainAtOnce), large: newQueue(largeAtOnce, largeAtOnce),
		inHand: newQueue(largeInHand, largeShare), rest: newQueue(restAtOnce, restAtOnce),
	}
}

// ready records whether OPA is Ready, by its answer to a probe; isLate says that the client has not waited for it.
//
// While OPA is late, clients connect again after their next answer. Their idle connections stay open: a client that
// writes to one while it is closed gets no answer, and a busy machine is no reason for that.
func (f *front) ready(isReady, isLate bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if !isReady && isLate {
		f.late.Add(1)
		return
	}
	f.late.Store(0)
	if f.keeps != isReady {
		f.keeps = isReady
		f.keep(isReady)
	}
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.late.Load() >= lateProbes {
		w.Header().Set("Connection", "close")
	}
	switch {
	case r.Method == http.MethodGet && r.RequestURI == "/live":
		w.WriteHeader(http.StatusOK) // the process is alive, whatever it can decide
	case isReview(r):
		f.limit(w, r, f.aboutReview(r))
	default:
		f.forward(w, r)
	}
}

// isReview says whether a request is a review, in the form in which API servers ask webhooks, that OPA's authz policy
// allows to everyone. Others need credentials.
func isReview(r *http.Request) bool {
	query := r.URL.Query()
	timeouts := query["timeout"]
	plain := len(query) == 0 || len(query) == 1 && len(timeouts) == 1 && timeout.MatchString(timeouts[0])
	isOfWebhook := r.URL.Path == "/" || ofIntent.MatchString(r.URL.Path)
	return plain && isOfWebhook && r.Method == http.MethodPost && r.ContentLength != 0
}

// question is a request that is answered within the limits of a review.
type question struct {
	canBeReduced bool // whether it is asked without objects that are too large
	answer       func(ctx context.Context, body []byte) (*answer, *refusal)
}

// refusal is why a request is not answered, and the status for that.
type refusal struct {
	status int
	why    string
}

// aboutReview asks the policies.
func (f *front) aboutReview(r *http.Request) question {
	return question{canBeReduced: true, answer: func(ctx context.Context, body []byte) (*answer, *refusal) {
		text, err := f.decide(ctx, body, intentOf(r.URL.Path), r.RemoteAddr)
		if err != nil {
			return nil, refusalFor(err)
		}
		f.journal.decided(host(r.RemoteAddr))
		return jsonAnswer(http.StatusOK, text), nil
	}}
}

// aboutDocument asks OPA's API, for a caller who may ask for a document and is trusted with nothing else.
func (f *front) aboutDocument(r *http.Request) question {
	return question{answer: func(ctx context.Context, body []byte) (*answer, *refusal) {
		request := r.WithContext(ctx)
		request.Body = io.NopCloser(bytes.NewReader(body))
		read := &answer{}
		f.api.ServeHTTP(read, request)
		return read, nil
	}}
}

// limit answers a question. Only the beginning of a large body is read before its turn comes.
func (f *front) limit(w http.ResponseWriter, r *http.Request, asked question) {
	if refused := f.unreadable(r); refused != nil {
		f.refuse(w, r, refused)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience(r))
	defer cancel()
	body, err := readMore(w, r, nil, min(r.ContentLength, beginning), bodyWithin)
	if err != nil {
		f.refuse(w, r, &refusal{http.StatusRequestTimeout, late})
		return
	}
	who, within := caller{host(r.RemoteAddr), namespaceOf(body)}, bodyWithin
	if r.ContentLength > plainBytes {
		within = largeWithin
		if err := f.inHand.enter(ctx, who); err != nil {
			f.refuse(w, r, &refusal{http.StatusServiceUnavailable, "too many large reviews at a time: try again"})
			return
		}
		defer f.inHand.leave(who)
	}
	if body, err = readMore(w, r, body, r.ContentLength, within); err != nil {
		f.refuse(w, r, &refusal{http.StatusRequestTimeout, late})
		return
	}
	answered, refused := f.inTurn(ctx, asked, who, body)
	switch {
	case errors.Is(r.Context().Err(), context.Canceled):
		panic(http.ErrAbortHandler) // the client has gone
	case refused != nil:
		f.refuse(w, r, refused)
	default:
		answered.write(w)
	}
}

// inTurn answers when it is the caller's turn. A small body waits only for other small ones.
func (f *front) inTurn(ctx context.Context, asked question, who caller, body []byte) (*answer, *refusal) {
	count := values(body)
	if count > surelySmall && asked.canBeReduced {
		if text := reduced(body); text != nil {
			body, count = text, values(text)
		}
	}
	if count > mostValues {
		return nil, &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("more than %d values", mostValues)}
	}
	turns := f.plain
	if count > plainValues || len(body) > plainBytes {
		turns = f.large
	}
	if err := turns.enter(ctx, who); err != nil {
		return nil, &refusal{http.StatusServiceUnavailable, "busy with other reviews: try again"}
	}
	defer turns.leave(who)
	return asked.answer(ctx, body)
}

// intentOf returns the intent that the path of a webhook names; "" if it names none.
func intentOf(path string) string {
	if named := ofIntent.FindStringSubmatch(path); named != nil {
		return named[1]
	}
	return ""
}

// unreadable returns why a body is not read; nil if it is.
func (f *front) unreadable(r *http.Request) *refusal {
	switch {
	case r.Header.Get("Content-Encoding") != "":
		return &refusal{http.StatusBadRequest, "the body is compressed: send it uncompressed"}
	case strings.Contains(r.Header.Get("Content-Type"), "yaml"):
		return &refusal{http.StatusUnsupportedMediaType, "the body is YAML: send JSON"}
	case r.ContentLength < 0:
		return &refusal{http.StatusLengthRequired, "the length is missing: send a Content-Length"}
	case r.ContentLength > f.largest:
		return &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("more than %d bytes", f.largest)}
	}
	return nil
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

// forward hands a request that is not a review to OPA's API. One with a body is read only if OPA's authz policy allows it.
func (f *front) forward(w http.ResponseWriter, r *http.Request) {
	if !f.api.isServed() {
		f.refuse(w, r, &refusal{http.StatusServiceUnavailable, starting})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	who := caller{address: host(r.RemoteAddr)}
	if err := f.rest.enter(ctx, who); err != nil {
		f.refuse(w, r, &refusal{http.StatusServiceUnavailable, "OPA was busy with other requests"})
		return
	}
	defer f.rest.leave(who)
	switch {
	case r.ContentLength == 0 || r.Method == http.MethodGet || r.Method == http.MethodHead:
		r.Body, r.ContentLength = http.NoBody, 0 // a body has no meaning here (RFC 9110, 9.3.1)
		f.hand(w, r.WithContext(ctx), longest)
	default:
		f.letIn(ctx, w, r)
	}
}

// letIn asks OPA whether it accepts the credentials of a request with a body, and hands it on if so.
//
// The question is `GET /` with the same credentials and no body. Without a token, OPA's authz policy allows only
// `POST /` and health, so that its answer also applies to the request itself. OPA checks the request again when it
// gets it.
//
// The token of a scope opens less than `GET /`. So if that is refused, and the request asks for a document, which
// changes nothing, the question is the request itself without its body. Who has such a token is not trusted to send
// what OPA cannot take: its body has the limits of a review.
func (f *front) letIn(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	refused := f.api.refusal(withoutBody(ctx, r, http.MethodGet, &url.URL{Path: "/"}))
	if refused == nil {
		f.hand(w, r, trustedWithin)
		return
	}
	if refused.status == http.StatusUnauthorized && asksForDocument(r) {
		if refused = f.api.refusal(withoutBody(ctx, r, r.Method, r.URL)); refused == nil {
			f.limit(w, r.WithContext(ctx), f.aboutDocument(r))
			return
		}
	}
	refused.write(w)
}

// withoutBody is a request with the credentials of another one.
func withoutBody(ctx context.Context, of *http.Request, method string, at *url.URL) *http.Request {
	request := &http.Request{Method: method, URL: at, Header: http.Header{}, Body: http.NoBody, RemoteAddr: of.RemoteAddr}
	request.Header["Authorization"] = of.Header["Authorization"]
	return request.WithContext(ctx)
}

// asksForDocument says whether a request with credentials asks OPA for a document, by an input.
func asksForDocument(r *http.Request) bool {
	return r.Method == http.MethodPost && len(r.Header["Authorization"]) > 0 && ofDocument.MatchString(r.URL.Path)
}

// hand has OPA's API answer a request.
func (f *front) hand(w http.ResponseWriter, r *http.Request, within time.Duration) {
	end := time.Now().Add(within)
	control := http.NewResponseController(w)
	control.SetReadDeadline(end)
	control.SetWriteDeadline(end)
	if r.URL.Path != "/health/ready" {
		f.api.ServeHTTP(w, r)
		return
	}
	probed := &answer{}
	f.api.ServeHTTP(probed, r)
	f.ready(probed.status == http.StatusOK, r.Context().Err() != nil)
	probed.write(w)
}

// refuse answers why there is no decision, and logs it. API servers get a Status, whose message they show; others get
// the form of OPA's errors.
func (f *front) refuse(w http.ResponseWriter, r *http.Request, refused *refusal) {
	f.journal.refuse(host(r.RemoteAddr), refused.why)
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(largeWithin)) // the server reads the rest of the body
	body := map[string]any{"code": "refused_by_fairlead", "message": refused.why}
	if isReview(r) {
		body = map[string]any{
			"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
			"message": refused.why, "code": refused.status,
		}
	}
	text, _ := json.Marshal(body) // texts and numbers can always be written
	jsonAnswer(refused.status, text).write(w)
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
