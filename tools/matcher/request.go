package main

import (
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// request is a request to an API server, as its AdmissionReview describes it.
type request struct {
	review            *admissionv1.AdmissionRequest
	kind              schema.GroupVersionKind
	resource          schema.GroupVersionResource
	subresource       string
	object, oldObject runtime.Object
	options           runtime.Object
	user              user.Info
}

// readRequest reads everything but the objects.
func readRequest(raw json.RawMessage) (*request, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(raw, &review); err != nil {
		return nil, err
	}
	read := review.Request
	if read == nil {
		return nil, errors.New("it has no request")
	}
	// A webhook may get another version than that which was requested, by matchPolicy Equivalent.
	kind, resource := read.Kind, read.Resource
	if read.RequestKind != nil && read.RequestResource != nil {
		kind, resource = *read.RequestKind, *read.RequestResource
	}
	if kind.Kind == "" || resource.Resource == "" || read.Operation == "" {
		return nil, errors.New("its request lacks a kind, a resource or an operation")
	}
	options, err := asUnstructured(read.Options.Raw)
	if err != nil {
		return nil, fmt.Errorf("its options are not an object: %w", err)
	}
	extra := map[string][]string{}
	for key, values := range read.UserInfo.Extra {
		extra[key] = values
	}
	return &request{
		review:      read,
		kind:        schema.GroupVersionKind(kind),
		resource:    schema.GroupVersionResource(resource),
		subresource: read.SubResource,
		options:     options,
		user: &user.DefaultInfo{
			Name: read.UserInfo.Username, UID: read.UserInfo.UID, Groups: read.UserInfo.Groups, Extra: extra,
		},
	}, nil
}

// readObjects reads the objects as an API server does: those of a kind of Kubernetes' own into its type, so that every
// field that the type has is there for matchConditions, and no other.
func (r *request) readObjects() (err error) {
	if r.object, err = asObject(r.review.Object.Raw); err != nil {
		return err
	}
	r.oldObject, err = asObject(r.review.OldObject.Raw)
	return err
}

// attributes are the request as admission plugins get it, with the resource as it is requested or an equivalent one.
func (r *request) attributes(resource schema.GroupVersionResource) admission.Attributes {
	return admission.NewAttributesRecord(
		r.object, r.oldObject, r.kind, r.review.Namespace, r.review.Name, resource, r.subresource,
		admission.Operation(r.review.Operation), r.options, r.review.DryRun != nil && *r.review.DryRun, r.user,
	)
}

// versioned are the attributes with the objects in the version of kind, which a webhook is for.
func (r *request) versioned(kind schema.GroupVersionKind) (*admission.VersionedAttributes, error) {
	return admission.NewVersionedAttributes(r.attributes(r.resource), kind, interfaces(kind.Kind, nil))
}
