// Command fairlead-matcher says what an API server would do, by the API server's own packages, and contacts nobody: which
// admission webhooks it would call for requests, and why not the others; what admission policies would decide about them; and
// which parameters of intents it would refuse. It also reads expressions in CEL.
//
// It reads one JSON document from stdin, and writes one to stdout:
//
//	{"configurations": [...], "policies": [...], "namespaces": {NAME: {LABEL: VALUE}}, "reviews": [...], "parameters": [...],
//	 "expressions": [TEXT, ...]}
//	{"answers": [{"webhooks": [...], "decision": {...}}, ...], "parameters": [{"schema": [...], "value": [...]}, ...],
//	 "expressions": [{"tree": {...}}, ...]}
//
// An answer has a verdict for each webhook, and a decision if there are policies, or says why no API server makes such a request;
// see answer, verdict and decision. Policies are asked as if there were no webhooks. What is wrong with parameters is in the order
// of the question, and so are the trees of expressions; see judgement and parsed.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	utiljson "k8s.io/apimachinery/pkg/util/json"
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
	// Policies are ValidatingAdmissionPolicies, MutatingAdmissionPolicies, their bindings and their parameters, in any order.
	// CustomResourceDefinitions among them are left alone.
	Policies []json.RawMessage `json:"policies"`
	// Parameters are those of intents, with their schemas.
	Parameters []parameters `json:"parameters"`
	// Expressions are texts in CEL.
	Expressions []string `json:"expressions"`
}

// reply is what stdout gets.
type reply struct {
	Answers     []answer    `json:"answers"`
	Parameters  []judgement `json:"parameters"`
	Expressions []parsed    `json:"expressions"`
}

// answer is what is said of one review.
type answer struct {
	// Unreadable says why the review is not one. An API server sends no such review.
	Unreadable string `json:"unreadable,omitempty"`
	// Invalid says why an API server refuses the object before it calls any webhook.
	Invalid string `json:"invalid,omitempty"`
	// Webhooks has a verdict for each webhook, in the order of the configurations.
	Webhooks []verdict `json:"webhooks"`
	// Decision is that of the policies, if there are any.
	Decision *decision `json:"decision,omitempty"`
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
	input, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	// As API servers read numbers: whole ones are integers.
	if err := utiljson.Unmarshal(input, &asked); err != nil {
		return fmt.Errorf("stdin is not a question: %w", err)
	}
	webhooks, err := readWebhooks(asked.Configurations)
	if err != nil {
		return err
	}
	bound, err := readPolicies(asked.Policies)
	if err != nil {
		return err
	}
	answers := make([]answer, len(asked.Reviews))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(answers); i = int(next.Add(1)) - 1 {
				answers[i] = decide(asked.Reviews[i], webhooks, bound, asked.Namespaces)
			}
		})
	}
	workers.Wait()
	judgements := make([]judgement, len(asked.Parameters))
	for i, each := range asked.Parameters {
		judgements[i] = each.judge()
	}
	trees, err := parseExpressions(asked.Expressions)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(reply{Answers: answers, Parameters: judgements, Expressions: trees})
}

func decide(raw json.RawMessage, webhooks []*hook, bound *policies, namespaces map[string]map[string]string) answer {
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
	return answer{Webhooks: verdicts, Decision: bound.decide(made, namespaces)}
}
