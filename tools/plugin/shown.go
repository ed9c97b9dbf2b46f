package main

// This file says what decision logs show. It lists what is shown, not what is hidden: a secret can stand in an
// environment, an argument, a probe's header, an annotation, a volume, or in a place that nobody thought of. An entry
// shows who requests what, and the values that policies decide by. It is bounded in size, because anyone who reaches the
// port can send a megabyte and would otherwise fill a disk.

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

const (
	// The most characters of a text, and entries of a list or a map, that are shown. Legal names and nearly all labels
	// are shorter.
	longestText = 256
	mostEntries = 32
	// The most characters that are shown of a review, as JSON. The objects of a larger one are left out.
	longestReview = 16384
	// The most characters of a patch that are shown. It can be long: it holds the keys that `podSelector: merge` keeps.
	longestPatch = 8192

	leftOut = "left out"
)

// object is a JSON object. What should be one and is not is shown as null.
type object = map[string]any

// shownReview is the part of a review that is shown; nothing of what is no review.
func shownReview(review any) object {
	given, _ := review.(object)
	request, isRequest := given["request"].(object)
	kind := [2]any{given["apiVersion"], given["kind"]}
	isReview := kind == [2]any{"admission.k8s.io/v1", "AdmissionReview"}
	isReduced := kind == [2]any{"fairlead.dev/v1", "ReducedReview"}
	if !isRequest || !isReview && !isReduced {
		return object{}
	}
	shown := small(request, "uid", "operation", "namespace", "name", "subResource", "dryRun")
	shown["kind"] = small(request["kind"], "group", "version", "kind")
	shown["resource"] = small(request["resource"], "group", "version", "resource")
	shown["userInfo"] = shownUser(request["userInfo"])
	shown["object"], shown["oldObject"] = shownObject(request["object"]), shownObject(request["oldObject"])
	whole := object{"apiVersion": given["apiVersion"], "kind": given["kind"], "request": shown}
	if text, err := json.Marshal(whole); err != nil || utf8.RuneCount(text) > longestReview {
		shown["object"], shown["oldObject"] = leftOut, leftOut
	}
	return whole
}

func shownUser(value any) any {
	user, isObject := value.(object)
	if !isObject {
		return nil
	}
	shown := small(user, "username")
	if groups, isList := user["groups"].([]any); isList {
		texts := []any{}
		for _, group := range groups[:min(len(groups), mostEntries)] {
			if text, isShown := shownValue(group); isShown {
				texts = append(texts, text)
			}
		}
		count(shown, "groups", len(groups), len(texts), texts)
	}
	return shown
}

func shownObject(value any) any {
	given, isObject := value.(object)
	if !isObject {
		return nil
	}
	shown := small(given, "apiVersion", "kind")
	shown["metadata"], shown["spec"] = shownMetadata(given["metadata"]), shownSpec(given["spec"])
	return shown
}

func shownMetadata(value any) any {
	metadata, isObject := value.(object)
	if !isObject {
		return nil
	}
	shown := small(metadata, "name", "generateName", "namespace")
	addPairs(shown, metadata, "labels")
	addSmalls(shown, metadata, "ownerReferences", "apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
	shown["annotations"] = shownAnnotations(metadata["annotations"], "kubernetes.io/config.mirror")
	return shown
}

// shownAnnotations has those that policies decide by, and says whether there are any.
func shownAnnotations(value any, names ...string) any {
	if _, isObject := value.(object); !isObject {
		return nil
	}
	return small(value, names...)
}

// shownSpec shows the spec of a pod, or of a workload with a template of its pods.
func shownSpec(value any) any {
	spec, isObject := value.(object)
	if !isObject {
		return nil
	}
	shown := shownPlacement(spec)
	if template, has := spec["template"]; has && template != false {
		shown["template"] = shownTemplate(template)
	} else if job, has := spec["jobTemplate"]; has && job != false {
		ofJob, _ := job.(object)
		jobSpec, _ := ofJob["spec"].(object)
		shown["jobTemplate"] = object{"spec": object{"template": shownTemplate(jobSpec["template"])}}
	}
	return shown
}

func shownPlacement(spec object) object {
	shown := small(spec, "nodeName")
	addPairs(shown, spec, "nodeSelector")
	addSmalls(shown, spec, "tolerations", "key", "operator", "value", "effect", "tolerationSeconds")
	addSmalls(shown, spec, "schedulingGates", "name")
	return shown
}

// shownTemplate shows how pods of a template are placed, and what placement noted in the template's annotations.
func shownTemplate(value any) any {
	template, isObject := value.(object)
	if !isObject {
		return nil
	}
	shown := object{"spec": nil}
	if spec, isSpec := template["spec"].(object); isSpec {
		shown["spec"] = shownPlacement(spec)
	}
	if metadata, isMetadata := template["metadata"].(object); isMetadata {
		noted := object{}
		if annotations := shownAnnotations(metadata["annotations"], "fairlead.dev/assigned"); annotations != nil {
			noted["annotations"] = annotations
		}
		shown["metadata"] = noted
	}
	return shown
}

// small has the given fields of an object, each as one short value. Other types of `parent` have none.
func small(parent any, names ...string) object {
	given, _ := parent.(object)
	shown := object{}
	for _, name := range names {
		if value, has := given[name]; has {
			if short, isShown := shownValue(value); isShown {
				shown[name] = short
			}
		}
	}
	return shown
}

// shownValue returns a short value; false for other types. A number can have a million digits.
func shownValue(value any) (any, bool) {
	switch typed := value.(type) {
	case bool:
		return typed, true
	case json.Number:
		return typed, len(typed) <= longestText
	case string:
		return cut(typed), true
	}
	return nil, false
}

// cut returns the beginning of a text.
func cut(text string) string {
	if len(text) <= longestText || utf8.RuneCountInString(text) <= longestText {
		return text
	}
	return beginningOf(text, longestText) + "..."
}

// beginningOf returns the first characters of a text that may be long.
func beginningOf(text string, most int) string {
	characters := []rune(text)
	return string(characters[:min(len(characters), most)])
}

// addPairs adds a field that is a map of texts. If it has too many entries, only their number is shown. Keys are not cut:
// two could begin alike.
func addPairs(shown, parent object, name string) {
	given, isObject := parent[name].(object)
	if !isObject {
		return
	}
	pairs := object{}
	if len(given) <= mostEntries {
		for key, value := range given {
			if short, isShown := shownValue(value); isShown && utf8.RuneCountInString(key) <= longestText {
				pairs[key] = short
			}
		}
	}
	count(shown, name, len(given), len(pairs), pairs)
}

// addSmalls adds a field that is a list of objects, of which the given fields are shown.
func addSmalls(shown, parent object, name string, fields ...string) {
	given, isList := parent[name].([]any)
	if !isList {
		return
	}
	shorts := []any{}
	for _, entry := range given[:min(len(given), mostEntries)] {
		if _, isObject := entry.(object); isObject {
			shorts = append(shorts, small(entry, fields...))
		}
	}
	count(shown, name, len(given), len(shorts), shorts)
}

// count adds a field with the entries that are shown, and the number of those that are not.
func count(shown object, name string, all, some int, field any) {
	shown[name] = field
	if all > some {
		shown[name+"LeftOut"] = json.Number(fmt.Sprint(all - some))
	}
}

// shownAnswer is the answer to a review, without a long patch. It does not change `answer`.
func shownAnswer(answer any) any {
	given, _ := answer.(object)
	response, _ := given["response"].(object)
	patch, _ := response["patch"].(string)
	length := utf8.RuneCountInString(patch)
	if length <= longestPatch {
		return answer
	}
	return with(given, "response", with(response, "patch", fmt.Sprintf("%d characters, %s", length, leftOut)))
}

// with returns a copy of an object with another value of a field.
func with(given object, name string, value any) object {
	changed := make(object, len(given))
	for each, field := range given {
		changed[each] = field
	}
	changed[name] = value
	return changed
}
