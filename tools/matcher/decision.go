package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/warning"
)

// decision is what the admission policies decide about a request.
type decision struct {
	Allowed bool `json:"allowed"`
	// Message is that of the first policy which refuses the request, without the name of the object before it.
	Message string `json:"message"`
	// Reason is that of the status which the API server answers, such as Forbidden or Invalid.
	Reason metav1.StatusReason `json:"reason,omitempty"`
	// Warnings are those that the client gets.
	Warnings []string `json:"warnings"`
	// Audited has the messages of failures with the action Audit. API servers keep only the first.
	Audited []string `json:"audited"`
	// Object is the object of an allowed request that policies change: that of the review with their changes. It lacks the
	// defaults that an API server sets in what they add.
	Object json.RawMessage `json:"object,omitempty"`
	// Error says why only an API server can decide. Nothing else is said then.
	Error string `json:"error,omitempty"`
}

// exempt are the resources about which no policy is asked. Sources: k8s.io/apiserver/pkg/admission/plugin/policy/generic, and
// k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion.
var exempt = map[schema.GroupResource]bool{
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       true,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: true,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}:         true,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}:   true,
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:                       true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:                             true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}:                 true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:                  true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:                   true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:                      true,
}

// decide does what an API server does with these policies, and with no other admission plugin or webhook. It changes the object
// of the request.
func (p *policies) decide(r *request, namespaces map[string]map[string]string) (decided *decision) {
	if p == nil {
		return nil
	}
	decided = &decision{Warnings: []string{}, Audited: []string{}}
	if exempt[r.resource.GroupResource()] {
		decided.Allowed = true
		return decided
	}
	known := &knowledge{namespaces: &namespaceLister{labels: namespaces}}
	// As in an API server, an object that the libraries fail on ends its own request alone.
	defer func() {
		if cause := recover(); cause != nil {
			decided = undecided(fmt.Sprintf("the policies cannot be evaluated: %v", cause))
		}
	}()
	before, err := fields(r.object)
	if err == nil {
		err = p.dispatch(r, known, decided)
	}
	if err == nil {
		decided.Allowed = true
		decided.Object, err = changed(r, before)
	}
	if reason := known.lacking(); reason != "" {
		return undecided(reason)
	}
	if err != nil {
		decided.refuse(err)
	}
	return decided
}

func undecided(reason string) *decision {
	return &decision{Warnings: []string{}, Audited: []string{}, Error: reason}
}

// dispatch asks the policies as the admission chain of an API server does. The error is the refusal.
func (p *policies) dispatch(r *request, known *knowledge, decided *decision) error {
	ctx := warning.WithWarningRecorder(context.Background(), decided)
	attributes := auditedAttributes{r.attributes(r.resource), decided}
	objects := interfaces(r.kind.Kind, p.rules)
	matcher := matching.NewMatcher(known.namespaces, nil)
	if attributes.GetOperation() != admission.Delete {
		mutate := mutating.NewDispatcher(&known.rights, matcher, &known.schemas)
		if err := mutate.Dispatch(ctx, attributes, objects, p.mutating); err != nil {
			return err
		}
		if again := attributes.GetReinvocationContext(); again.ShouldReinvoke() {
			again.SetIsReinvoke()
			if err := mutate.Dispatch(ctx, attributes, objects, p.mutating); err != nil {
				return err
			}
		}
	}
	return validating.NewDispatcher(&known.rights, generic.NewPolicyMatcher(matcher)).Dispatch(ctx, attributes, objects, p.validating)
}

// changed is the object after mutations; nothing if it is as in the review.
func changed(r *request, before map[string]any) (json.RawMessage, error) {
	after, err := fields(r.object)
	if err != nil || reflect.DeepEqual(before, after) {
		return nil, err
	}
	var original map[string]any
	if err := utiljson.Unmarshal(r.review.Object.Raw, &original); err != nil {
		return nil, err
	}
	return json.Marshal(carry(original, before, after))
}

// refuse takes the words of the first policy that refuses the request.
func (d *decision) refuse(err error) {
	d.Allowed, d.Message = false, err.Error()
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return
	}
	d.Reason = status.ErrStatus.Reason
	if details := status.ErrStatus.Details; details != nil && len(details.Causes) > 0 {
		d.Message = details.Causes[0].Message
	}
}

// AddWarning is called for warnings of policies.
func (d *decision) AddWarning(_, text string) { d.Warnings = append(d.Warnings, text) }

// auditedAttributes are those of a request whose audit annotations are parts of the decision.
type auditedAttributes struct {
	admission.Attributes
	decided *decision
}

func (a auditedAttributes) AddAnnotation(key, value string) error {
	if key != "validation.policy.admission.k8s.io/validation_failure" {
		return nil
	}
	var failures []validating.ValidationFailureValue
	if err := json.Unmarshal([]byte(value), &failures); err != nil {
		return err
	}
	for _, failure := range failures {
		a.decided.Audited = append(a.decided.Audited, failure.Message)
	}
	return nil
}
