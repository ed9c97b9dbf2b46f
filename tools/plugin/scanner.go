package main

import (
	"bytes"
	"encoding/json"
)

// scanner reads a JSON text without a copy of it. The text has to be valid.
type scanner struct {
	text []byte
	at   int
}

// next moves to the beginning of the next token, and returns its first byte.
func (s *scanner) next() byte {
	for {
		switch here := s.text[s.at]; here {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.at++
		default:
			return here
		}
	}
}

// value returns the text of the next value, and moves behind it.
func (s *scanner) value() []byte {
	first := s.next()
	begin, depth := s.at, 0
	switch first {
	case '"':
		s.quoted()
		return s.text[begin:s.at]
	case '{', '[':
	default: // a number, a boolean or null
		for s.at < len(s.text) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(s.text[s.at])) {
			s.at++
		}
		return s.text[begin:s.at]
	}
	for {
		switch s.text[s.at] {
		case '"':
			s.quoted()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.at++
		if depth == 0 {
			return s.text[begin:s.at]
		}
	}
}

// quoted moves behind the string that begins here.
func (s *scanner) quoted() {
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

// members calls `visit` with each key of an object and moves behind it. With another value, it only moves behind that.
// `visit` has to move behind the key's value.
func (s *scanner) members(visit func(key []byte)) {
	if s.next() != '{' {
		s.value()
		return
	}
	for s.at++; s.next() != '}'; {
		visit(unescaped(s.value()))
	}
	s.at++
}

// elements does the same for a list.
func (s *scanner) elements(visit func()) {
	if s.next() != '[' {
		s.value()
		return
	}
	for s.at++; s.next() != ']'; {
		visit()
	}
	s.at++
}

// unescaped returns what a string says. Most keys have no escape, so that they are not copied.
func unescaped(quoted []byte) []byte {
	if !bytes.ContainsRune(quoted, '\\') {
		return quoted[1 : len(quoted)-1]
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return nil
	}
	return []byte(text)
}
