package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The parts of a webhook that can exclude a request, in the order in which they are judged.
const (
	byResource          = "resource"
	byOperation         = "operation"
	byNamespaceSelector = "namespaceSelector"
	byObjectSelector    = "objectSelector"
	byMatchConditions   = "matchConditions"
)

// verdict says whether an API server calls a webhook for a request, and if not, by which part of the webhook.
type verdict struct {
	// Kind is that of the configuration, such as MutatingWebhookConfiguration.
	Kind          string `json:"kind"`
	Configuration string `json:"configuration"`
	Webhook       string `json:"webhook"`
	// Number counts the webhooks of the configuration, from 0.
	Number int  `json:"number"`
	Called bool `json:"called"`
	// Ignore is true if the API server goes on without an answer of the webhook.
	Ignore bool `json:"ignore,omitempty"`
	// Refused is true if the API server refuses the request instead of calling the webhook.
	Refused bool `json:"refused,omitempty"`
	// By is the first part that excludes the request.
	By string `json:"by,omitempty"`
	// Requirements are those of the selector that do not hold.
	Requirements []requirement `json:"requirements,omitempty"`
	// Condition is the matchCondition that is false.
	Condition string `json:"condition,omitempty"`
	// Error says why matchConditions could not be evaluated.
	Error string `json:"error,omitempty"`
	// Rights is true if a matchCondition asks what the user may do, which only an API server knows. The webhook then
	// counts as called.
	Rights bool `json:"rights,omitempty"`
}

// requirement is one of a selector's, with the value that the labels have instead.
type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
	Actual   *string  `json:"actual"`
}

// hook is a webhook, ready to be judged by several goroutines. Mutating and validating ones are matched alike.
type hook struct {
	kind          string
	configuration string
	number        int
	spec          admissionregistrationv1.MutatingWebhook
	namespaces    labels.Selector
	objects       labels.Selector
	conditions    func() cel.ConditionEvaluator // compiles them when they are first needed
	objectMatcher object.Matcher
}

var (
	compiler = cel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	// compiled are the expressions so far, as func() cel.CompilationResult by their text. Some take half a second, and
	// several webhooks share them.
	compiled sync.Map
)

func readWebhooks(configurations []json.RawMessage) ([]*hook, error) {
	var hooks []*hook
	for _, raw := range configurations {
		// A validating webhook has the fields of a mutating one, but for reinvocationPolicy.
		var configuration admissionregistrationv1.MutatingWebhookConfiguration
		if err := json.Unmarshal(raw, &configuration); err != nil {
			return nil, fmt.Errorf("a webhook configuration cannot be read: %w", err)
		}
		for number, spec := range configuration.Webhooks {
			read, err := newHook(configuration, number, spec)
			if err != nil {
				return nil, fmt.Errorf("webhook %s of configuration %s: %w", spec.Name, configuration.Name, err)
			}
			hooks = append(hooks, read)
		}
	}
	return hooks, nil
}

func newHook(
	configuration admissionregistrationv1.MutatingWebhookConfiguration, number int, spec admissionregistrationv1.MutatingWebhook,
) (*hook, error) {
	// What API servers set where a manifest says nothing.
	if spec.NamespaceSelector == nil {
		spec.NamespaceSelector = &metav1.LabelSelector{}
	}
	if spec.ObjectSelector == nil {
		spec.ObjectSelector = &metav1.LabelSelector{}
	}
	if spec.FailurePolicy == nil {
		spec.FailurePolicy = new(admissionregistrationv1.Fail)
	}
	if spec.MatchPolicy == nil {
		spec.MatchPolicy = new(admissionregistrationv1.Equivalent)
	}
	made := &hook{kind: configuration.Kind, configuration: configuration.Name, number: number, spec: spec}
	made.conditions = sync.OnceValue(func() cel.ConditionEvaluator {
		results := make([]cel.CompilationResult, len(spec.MatchConditions))
		for i, condition := range spec.MatchConditions {
			results[i] = compile((*matchconditions.MatchCondition)(&condition))
		}
		return cel.NewCondition(results)
	})
	var err error
	if made.namespaces, err = metav1.LabelSelectorAsSelector(spec.NamespaceSelector); err != nil {
		return nil, fmt.Errorf("namespaceSelector: %w", err)
	}
	if made.objects, err = metav1.LabelSelectorAsSelector(spec.ObjectSelector); err != nil {
		return nil, fmt.Errorf("objectSelector: %w", err)
	}
	return made, nil
}

// GetParsedObjectSelector is what the API server's matcher of objects asks for.
func (h *hook) GetParsedObjectSelector() (labels.Selector, error) { return h.objects, nil }

// judge does what Webhook.ShouldCallHook does in k8s.io/apiserver/pkg/admission/plugin/webhook/generic, which says no
// reasons.
func (h *hook) judge(r *request, namespaces map[string]map[string]string) verdict {
	result := verdict{
		Kind: h.kind, Configuration: h.configuration, Webhook: h.spec.Name, Number: h.number,
		Ignore: *h.spec.FailurePolicy == admissionregistrationv1.Ignore,
	}
	attributes := r.attributes(r.resource)
	kind, by := h.matchRules(r, attributes)
	if by != "" {
		result.By = by
		return result
	}
	if failed := h.matchNamespace(attributes, namespaces); len(failed) > 0 {
		result.By, result.Requirements = byNamespaceSelector, failed
		return result
	}
	// The matcher fails only for a selector that cannot be parsed.
	if matches, _ := h.objectMatcher.MatchObjectSelector(h, attributes); !matches {
		result.By, result.Requirements = byObjectSelector, h.failedOfObject(r)
		return result
	}
	h.matchConditions(r, kind, &result)
	return result
}

// matchRules is the kind that the webhook gets, or the part of the rules that excludes the request.
func (h *hook) matchRules(r *request, attributes admission.Attributes) (schema.GroupVersionKind, string) {
	if rules.IsExemptAdmissionConfigurationResource(attributes) {
		return r.kind, byResource
	}
	resources := []schema.GroupVersionResource{r.resource}
	if *h.spec.MatchPolicy == admissionregistrationv1.Equivalent {
		resources = append(resources, equivalents(r.resource, h.spec.Rules)...)
	}
	by := byResource
	for _, resource := range resources {
		attributes := r.attributes(resource)
		for _, rule := range h.spec.Rules {
			if (&rules.Matcher{Rule: rule, Attr: attributes}).Matches() {
				if resource == r.resource {
					return r.kind, "" // that of a subresource may be of another group
				}
				return resource.GroupVersion().WithKind(r.kind.Kind), ""
			}
			rule.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}
			if (&rules.Matcher{Rule: rule, Attr: attributes}).Matches() {
				by = byOperation
			}
		}
	}
	return r.kind, by
}

// equivalents are the same resource in the other versions that the rules name. Each of them counts as served.
func equivalents(resource schema.GroupVersionResource, rules []admissionregistrationv1.RuleWithOperations) []schema.GroupVersionResource {
	var others []schema.GroupVersionResource
	for _, rule := range rules {
		for _, group := range sharing(resource) {
			if !slices.Contains(rule.APIGroups, group) && !slices.Contains(rule.APIGroups, "*") {
				continue
			}
			for _, version := range rule.APIVersions {
				other := schema.GroupVersionResource{Group: group, Version: version, Resource: resource.Resource}
				if version != "*" && other != resource && !slices.Contains(others, other) {
					others = append(others, other)
				}
			}
		}
	}
	return others
}

// sharing are the groups that serve the same stored objects. Source: the cohabitating resources in
// k8s.io/kubernetes/pkg/kubeapiserver/default_storage_factory_builder.go; the group extensions is gone.
func sharing(resource schema.GroupVersionResource) []string {
	if resource.Resource == "events" && (resource.Group == "" || resource.Group == "events.k8s.io") {
		return []string{"", "events.k8s.io"}
	}
	return []string{resource.Group}
}

// matchNamespace are the requirements of the namespaceSelector that do not hold. It does what MatchNamespaceSelector does
// in k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace, which says no reasons.
func (h *hook) matchNamespace(attributes admission.Attributes, namespaces map[string]map[string]string) []requirement {
	name, resource := attributes.GetNamespace(), attributes.GetResource().Resource
	if name == "" && resource != "namespaces" {
		return nil // a request for a cluster-scoped resource is never excluded
	}
	if resource == "namespaces" && attributes.GetSubresource() == "" &&
		(attributes.GetOperation() == admission.Create || attributes.GetOperation() == admission.Update) {
		accessor, err := meta.Accessor(attributes.GetObject())
		if err != nil {
			return failed(h.namespaces, nil, "")
		}
		return failed(h.namespaces, accessor.GetLabels(), "")
	}
	known, ok := namespaces[name]
	every := labels.Set{corev1.LabelMetadataName: name} // API servers set it
	if !ok {
		return failed(h.namespaces, every, corev1.LabelMetadataName)
	}
	return failed(h.namespaces, labels.Merge(known, every), "")
}

// failedOfObject are the requirements of the objectSelector that the object, or the old one if there is no other, does
// not meet.
func (h *hook) failedOfObject(r *request) []requirement {
	for _, object := range []any{r.object, r.oldObject} {
		if accessor, err := meta.Accessor(object); err == nil {
			return failed(h.objects, accessor.GetLabels(), "")
		}
	}
	return failed(h.objects, nil, "")
}

// failed are the requirements that the labels do not meet; with only, those for other keys are left out.
func failed(selector labels.Selector, set labels.Set, only string) []requirement {
	all, selectable := selector.Requirements()
	result := []requirement{}
	if !selectable {
		return append(result, requirement{Operator: "Nothing"})
	}
	for _, each := range all {
		if each.Matches(set) || (only != "" && each.Key() != only) {
			continue
		}
		entry := requirement{Key: each.Key(), Operator: string(each.Operator()), Values: each.Values().List()}
		if value, ok := set[each.Key()]; ok {
			entry.Actual = &value
		}
		result = append(result, entry)
	}
	return result
}

func (h *hook) matchConditions(r *request, kind schema.GroupVersionKind, result *verdict) {
	result.Called = true
	if len(h.spec.MatchConditions) == 0 {
		return
	}
	attributes, err := r.versioned(kind)
	if err != nil {
		result.Called, result.Refused, result.By, result.Error = false, true, byMatchConditions, err.Error()
		return
	}
	asked := &rights{}
	matched := h.matcher(*h.spec.FailurePolicy).Match(context.Background(), attributes, nil, asked)
	if asked.unknown {
		result.Rights = true
		return
	}
	if matched.Matches {
		return
	}
	result.Called, result.By, result.Condition = false, byMatchConditions, matched.FailedConditionName
	result.Refused = matched.Error != nil
	if matched.FailedConditionName == "" {
		// By failurePolicy Ignore, the matcher says nothing of an error.
		matched = h.matcher(admissionregistrationv1.Fail).Match(context.Background(), attributes, nil, asked)
		if matched.Error != nil {
			result.Error = h.named(matched.Error)
		}
	}
}

// named is the text of an error, with the names of matchConditions instead of their expressions, which can be long.
func (h *hook) named(err error) string {
	text := err.Error()
	for _, condition := range h.spec.MatchConditions {
		text = strings.ReplaceAll(text, "expression '"+condition.Expression+"'", "matchCondition "+condition.Name)
	}
	return text
}

// matcher evaluates the matchConditions, and treats an error by the failurePolicy.
func (h *hook) matcher(failurePolicy admissionregistrationv1.FailurePolicyType) matchconditions.Matcher {
	return matchconditions.NewMatcher(h.conditions(), &failurePolicy, "webhook", "", h.spec.Name)
}

func compile(condition *matchconditions.MatchCondition) cel.CompilationResult {
	once, _ := compiled.LoadOrStore(condition.Expression, sync.OnceValue(func() cel.CompilationResult {
		declared := cel.OptionalVariableDeclarations{HasAuthorizer: true}
		return compiler.CompileCELExpression(condition, declared, environment.StoredExpressions)
	}))
	result := once.(func() cel.CompilationResult)()
	result.ExpressionAccessor = condition // another webhook may name it otherwise
	return result
}

// rights answers what a user may do, as far as that is known without an API server: superusers may do anything.
type rights struct{ unknown bool }

func (r *rights) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if slices.Contains(attributes.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	r.unknown = true
	return authorizer.DecisionNoOpinion, "", nil
}
