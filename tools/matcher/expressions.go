package main

import (
	"encoding/json"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
	"google.golang.org/protobuf/encoding/protojson"
)

// parsed is an expression in CEL as a tree: cel.expr.Expr in the JSON of protocol buffers. Macros such as has() and all() are calls.
type parsed struct {
	Tree json.RawMessage `json:"tree,omitempty"`
	// Problem says why the text is no expression.
	Problem string `json:"problem,omitempty"`
}

// parseExpressions reads each text, and evaluates nothing.
func parseExpressions(texts []string) ([]parsed, error) {
	reader, err := parser.NewParser(parser.EnableOptionalSyntax(true))
	if err != nil {
		return nil, err
	}
	made := make([]parsed, len(texts))
	for i, text := range texts {
		source := common.NewTextSource(text)
		tree, problems := reader.Parse(source)
		if len(problems.GetErrors()) > 0 {
			made[i].Problem = problems.ToDisplayString()
			continue
		}
		message, err := ast.ExprToProto(tree.Expr())
		if err != nil {
			return nil, err
		}
		if made[i].Tree, err = protojson.Marshal(message); err != nil {
			return nil, err
		}
	}
	return made, nil
}
