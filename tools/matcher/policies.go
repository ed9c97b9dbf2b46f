package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
)

// policies are admission policies that are bound, ready to decide for several goroutines. API servers have no order of
// policies and bindings. Here it is that of their names, so that the same question always has the same answer.
type policies struct {
	mutating   []mutating.PolicyHook
	validating []validating.PolicyHook
	// rules are those of all policies and bindings. They name the versions that count as served.
	rules []admissionregistrationv1.RuleWithOperations
}

// policyObjects are the objects of a cluster that make up its policies, by name or by the name of the policy.
type policyObjects struct {
	validating         map[string]*validating.Policy
	validatingBindings map[string][]*validating.PolicyBinding
	mutating           map[string]*mutating.Policy
	mutatingBindings   map[string][]*mutating.PolicyBinding
	parameters         parameterObjects
	seen               map[string]bool
	rules              []admissionregistrationv1.RuleWithOperations
}

// readPolicies reads policies, their bindings and their parameters, in any order; nil if there are no objects.
func readPolicies(objects []json.RawMessage) (*policies, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	found := &policyObjects{
		validating:         map[string]*validating.Policy{},
		validatingBindings: map[string][]*validating.PolicyBinding{},
		mutating:           map[string]*mutating.Policy{},
		mutatingBindings:   map[string][]*mutating.PolicyBinding{},
		parameters:         parameterObjects{},
		seen:               map[string]bool{},
	}
	for _, raw := range objects {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("one of the policies cannot be read: %w", err)
		}
		if err := found.add(object, raw); err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return &policies{
		mutating: hooks(found.mutating, found.mutatingBindings, found.parameters,
			mutating.NewMutatingAdmissionPolicyAccessor, mutating.NewMutatingAdmissionPolicyBindingAccessor, mutator),
		validating: hooks(found.validating, found.validatingBindings, found.parameters,
			validating.NewValidatingAdmissionPolicyAccessor, validating.NewValidatingAdmissionPolicyBindingAccessor, validator),
		rules: found.rules,
	}, nil
}

func (f *policyObjects) add(object *unstructured.Unstructured, raw []byte) error {
	kind := object.GroupVersionKind().GroupKind()
	name := object.GetName()
	if name == "" {
		return errors.New("it has no name")
	}
	key := kind.String() + "/" + object.GetNamespace() + "/" + name
	if f.seen[key] {
		return errors.New("it is given twice")
	}
	f.seen[key] = true
	switch kind.String() {
	case "CustomResourceDefinition.apiextensions.k8s.io":
		return nil // parameters count as being of a kind that the cluster has
	case "ValidatingAdmissionPolicy.admissionregistration.k8s.io":
		policy, err := decode[validating.Policy](raw)
		f.validating[name] = policy
		f.complete(policy.Spec.MatchConstraints)
		return err
	case "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io":
		binding, err := decode[validating.PolicyBinding](raw)
		f.validatingBindings[binding.Spec.PolicyName] = append(f.validatingBindings[binding.Spec.PolicyName], binding)
		f.complete(binding.Spec.MatchResources)
		return err
	case "MutatingAdmissionPolicy.admissionregistration.k8s.io":
		policy, err := decode[mutating.Policy](raw)
		f.mutating[name] = policy
		f.complete(policy.Spec.MatchConstraints)
		return errors.Join(err, lacking(policy))
	case "MutatingAdmissionPolicyBinding.admissionregistration.k8s.io":
		binding, err := decode[mutating.PolicyBinding](raw)
		f.mutatingBindings[binding.Spec.PolicyName] = append(f.mutatingBindings[binding.Spec.PolicyName], binding)
		f.complete(binding.Spec.MatchResources)
		return err
	}
	return f.parameters.add(object)
}

func decode[T any](raw []byte) (*T, error) {
	object := new(T)
	return object, json.Unmarshal(raw, object)
}

// complete sets what API servers set where a manifest says nothing of which requests match, and takes the rules.
func (f *policyObjects) complete(match *admissionregistrationv1.MatchResources) {
	if match == nil {
		return
	}
	if match.NamespaceSelector == nil {
		match.NamespaceSelector = &metav1.LabelSelector{}
	}
	if match.ObjectSelector == nil {
		match.ObjectSelector = &metav1.LabelSelector{}
	}
	if match.MatchPolicy == nil {
		match.MatchPolicy = new(admissionregistrationv1.Equivalent)
	}
	for _, rule := range slices.Concat(match.ResourceRules, match.ExcludeResourceRules) {
		f.rules = append(f.rules, rule.RuleWithOperations)
	}
}

// lacking says which mutation lacks its expression. An API server does not store such a policy.
func lacking(policy *mutating.Policy) error {
	for i, mutation := range policy.Spec.Mutations {
		patch := mutation.PatchType == admissionregistrationv1.PatchTypeJSONPatch && mutation.JSONPatch != nil
		apply := mutation.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && mutation.ApplyConfiguration != nil
		if !patch && !apply {
			return fmt.Errorf("mutations[%d] has no expression for its patchType %q", i, mutation.PatchType)
		}
	}
	return nil
}

// hooks are the policies that have bindings, with these, their parameters and what evaluates them.
func hooks[P, B runtime.Object, E generic.Evaluator](
	policies map[string]P, bindings map[string][]B, parameters parameterObjects,
	policyAccessor func(P) generic.PolicyAccessor, bindingAccessor func(B) generic.BindingAccessor, evaluator func(P) E,
) []generic.PolicyHook[P, B, E] {
	var bound []generic.PolicyHook[P, B, E]
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		policy, binding := policies[name], bindings[name]
		if len(binding) == 0 {
			continue
		}
		slices.SortFunc(binding, func(a, b B) int {
			return strings.Compare(bindingAccessor(a).GetName(), bindingAccessor(b).GetName())
		})
		hook := generic.PolicyHook[P, B, E]{Policy: policy, Bindings: binding, Evaluator: evaluator(policy)}
		if kind := policyAccessor(policy).GetParamKind(); kind != nil {
			var references []*admissionregistrationv1.ParamRef
			for _, each := range binding {
				references = append(references, bindingAccessor(each).GetParamRef())
			}
			hook.ParamInformer, hook.ParamScope = parameters.informer(kind, references)
		}
		bound = append(bound, hook)
	}
	return bound
}
