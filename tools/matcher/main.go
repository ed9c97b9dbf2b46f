// Command fairlead-matcher says which admission webhooks an API server would call for requests, and why not the others. It
// evaluates rules, selectors and matchConditions by the API server's own packages, and contacts nobody.
//
// It reads one JSON document from stdin, and writes one to stdout:
//
//	{"configurations": [...], "namespaces": {NAME: {LABEL: VALUE}}, "reviews": [...]}
//	{"answers": [{"webhooks": [...]}, ...]}
//
// An answer has a verdict for each webhook, or says why no API server makes such a request; see verdict and answer.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// version is set by the linker.
var version = "unknown"

// question is what stdin holds.
type question struct {
	// Configurations are MutatingWebhookConfigurations and ValidatingWebhookConfigurations.
	Configurations []json.RawMessage `json:"configurations"`
	// Namespaces are the labels of the namespaces that are known, by name.
	Namespaces map[string]map[string]string `json:"namespaces"`
	// Reviews are AdmissionReviews as a webhook would get them. What they say of other requests is read, too.
	Reviews []json.RawMessage `json:"reviews"`
}

// answer is what is said of one review.
type answer struct {
	// Unreadable says why the review is not one. An API server sends no such review.
	Unreadable string `json:"unreadable,omitempty"`
	// Invalid says why an API server refuses the object before it calls any webhook.
	Invalid string `json:"invalid,omitempty"`
	// Webhooks has a verdict for each webhook, in the order of the configurations.
	Webhooks []verdict `json:"webhooks"`
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("fairlead-matcher " + version)
		return
	}
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "usage: fairlead-matcher [--version]: the question is read from stdin")
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var asked question
	if err := json.NewDecoder(in).Decode(&asked); err != nil {
		return fmt.Errorf("stdin is not a question: %w", err)
	}
	webhooks, err := readWebhooks(asked.Configurations)
	if err != nil {
		return err
	}
	answers := make([]answer, len(asked.Reviews))
	for i, raw := range asked.Reviews {
		answers[i] = decide(raw, webhooks, asked.Namespaces)
	}
	return json.NewEncoder(out).Encode(map[string][]answer{"answers": answers})
}

func decide(raw json.RawMessage, webhooks []*hook, namespaces map[string]map[string]string) answer {
	made, err := readRequest(raw)
	if err != nil {
		return answer{Unreadable: err.Error()}
	}
	if err := made.readObjects(); err != nil {
		return answer{Invalid: err.Error()}
	}
	verdicts := make([]verdict, len(webhooks))
	for i, webhook := range webhooks {
		verdicts[i] = webhook.judge(made, namespaces)
	}
	return answer{Webhooks: verdicts}
}
