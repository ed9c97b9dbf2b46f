package main

import (
	"bytes"
	"encoding/json"
)

// namespaceOf is the namespace that a review is about, from the beginning of its text; "" where that does not tell. API
// servers write it before the object.
func namespaceOf(beginning []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(beginning))
	if !seek(decoder, "request") || !seek(decoder, "namespace") {
		return ""
	}
	namespace, _ := decoder.Token()
	text, _ := namespace.(string)
	return text
}

// seek reads on to the value of a key of the object that comes next; false where there is none.
func seek(decoder *json.Decoder, wanted string) bool {
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return false
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil || key == wanted {
			return err == nil
		}
		if !skip(decoder) {
			return false
		}
	}
	return false
}

// skip reads over a value.
func skip(decoder *json.Decoder) bool {
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return true
		}
	}
}
