package main

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// builtin knows how fields of Kubernetes' own kinds merge, as API servers say in their OpenAPI.
var builtin = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// schemas are those of all kinds for ApplyConfiguration. How fields of custom resources merge is unknown here.
type schemas struct {
	// unknown is a kind whose schema was needed.
	unknown schema.GroupVersionKind
}

func (s *schemas) Run(context.Context) {}

func (s *schemas) GetTypeConverter(schema.GroupVersionKind) managedfields.TypeConverter { return s }

func (s *schemas) ObjectToTyped(object runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if kind := object.GetObjectKind().GroupVersionKind(); !scheme.Scheme.Recognizes(kind) {
		s.unknown = kind
	}
	return builtin().ObjectToTyped(object, options...)
}

func (s *schemas) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return builtin().TypedToObject(value)
}
