package main

// This file measures reviews for OPA's `/metrics`, where OPA counts the requests to its API alone.

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// measured is a handler whose answers to reviews are measured by their status code. The error is that of registering.
func measured(next http.Handler, registry prometheus.Registerer) (http.Handler, error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "fairlead_review_duration_seconds",
		Help:    "Time from a review's headers to the answer, with the time that it waits for its body and its turn.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 13), // to 30 s, which is `longest`
	}, []string{"code"})
	if err := registry.Register(seconds); err != nil {
		return nil, err
	}
	reviews := promhttp.InstrumentHandlerDuration(seconds, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isReview(r) {
			reviews.ServeHTTP(w, r)
		} else {
			next.ServeHTTP(w, r)
		}
	}), nil
}
