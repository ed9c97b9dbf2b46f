package main

// This file counts the entries of the lists and maps that the objects of a known kind have. OPA's cost depends on them.

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed shapes.json
var shapesJSON []byte

// limits are what an object may have, and the shapes by which that is counted. `make generate` writes them from
// tools/fairlead/deployment/review_limits.yaml.
var limits = mustRead(shapesJSON)

type bounds struct {
	MostValues int               `json:"mostValues"`
	MostParts  int               `json:"mostParts"`
	Kinds      map[string]string `json:"kinds"` // the groups of the kinds, by `group/Kind`
	Groups     map[string]group  `json:"groups"`
	Template   shape             `json:"template"`
}

// group is what is counted of kinds that have the same fields.
type group struct {
	Templates [][]string `json:"templates"` // the paths of the pod or of its template
	Beside    shape      `json:"beside"`    // all else
}

// shape says what is counted of a value.
type shape struct {
	own     bool             // the entries of the list or map itself
	parts   bool             // these entries are containers or volumes
	all     bool             // the entries of all lists and maps inside, too
	fields  map[string]shape // what is counted of the fields of an object
	element *shape           // what is counted of each element of a list
}

func mustRead(text []byte) bounds {
	var read bounds
	if err := json.Unmarshal(text, &read); err != nil {
		panic(fmt.Sprintf("shapes.json: %v", err))
	}
	return read
}

// UnmarshalJSON reads a shape as review_limits.yaml has it: null for a list or map of which only the entries count, an object
// for an object with such fields, a list with the shape of the elements and perhaps "parts", or "all".
func (s *shape) UnmarshalJSON(text []byte) error {
	switch text[0] {
	case 'n':
		s.own = true
		return nil
	case '"':
		s.own, s.all = true, true
		return nil
	case '[':
		var elements []json.RawMessage
		if err := json.Unmarshal(text, &elements); err != nil {
			return err
		}
		s.own, s.parts, s.element = true, len(elements) > 1, &shape{}
		return json.Unmarshal(elements[0], s.element)
	}
	if err := json.Unmarshal(text, &s.fields); err != nil {
		return err
	}
	_, s.own = s.fields[""] // the object itself
	return nil
}

// size is what an object has.
type size struct{ values, parts int }

// tooLarge says whether it is more than a policy judges.
func (s size) tooLarge() bool { return s.values > limits.MostValues || s.parts > limits.MostParts }

// sizeOf returns the size of an object of a group.
func sizeOf(object []byte, of group) (has size) {
	if object == nil {
		return has
	}
	has.add(&scanner{text: object}, of.Beside)
	for _, path := range of.Templates {
		if template := at(object, path); template != nil {
			has.add(&scanner{text: template}, limits.Template)
		}
	}
	return has
}

// at returns the value at a path; nil if there is none.
func at(object []byte, path []string) []byte {
	for _, field := range path {
		var below []byte
		eachMember(object, func(name string, value []byte) {
			if name == field {
				below = value
			}
		})
		object = below
	}
	return object
}

// add counts the next value of a scanner, and moves behind it. Of a key that occurs twice, both values count.
func (s *size) add(text *scanner, of shape) {
	own := 0
	switch text.next() {
	case '{':
		text.members(func(key []byte) {
			own++
			field, known := of.fields[string(key)]
			switch {
			case of.all:
				s.add(text, of)
			case known:
				s.add(text, field)
			default:
				text.value()
			}
		})
	case '[':
		text.elements(func() {
			own++
			switch {
			case of.all:
				s.add(text, of)
			case of.element != nil:
				s.add(text, *of.element)
			default:
				text.value()
			}
		})
	default:
		text.value()
	}
	if of.own {
		s.values += own
	}
	if of.parts {
		s.parts += own
	}
}
