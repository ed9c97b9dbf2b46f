package main

import (
	"strings"
	"testing"
)

// limits is a parameter object that is cluster-scoped.
func limits(name, most string) string {
	return `{"apiVersion": "x.io/v1", "kind": "Limit", "metadata": {"name": "` + name + `", "labels": {"most": "` + most + `"}}, "most": ` + most + `}`
}

func TestParameters(t *testing.T) {
	policy := `"paramKind": {"apiVersion": "x.io/v1", "kind": "Limit"}, "validations": [{"expression": "params == null || params.most > 3", "messageExpression": "'limit ' + params.metadata.name"}]`
	objects := []string{limits("few", "1"), limits("many", "5")}
	for reference, words := range map[string]string{
		``: "",
		`, "paramRef": {"name": "many", "parameterNotFoundAction": "Deny"}`:                                     "",
		`, "paramRef": {"name": "few", "parameterNotFoundAction": "Deny"}`:                                      "limit few",
		`, "paramRef": {"name": "absent", "parameterNotFoundAction": "Deny"}`:                                   "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
		`, "paramRef": {"name": "absent", "parameterNotFoundAction": "Allow"}`:                                  "",
		`, "paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"}`:                                     "limit few",
		`, "paramRef": {"selector": {"matchLabels": {"most": "5"}}, "parameterNotFoundAction": "Deny"}`:         "",
		`, "paramRef": {"selector": {"matchLabels": {"most": "9"}}, "parameterNotFoundAction": "Deny"}`:         "no params found",
		`, "paramRef": {"name": "many", "namespace": "mapped", "parameterNotFoundAction": "Deny"}`:              "must not be provided for a cluster-scoped",
		`, "paramRef": {"name": "many", "namespace": "mapped", "parameterNotFoundAction": "Allow"}, "other": 1`: "must not be provided for a cluster-scoped",
	} {
		got := decided(t, pod("mapped", "CREATE", plain), objects, bound("p", policy, reference))
		if got.Allowed != (words == "") || !strings.Contains(got.Message, words) {
			t.Errorf("%s: got %+v", reference, got)
		}
	}
	ignored := decided(t, pod("mapped", "CREATE", plain), bound("p", `"failurePolicy": "Ignore", `+policy, `, "paramRef": {"name": "few", "parameterNotFoundAction": "Deny"}`))
	if !ignored.Allowed {
		t.Errorf("a kind without objects: got %+v", ignored)
	}
}

func TestParametersOfANamespace(t *testing.T) {
	values := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limit", "namespace": "mapped"}, "data": {"most": "1"}}`
	policy := bound("p", `"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, `+validations("int(params.data.most) > 3"), `, "paramRef": {"name": "limit", "parameterNotFoundAction": "Allow"}`)
	for namespace, allowed := range map[string]bool{"mapped": false, "free": true} {
		if got := decided(t, pod(namespace, "CREATE", plain), policy, []string{values}); got.Allowed != allowed {
			t.Errorf("%s: got %+v", namespace, got)
		}
	}
}

func TestKindsOfParametersAreLeftAlone(t *testing.T) {
	definition := `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "limits.x.io"}, "spec": {}}`
	if got := decided(t, pod("mapped", "CREATE", plain), []string{definition}); !got.Allowed {
		t.Errorf("got %+v", got)
	}
}
