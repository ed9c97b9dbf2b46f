package main

import (
	"fmt"
	"reflect"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/scheme"
)

func asObject(raw []byte) (runtime.Object, error) {
	object, err := asUnstructured(raw)
	if err != nil || object == nil {
		return nil, err
	}
	kind := object.GetObjectKind().GroupVersionKind()
	typed, err := scheme.Scheme.New(kind)
	if runtime.IsNotRegisteredError(err) {
		return object, nil // a custom resource
	} else if err != nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(raw, typed); err != nil {
		return nil, fmt.Errorf("it is not a %s: %w", kind.Kind, err)
	}
	typed.GetObjectKind().SetGroupVersionKind(kind)
	if namespace, ok := typed.(*corev1.Namespace); ok {
		// API servers set this label before they call webhooks.
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, corev1.LabelMetadataName, namespace.Name)
	}
	return typed, nil
}

func asUnstructured(raw []byte) (runtime.Object, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(raw, &content); err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// interfaces are what admission plugins do with objects of a kind. The versions of its resource that the rules name count as
// served.
func interfaces(kind string, rules []admissionregistrationv1.RuleWithOperations) admission.ObjectInterfaces {
	return &admission.RuntimeObjectInterfaces{
		ObjectCreater:            creater{},
		ObjectTyper:              scheme.Scheme,
		ObjectDefaulter:          scheme.Scheme, // it has no defaults: those are not a library
		ObjectConvertor:          convertor{scheme.Scheme},
		EquivalentResourceMapper: versions{kind, rules},
	}
}

// creater makes the types of Kubernetes' own kinds, and other objects for custom resources.
type creater struct{}

func (creater) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	typed, err := scheme.Scheme.New(kind)
	if !runtime.IsNotRegisteredError(err) {
		return typed, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, nil
}

// convertor changes the apiVersion of objects, and keeps their fields. API servers convert these, too: for kinds of their own
// by code that is not a library, for custom resources as their authors say.
type convertor struct{ *runtime.Scheme }

func (convertor) Convert(in, out, _ any) error {
	kind := out.(runtime.Object).GetObjectKind()
	version := kind.GroupVersionKind()
	defer func() { kind.SetGroupVersionKind(version) }()
	target, custom := out.(*unstructured.Unstructured)
	if !custom && reflect.TypeOf(in) == reflect.TypeOf(out) {
		reflect.ValueOf(out).Elem().Set(reflect.ValueOf(in).Elem())
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(in)
	if err != nil {
		return err
	}
	if custom {
		target.SetUnstructuredContent(runtime.DeepCopyJSON(content))
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, out)
}

// versions are those of a resource that rules name, besides that which is requested.
type versions struct {
	kind  string
	rules []admissionregistrationv1.RuleWithOperations
}

func (v versions) EquivalentResourcesFor(resource schema.GroupVersionResource, _ string) []schema.GroupVersionResource {
	return equivalents(resource, v.rules)
}

func (v versions) KindFor(resource schema.GroupVersionResource, _ string) schema.GroupVersionKind {
	return resource.GroupVersion().WithKind(v.kind)
}
