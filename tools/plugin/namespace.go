package main

// This file reads the namespace of a review from its beginning.

import (
	"bytes"
	"encoding/json"
)

// namespaceOf reads the namespace of a review from the beginning of its text; "" if it is not there. API servers write
// it before the object.
func namespaceOf(beginning []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(beginning))
	if !seek(decoder, "request") || !seek(decoder, "namespace") {
		return ""
	}
	namespace, _ := decoder.Token()
	text, _ := namespace.(string)
	return text
}

// seek moves the decoder into the next object, to the value of the key `wanted`; false if there is no such key.
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

// skip moves the decoder past a value; false if the text ends before.
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
