package main

import (
	"encoding/json"
	"math/big"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The amounts in testdata/quantities.json, which the policies are tested with, are those of Kubernetes.
func TestQuantities(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/quantities.json")
	if err != nil {
		t.Fatal(err)
	}
	var amounts map[string]*string
	if err := json.Unmarshal(raw, &amounts); err != nil {
		t.Fatal(err)
	}
	for text, amount := range amounts {
		quantity, err := resource.ParseQuantity(text)
		switch {
		case amount == nil && err == nil:
			t.Errorf("%q is a quantity, %s", text, quantity.String())
		case amount != nil && err != nil:
			t.Errorf("%q: %v", text, err)
		case amount != nil:
			// No quantity has a fraction of a billionth, so that the scale is at most 9.
			value := quantity.AsDec()
			power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(9-value.Scale())), nil)
			nano := new(big.Int).Mul(value.UnscaledBig(), power)
			if nano.String() != *amount {
				t.Errorf("%q is %s billionths, not %s", text, nano, *amount)
			}
		}
	}
}
