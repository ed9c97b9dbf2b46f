package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestReviewsAreMeasuredByTheCodeOfTheirAnswer(t *testing.T) {
	registry := prometheus.NewRegistry()
	handler, err := measured(newFront(always("{}"), nil, 4, func(bool) {}), registry)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	for _, body := range []string{"{}", "{}", "[1,2]"} {
		if _, err := http.Post(server.URL, "application/json", strings.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := http.Get(server.URL + "/live"); err != nil {
		t.Fatal(err)
	}
	server.Close() // all is measured when the last answer is written
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	counts := map[string]uint64{}
	for _, metric := range families[0].Metric {
		counts[metric.Label[0].GetValue()] = metric.Histogram.GetSampleCount()
	}
	if len(counts) != 2 || counts["200"] != 2 || counts["413"] != 1 {
		t.Error(counts)
	}
	if _, err := measured(handler, registry); err == nil {
		t.Error("the same metric is registered twice")
	}
}
