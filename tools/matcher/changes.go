package main

import (
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// fields are those of an object. Zero structs, such as `resources: {}` of a container, are left out: Go's types cannot say
// whether somebody wrote them.
func fields(object runtime.Object) (map[string]any, error) {
	if object == nil {
		return nil, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if _, custom := object.(runtime.Unstructured); err == nil && !custom {
		omitZeros(reflect.ValueOf(object), content)
	}
	return content, err
}

// omitZeros removes the fields that are zero structs from an encoded value.
func omitZeros(value reflect.Value, encoded any) {
	switch value.Kind() {
	case reflect.Pointer:
		omitZeros(value.Elem(), encoded)
	case reflect.Slice:
		items, _ := encoded.([]any)
		for i, item := range items {
			omitZeros(value.Index(i), item)
		}
	case reflect.Map:
		items, _ := encoded.(map[string]any)
		for key, item := range items {
			omitZeros(value.MapIndex(reflect.ValueOf(key).Convert(value.Type().Key())), item)
		}
	case reflect.Struct:
		items, ok := encoded.(map[string]any)
		for i := 0; ok && i < value.NumField(); i++ {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			field := value.Field(i)
			switch {
			case name == "": // its fields are inline
				omitZeros(field, items)
			case field.Kind() == reflect.Struct && field.IsZero():
				delete(items, name)
			default:
				omitZeros(field, items[name])
			}
		}
	}
}

// carry is original with the changes from before to after. What these agree about stays as it is there, also fields of which
// they know nothing.
func carry(original, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return original
	}
	switch after := after.(type) {
	case map[string]any:
		kept, _ := original.(map[string]any)
		old, _ := before.(map[string]any)
		merged := maps.Clone(kept)
		if merged == nil {
			return after
		}
		for key := range old {
			if _, stays := after[key]; !stays {
				delete(merged, key)
			}
		}
		for key, value := range after {
			if previous, had := old[key]; !had || !reflect.DeepEqual(previous, value) {
				merged[key] = carry(kept[key], previous, value)
			}
		}
		return merged
	case []any:
		kept, _ := original.([]any)
		old, _ := before.([]any)
		if len(kept) != len(old) {
			return after
		}
		merged := make([]any, len(after))
		for i, j := range counterparts(old, after) {
			if merged[i] = after[i]; j >= 0 {
				merged[i] = carry(kept[j], old[j], after[i])
			}
		}
		return merged
	}
	return after
}

// counterparts are the places that the items of a list had before; -1 for an item that is new. Those at the beginning and at the
// end that are equal stay; of the others, those that have the same name are the same.
func counterparts(before, after []any) []int {
	places := make([]int, len(after))
	first, most := 0, min(len(before), len(after))
	for first < most && reflect.DeepEqual(before[first], after[first]) {
		places[first] = first
		first++
	}
	last, shift := len(after), len(before)-len(after)
	for last > first && last+shift > first && reflect.DeepEqual(before[last+shift-1], after[last-1]) {
		last--
		places[last] = last + shift
	}
	named := map[string]int{}
	for i := first; i < last+shift; i++ {
		if name := nameOf(before[i]); name != "" {
			named[name] = i
		}
	}
	for i := first; i < last; i++ {
		place, ok := named[nameOf(after[i])]
		if !ok {
			place = -1
		}
		places[i] = place
	}
	return places
}

// nameOf is the name of an item; empty if it has none.
func nameOf(item any) string {
	items, _ := item.(map[string]any)
	name, _ := items["name"].(string)
	return name
}
