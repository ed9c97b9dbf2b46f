package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// What is asked about belongs to a kind of its own, whose name does not matter.
const group, version1, kind = "policy.fairlead.dev", "v1", "Parameters"

// parameters are the parameters of an intent, and their schema as that of a custom resource.
type parameters struct {
	Schema json.RawMessage `json:"schema"`
	// Value is left out if only the schema is in question.
	Value map[string]any `json:"value"`
}

// judgement says what is wrong with parameters.
type judgement struct {
	// Schema says why no API server takes the schema.
	Schema []mistake `json:"schema"`
	// Value says which x-kubernetes-validations do not hold. What a schema says otherwise is not checked.
	Value []mistake `json:"value"`
}

// mistake is one problem; Path is as in messages of API servers: `parameters.ranges[0]`.
type mistake struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// judge evaluates the rules of the schema as an API server does for a custom resource.
func (p parameters) judge() judgement {
	definition, err := p.definition()
	if err != nil {
		return unusable(err)
	}
	if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), definition); len(errs) > 0 {
		return judgement{Schema: mistakes(errs)}
	}
	schema, err := apiextensions.GetSchemaForVersion(definition, version1)
	if err != nil {
		return unusable(err)
	}
	structural, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
	if err != nil {
		return unusable(err)
	}
	rules := schemacel.NewValidator(structural, true, celconfig.PerCallLimit)
	if rules == nil || p.Value == nil {
		return judgement{}
	}
	resource := map[string]any{"apiVersion": group + "/" + version1, "kind": kind, "metadata": map[string]any{"name": "x"}}
	maps.Copy(resource, p.Value)
	errs, _ := rules.Validate(
		context.Background(), field.NewPath("parameters"), structural, resource, nil, celconfig.RuntimeCELCostBudget,
	)
	return judgement{Value: mistakes(errs)}
}

// definition is the CustomResourceDefinition of which the parameters are the fields.
func (p parameters) definition() (*apiextensions.CustomResourceDefinition, error) {
	var schema apiextensionsv1.JSONSchemaProps
	decoder := json.NewDecoder(bytes.NewReader(p.Schema))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&schema); err != nil {
		return nil, fmt.Errorf("Kubernetes does not know such a schema: %w", err)
	}
	plural := strings.ToLower(kind)
	versioned := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Scope: apiextensionsv1.ClusterScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version1, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
			}},
		},
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(versioned)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&versioned.Spec)
	definition := &apiextensions.CustomResourceDefinition{}
	err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(versioned, definition, nil)
	// An API server sets this when it stores the definition.
	definition.Status.StoredVersions = []string{version1}
	return definition, err
}

func unusable(err error) judgement {
	return judgement{Schema: []mistake{{Path: "parameters", Message: err.Error()}}}
}

func mistakes(errs field.ErrorList) []mistake {
	found := make([]mistake, len(errs))
	for i, err := range errs {
		path := err.Field
		if _, below, in := strings.Cut(path, "openAPIV3Schema"); in {
			path = "parameters" + below
		}
		found[i] = mistake{Path: path, Message: err.Detail}
	}
	return found
}
