package main

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// parameterObjects are the objects that policies can have as parameters. Their version does not matter.
type parameterObjects map[schema.GroupKind]*parameterInformer

func (p parameterObjects) add(object *unstructured.Unstructured) error {
	informer := p.of(object.GroupVersionKind().GroupKind())
	informer.namespaced = informer.namespaced || object.GetNamespace() != ""
	return informer.indexer.Add(object)
}

// informer is what an API server has for a paramKind, with the scope of the kind. A kind without objects is namespaced if one
// of the references names a namespace.
func (p parameterObjects) informer(
	kind *admissionregistrationv1.ParamKind, references []*admissionregistrationv1.ParamRef,
) (informers.GenericInformer, meta.RESTScope) {
	informer := p.of(schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind).GroupKind())
	namespaced := informer.namespaced
	if len(informer.indexer.ListKeys()) == 0 {
		namespaced = slices.ContainsFunc(references, func(reference *admissionregistrationv1.ParamRef) bool {
			return reference != nil && reference.Namespace != ""
		})
	}
	if namespaced {
		return informer, meta.RESTScopeNamespace
	}
	return informer, meta.RESTScopeRoot
}

func (p parameterObjects) of(kind schema.GroupKind) *parameterInformer {
	if p[kind] == nil {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		resource := schema.GroupResource{Group: kind.Group, Resource: kind.Kind}
		p[kind] = &parameterInformer{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers), resource: resource}
	}
	return p[kind]
}

// parameterInformer has the objects of one kind, as an API server's cache of them.
type parameterInformer struct {
	cache.SharedIndexInformer // of which an admission plugin only asks HasSynced

	indexer    cache.Indexer
	resource   schema.GroupResource
	namespaced bool
}

func (p *parameterInformer) Informer() cache.SharedIndexInformer { return p }

func (p *parameterInformer) HasSynced() bool { return true }

func (p *parameterInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(p.indexer, p.resource)
}
