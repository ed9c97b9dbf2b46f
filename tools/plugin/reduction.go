package main

// This file reduces reviews of objects that are too large. OPA is not told what they contain, but that they are too large.

import (
	"bytes"
	"encoding/json"
	"fmt"
)

const (
	// Up to so many values, an object is small enough without a look at it: it cannot have the values, nor the parts, of
	// which each has two values at least.
	surelySmall = 2_000
	// What a reduced review begins with, and whether anything changes that policies judge (policies/review/review.rego).
	// Policies of a version that does not know such reviews refuse them.
	reducedReview = `{"apiVersion":"fairlead.dev/v1","kind":"ReducedReview","changes":%t,"request":`
)

// reduced returns a review without its objects if one of them is too large; otherwise nil. It says whether anything changes
// that policies judge, because finalizers and status of existing objects can always be changed. A caller who sends such a
// review itself learns what OPA answers to it, and nobody else does.
func reduced(body []byte) []byte {
	if !json.Valid(body) {
		return nil
	}
	found := inspect(body)
	of, isKnown := limits.Groups[limits.Kinds[found.kind]]
	if !isKnown || !sizeOf(found.object, of).tooLarge() && !sizeOf(found.oldObject, of).tooLarge() {
		return nil
	}
	changes := found.operation != "UPDATE" || !sameForPolicies(found.object, found.oldObject)
	return withoutObjects(found.request, changes)
}

// inspected is what decides whether a review is reduced. The texts are parts of it, nil for what it lacks.
type inspected struct {
	request, object, oldObject []byte
	kind, operation            string
}

func inspect(body []byte) inspected {
	var found inspected
	eachMember(body, func(name string, value []byte) {
		if name == "request" { // of a key that occurs twice, OPA reads the last
			found = inspected{request: value}
		}
	})
	eachMember(found.request, func(name string, value []byte) {
		switch name {
		case "kind":
			found.kind = pathOf(value)
		case "operation":
			found.operation = stringOf(value)
		case "object":
			found.object = value
		case "oldObject":
			found.oldObject = value
		}
	})
	return found
}

// pathOf returns a kind as `group/Kind`.
func pathOf(kind []byte) string {
	var group, name string
	eachMember(kind, func(field string, value []byte) {
		switch field {
		case "group":
			group = stringOf(value)
		case "kind":
			name = stringOf(value)
		}
	})
	return group + "/" + name
}

// stringOf returns what a JSON string says; "" for any other value.
func stringOf(value []byte) string {
	if value[0] != '"' {
		return ""
	}
	return string(unescaped(value))
}

// sameForPolicies says whether two versions of an object have the same spec, labels and annotations. API servers write
// equal values as equal texts.
func sameForPolicies(object, oldObject []byte) bool {
	if object == nil || oldObject == nil {
		return false
	}
	one, other := judgedOf(object), judgedOf(oldObject)
	for at := range one {
		if !bytes.Equal(one[at], other[at]) {
			return false
		}
	}
	return true
}

// judgedOf returns the texts of an object's spec, labels and annotations.
func judgedOf(object []byte) (judged [3][]byte) {
	eachMember(object, func(name string, value []byte) {
		switch name {
		case "spec":
			judged[0] = value
		case "metadata":
			eachMember(value, func(name string, value []byte) {
				switch name {
				case "labels":
					judged[1] = value
				case "annotations":
					judged[2] = value
				}
			})
		}
	})
	return judged
}

// withoutObjects returns the reduced review of a request.
func withoutObjects(request []byte, changes bool) []byte {
	rest := selected(request, func(name string, value []byte) []byte {
		if name == "object" || name == "oldObject" {
			return namesOf(value)
		}
		return value
	})
	return append(append(fmt.Appendf(nil, reducedReview, changes), rest...), '}')
}

// namesOf returns an object with no more than what says which one it is; another value as it is.
func namesOf(object []byte) []byte {
	return selected(object, func(name string, value []byte) []byte {
		switch name {
		case "apiVersion", "kind":
			return value
		case "metadata":
			return selected(value, func(name string, value []byte) []byte {
				if name == "name" || name == "namespace" || name == "generateName" {
					return value
				}
				return nil
			})
		}
		return nil
	})
}

// selected returns an object with the values that `choose` returns, without those for which it returns nil. A value that
// is not an object is returned as it is.
func selected(object []byte, choose func(name string, value []byte) []byte) []byte {
	if (&scanner{text: object}).next() != '{' {
		return object
	}
	text := []byte{'{'}
	eachMember(object, func(name string, value []byte) {
		chosen := choose(name, value)
		if chosen == nil {
			return
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		quoted, _ := json.Marshal(name) // a string can always be written
		text = append(append(append(text, quoted...), ':'), chosen...)
	})
	return append(text, '}')
}

// eachMember calls `visit` with each key of an object and its value; never for another value, or none.
func eachMember(object []byte, visit func(name string, value []byte)) {
	if object == nil {
		return
	}
	text := &scanner{text: object}
	text.members(func(key []byte) { visit(string(key), text.value()) })
}
