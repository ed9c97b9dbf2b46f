package main

// This file asks the sidecar, which answers reviews of PlacementPolicies.

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// The most bytes of the sidecar's answer to a review.
const largestAnswer = 8 << 20

// sidecar is asked over TLS, on loopback.
type sidecar struct {
	at     string
	client *http.Transport
}

func newSidecar(at url.URL, trust *kept[*tls.Config]) *sidecar {
	at.Path = policyReviews
	return &sidecar{at.String(), &http.Transport{
		MaxIdleConns:       policiesAtOnce,
		IdleConnTimeout:    idle,
		DisableCompression: true,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			config, err := trust.get()
			if err != nil {
				return nil, err
			}
			dialer := tls.Dialer{Config: config.Clone()}
			return dialer.DialContext(ctx, network, address)
		},
	}}
}

// ask returns the sidecar's answer to a review.
func (s *sidecar) ask(ctx context.Context, body []byte) (*answer, *refusal) {
	read, err := s.post(ctx, body)
	switch {
	case err != nil:
		return nil, &refusal{http.StatusBadGateway, fmt.Sprintf("the sidecar does not answer: %v", err)}
	case read.status != http.StatusOK:
		return nil, &refusal{read.status, troubleOf(read)}
	}
	return read, nil
}

func (s *sidecar) post(ctx context.Context, body []byte) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	return jsonAnswer(response.StatusCode, text), err
}

// troubleOf says why an answer of the sidecar is no decision.
func troubleOf(read *answer) string {
	var failure struct{ Message string }
	if json.Unmarshal(read.body, &failure) != nil || failure.Message == "" {
		return fmt.Sprintf("the sidecar cannot decide (status %d): `fairlead status` says why", read.status)
	}
	return fmt.Sprintf("the sidecar cannot decide (status %d): %s", read.status, beginningOf(failure.Message, longestReason))
}
