package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

// counted is the number of values in a decoded document.
func counted(value any) int {
	count := 1
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			count += counted(element)
		}
	case map[string]any:
		for _, element := range value {
			count += counted(element)
		}
	}
	return count
}

// FuzzValues checks that no value of any JSON text is missed.
func FuzzValues(f *testing.F) {
	for _, text := range []string{`{}`, `[[],[]]`, `{"a":{"b":"c"}}`, `["\",[{:"]`, `{"a\\":[1,2.5,null]}`, `"x"`, ` [ 1 , 2 ] `} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var value any
		if json.Unmarshal(text, &value) != nil {
			values(text) // must not panic
			return
		}
		if got, least := values(text)+1, counted(value); got < least {
			t.Fatalf("%d for %d in %q", got, least, bytes.TrimSpace(text))
		}
	})
}
