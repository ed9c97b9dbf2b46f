package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	listersv1 "k8s.io/client-go/listers/core/v1"
)

// knowledge is what policies ask about besides the request, and notes what is not known here. It belongs to one request.
type knowledge struct {
	rights     rights
	schemas    schemas
	namespaces *namespaceLister
}

// lacking says what policies asked that is not known; empty if there is nothing.
func (k *knowledge) lacking() string {
	switch {
	case k.namespaces.unknown != "":
		return fmt.Sprintf("the labels of the namespace %q are not known", k.namespaces.unknown)
	case k.rights.unknown:
		return "a policy asks what the user may do, which only an API server knows"
	case !k.schemas.unknown.Empty():
		return fmt.Sprintf("a policy has an ApplyConfiguration of %s, whose schema only an API server knows", k.schemas.unknown.Kind)
	}
	return ""
}

// namespaceLister has namespaces with their names and labels, and nothing else.
type namespaceLister struct {
	listersv1.NamespaceLister // of which an admission plugin only asks Get

	labels map[string]map[string]string
	// unknown is a namespace that was asked for, and whose labels nobody told.
	unknown string
}

// Get returns the namespace. Its error is not NotFound, after which a plugin would ask an API server.
func (n *namespaceLister) Get(name string) (*corev1.Namespace, error) {
	known, ok := n.labels[name]
	if !ok {
		n.unknown = name
		return nil, fmt.Errorf("namespace %q is not known", name)
	}
	every := labels.Set{corev1.LabelMetadataName: name} // API servers set it
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels.Merge(known, every)}}, nil
}
