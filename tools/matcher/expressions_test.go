package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestExpressionsAreTrees(t *testing.T) {
	trees, err := parseExpressions([]string{`has(a.b) ? a.?b : "x"`, "a +"})
	if err != nil {
		t.Fatal(err)
	}
	var tree struct {
		CallExpr struct {
			Function string
			Args     []struct{ CallExpr struct{ Function string } }
		}
	}
	if err := json.Unmarshal(trees[0].Tree, &tree); err != nil {
		t.Fatal(err)
	}
	call := tree.CallExpr
	if call.Function != "_?_:_" || call.Args[0].CallExpr.Function != "has" || call.Args[1].CallExpr.Function != "_?._" {
		t.Errorf("the tree is %s", trees[0].Tree)
	}
	if trees[1].Tree != nil || !strings.Contains(trees[1].Problem, "Syntax error") {
		t.Errorf("no expression has the tree %s and the problem %q", trees[1].Tree, trees[1].Problem)
	}
}
