package main

// This file decides about reviews by OPA's library: by a query that is prepared once for each revision of the policies.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/util"
)

var (
	// errUndefined says that OPA has no policies yet, or that one of them lacks a part.
	errUndefined = errors.New("the decision is undefined")
	// errMalformed says that a body is not JSON.
	errMalformed = errors.New("the body is not JSON")
)

// decider answers reviews as OPA answers `POST /`: by its default decision, which is data.system.main.
type decider struct {
	manager *plugins.Manager
	logger  *logger // nil if decisions are not logged
	query   atomic.Pointer[rego.PreparedEvalQuery]
}

func newDecider(ctx context.Context, manager *plugins.Manager, logger *logger) (*decider, error) {
	d := &decider{manager: manager, logger: logger}
	// OPA calls this while it commits new policies, when no decision is being made.
	manager.RegisterCompilerTrigger(func(txn storage.Transaction) {
		if err := d.prepare(context.Background(), txn); err != nil {
			manager.Logger().Error("The decision cannot be prepared: %v", err)
			d.query.Store(nil) // whoever asks is told so, and is not answered by the policies before
		}
	})
	return d, storage.Txn(ctx, manager.Store, storage.TransactionParams{}, func(txn storage.Transaction) error {
		return d.prepare(ctx, txn)
	})
}

// prepare replaces the query by one of the current policies.
func (d *decider) prepare(ctx context.Context, txn storage.Transaction) error {
	query, err := rego.New(
		rego.ParsedQuery(ast.NewBody(ast.NewExpr(ast.NewTerm(d.manager.GetConfig().DefaultDecisionRef())))),
		rego.Compiler(d.manager.GetCompiler()),
		rego.Store(d.manager.Store),
		rego.Transaction(txn),
		rego.Runtime(d.manager.Info),
		rego.PrintHook(d.manager.PrintHook()),
		rego.StackTraces(true),
	).PrepareForEval(ctx)
	if err == nil {
		d.query.Store(&query)
	}
	return err
}

// decide returns OPA's answer to a review, as JSON. With an intent, the answer is that of this intent alone: it is added
// to the review as `"intents": [NAME]`, because policies see the body and not the path of a webhook.
func (d *decider) decide(ctx context.Context, body []byte, intent, from string) ([]byte, error) {
	var review any
	if err := util.UnmarshalJSON(body, &review); err != nil {
		return nil, errMalformed
	}
	if fields, isObject := review.(object); isObject && intent != "" {
		fields["intents"] = []any{intent}
	}
	input, err := ast.InterfaceToValue(review)
	if err != nil {
		return nil, err
	}
	txn, err := d.manager.Store.NewTransaction(ctx)
	if err != nil {
		return nil, err
	}
	defer d.manager.Store.Abort(ctx, txn)
	result, err := d.evaluate(ctx, txn, input)
	d.logger.review(ctx, txn, review, result, err, from)
	if err != nil {
		return nil, err
	}
	return json.Marshal(*result)
}

// evaluate returns the decision about an input. The transaction keeps the policies and the data as they are: the query is
// the one of the policies that it sees.
func (d *decider) evaluate(ctx context.Context, txn storage.Transaction, input ast.Value) (*any, error) {
	query := d.query.Load()
	if query == nil {
		return nil, errUndefined
	}
	results, err := query.Eval(
		ctx,
		rego.EvalTransaction(txn),
		rego.EvalParsedInput(input),
		rego.EvalInterQueryBuiltinCache(shared.queries),
		rego.EvalInterQueryBuiltinValueCache(shared.values),
	)
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, errUndefined
	}
	return &results[0].Expressions[0].Value, nil
}

// refusalFor says why there is no decision.
func refusalFor(err error) *refusal {
	switch {
	case errors.Is(err, errUndefined):
		return &refusal{http.StatusServiceUnavailable, starting}
	case errors.Is(err, errMalformed):
		return &refusal{http.StatusBadRequest, err.Error()}
	case topdown.IsCancel(err), errors.Is(err, context.DeadlineExceeded):
		return &refusal{http.StatusGatewayTimeout, slow}
	}
	status := http.StatusInternalServerError
	return &refusal{status, fmt.Sprintf("OPA cannot decide (status %d): %s", status, beginningOf(err.Error(), longestReason))}
}
