package main

// This file holds an answer until it is sent.

import (
	"net/http"
	"time"
)

// answer records what a handler answers, so that a slow client does not keep others from their turn.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func jsonAnswer(status int, body []byte) *answer {
	return &answer{status, http.Header{"Content-Type": {"application/json"}}, body}
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(text []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, text...)
	return len(text), nil
}

// write sends the answer.
func (a *answer) write(w http.ResponseWriter) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerWithin))
	w.Header()["Content-Type"] = a.Header()["Content-Type"]
	a.WriteHeader(http.StatusOK) // a handler that writes nothing has succeeded
	w.WriteHeader(a.status)
	w.Write(a.body)
}
