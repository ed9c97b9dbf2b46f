package main

import (
	"strings"
	"testing"
)

func TestTheNamespaceIsReadFromTheBeginning(t *testing.T) {
	long := strings.Repeat("x", 100)
	for text, want := range map[string]string{
		`{"kind":"AdmissionReview","request":{"uid":"1","kind":{"namespace":"no"},"namespace":"shop","object":{"a":"` + long: "shop",
		`{"request":{"name":"a","namespace":"shop`:  "",
		`{"request":{"namespace":{"a":1}}}`:         "",
		`{"namespace":"no","request":{}}`:           "",
		`[{"request":{"namespace":"no"}}]`:          "",
		`{"request":[{"namespace":"no"}]}`:          "",
		``:                                          "",
		`{"request":{"object":{"namespace":"no"}}}`: "",
	} {
		if got := namespaceOf([]byte(text)); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}
