package main

import (
	"context"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
)

// policyCompiler compiles the expressions of one policy, as the functions compilePolicy in
// k8s.io/apiserver/pkg/admission/plugin/policy/validating and .../mutating do, which are not exported.
type policyCompiler struct {
	*cel.CompositedCompiler
	declared cel.OptionalVariableDeclarations
}

func newPolicyCompiler(variables []admissionregistrationv1.Variable, params *admissionregistrationv1.ParamKind) policyCompiler {
	composited, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	utilruntime.Must(err) // it depends on nothing that a policy says
	made := policyCompiler{composited, cel.OptionalVariableDeclarations{HasParams: params != nil, HasAuthorizer: true}}
	for _, each := range variables {
		variable := &validating.Variable{Name: each.Name, Expression: each.Expression}
		made.CompileAndStoreVariable(variable, made.declared, environment.StoredExpressions)
	}
	return made
}

func (c policyCompiler) conditions(expressions []cel.ExpressionAccessor, declared cel.OptionalVariableDeclarations) cel.ConditionEvaluator {
	return c.CompileCondition(expressions, declared, environment.StoredExpressions)
}

// matcher evaluates matchConditions; nil if there are none.
func (c policyCompiler) matcher(
	conditions []admissionregistrationv1.MatchCondition, failurePolicy *admissionregistrationv1.FailurePolicyType, policy string,
) matchconditions.Matcher {
	if len(conditions) == 0 {
		return nil
	}
	expressions := accessors(conditions, func(each *admissionregistrationv1.MatchCondition) cel.ExpressionAccessor {
		return (*matchconditions.MatchCondition)(each)
	})
	return matchconditions.NewMatcher(c.conditions(expressions, c.declared), failurePolicy, "policy", "validate", policy)
}

// validator evaluates a policy, and compiles it when it is first needed: that can take half a second.
func validator(policy *validating.Policy) validating.Validator {
	return lazyValidator{sync.OnceValue(func() validating.Validator { return compileValidating(policy) })}
}

func compileValidating(policy *validating.Policy) validating.Validator {
	spec := policy.Spec
	compiler := newPolicyCompiler(spec.Variables, spec.ParamKind)
	messages := compiler.declared
	messages.HasAuthorizer = false
	return validating.NewValidator(
		compiler.conditions(accessors(spec.Validations, func(each *admissionregistrationv1.Validation) cel.ExpressionAccessor {
			return &validating.ValidationCondition{Expression: each.Expression, Message: each.Message, Reason: each.Reason}
		}), compiler.declared),
		compiler.matcher(spec.MatchConditions, spec.FailurePolicy, policy.Name),
		compiler.conditions(accessors(spec.AuditAnnotations, func(each *admissionregistrationv1.AuditAnnotation) cel.ExpressionAccessor {
			return &validating.AuditAnnotationCondition{Key: each.Key, ValueExpression: each.ValueExpression}
		}), compiler.declared),
		compiler.conditions(accessors(spec.Validations, func(each *admissionregistrationv1.Validation) cel.ExpressionAccessor {
			if each.MessageExpression == "" {
				return nil
			}
			return &validating.MessageExpressionCondition{MessageExpression: each.MessageExpression}
		}), messages),
		spec.FailurePolicy, nil,
	)
}

// mutator evaluates a policy, and compiles it when it is first needed.
func mutator(policy *mutating.Policy) mutating.PolicyEvaluator {
	compiled := sync.OnceValue(func() mutating.PolicyEvaluator { return compileMutating(policy) })
	made := mutating.PolicyEvaluator{}
	if len(policy.Spec.MatchConditions) > 0 {
		made.Matcher = lazyMatcher{compiled}
	}
	for i := range policy.Spec.Mutations {
		made.Mutators = append(made.Mutators, lazyPatcher{compiled, i})
	}
	return made
}

func compileMutating(policy *mutating.Policy) mutating.PolicyEvaluator {
	spec := policy.Spec
	compiler := newPolicyCompiler(spec.Variables, spec.ParamKind)
	made := mutating.PolicyEvaluator{
		Matcher:            compiler.matcher(spec.MatchConditions, spec.FailurePolicy, policy.Name),
		CompositedCompiler: compiler.CompositedCompiler,
	}
	declared := compiler.declared
	declared.HasPatchTypes = true
	for _, mutation := range spec.Mutations {
		if mutation.PatchType == admissionregistrationv1.PatchTypeJSONPatch {
			expression := &patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}
			compiled := compiler.CompileMutatingEvaluator(expression, declared, environment.StoredExpressions)
			made.Mutators = append(made.Mutators, patch.NewJSONPatcher(compiled))
		} else {
			expression := &patch.ApplyConfigurationCondition{Expression: mutation.ApplyConfiguration.Expression}
			compiled := compiler.CompileMutatingEvaluator(expression, declared, environment.StoredExpressions)
			made.Mutators = append(made.Mutators, patch.NewApplyConfigurationPatcher(compiled))
		}
	}
	return made
}

// accessors are what the compiler knows of each item.
func accessors[T any](items []T, of func(*T) cel.ExpressionAccessor) []cel.ExpressionAccessor {
	made := make([]cel.ExpressionAccessor, len(items))
	for i := range items {
		made[i] = of(&items[i])
	}
	return made
}

type lazyValidator struct{ compiled func() validating.Validator }

func (l lazyValidator) CompileError() error { return l.compiled().CompileError() }

func (l lazyValidator) Validate(
	ctx context.Context, resource schema.GroupVersionResource, attributes *admission.VersionedAttributes, params runtime.Object,
	namespace *corev1.Namespace, budget int64, rights authorizer.UnconditionalAuthorizer,
) validating.ValidateResult {
	return l.compiled().Validate(ctx, resource, attributes, params, namespace, budget, rights)
}

type lazyMatcher struct {
	compiled func() mutating.PolicyEvaluator
}

func (l lazyMatcher) Match(
	ctx context.Context, attributes *admission.VersionedAttributes, params runtime.Object, rights authorizer.UnconditionalAuthorizer,
) matchconditions.MatchResult {
	return l.compiled().Matcher.Match(ctx, attributes, params, rights)
}

type lazyPatcher struct {
	compiled func() mutating.PolicyEvaluator
	number   int
}

func (l lazyPatcher) Patch(ctx context.Context, request patch.Request, budget int64) (runtime.Object, error) {
	policy := l.compiled()
	return policy.Mutators[l.number].Patch(policy.CompositedCompiler.CreateContext(ctx), request, budget)
}
