package main

// This file changes several policies at once. OPA's own API takes one after the other, and compiles all that it has twice
// for each.

import (
	"context"
	"errors"
	"net/http"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/server/types"
	"github.com/open-policy-agent/opa/v1/server/writer"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/util"
)

// policiesPath is the path in OPA's API, behind its authz policy, that takes changes.
const policiesPath = "POST /v1/fairlead/policies"

// change is what becomes of policies, by their ids: all of it or nothing.
type change struct {
	Put    map[string]string `json:"put"`
	Remove []string          `json:"remove"`
}

// changer answers requests with a change.
type changer struct{ manager *plugins.Manager }

func (c changer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked change
	if err := util.NewJSONDecoder(r.Body).Decode(&asked); err != nil {
		writer.ErrorString(w, http.StatusBadRequest, types.CodeInvalidParameter, err)
		return
	}
	err := c.carryOut(r.Context(), asked)
	var mistakes ast.Errors
	var mistake *ast.Error
	if errors.As(err, &mistake) {
		mistakes = ast.Errors{mistake}
	}
	switch {
	case mistakes != nil || errors.As(err, &mistakes):
		body := types.NewErrorV1(types.CodeInvalidParameter, types.MsgCompileModuleError)
		writer.Error(w, http.StatusBadRequest, body.WithASTErrors(mistakes))
	case err != nil:
		writer.ErrorAuto(w, err)
	default:
		writer.JSONOK(w, struct{}{}, false)
	}
}

func (c changer) carryOut(ctx context.Context, asked change) error {
	params := storage.WriteParams
	params.Context = storage.NewContext()
	return storage.Txn(ctx, c.manager.Store, params, func(txn storage.Transaction) error {
		for id, text := range asked.Put {
			if err := c.manager.Store.UpsertPolicy(ctx, txn, id, []byte(text)); err != nil {
				return err
			}
		}
		for _, id := range asked.Remove {
			if err := c.manager.Store.DeletePolicy(ctx, txn, id); err != nil && !storage.IsNotFound(err) {
				return err
			}
		}
		compiler, err := c.compiled(ctx, txn)
		if err == nil {
			plugins.SetCompilerOnContext(params.Context, compiler) // or OPA would compile all of it again
		}
		return err
	})
}

// compiled compiles all policies of a transaction, as OPA does for each that it is given.
func (c changer) compiled(ctx context.Context, txn storage.Transaction) (*ast.Compiler, error) {
	store, options := c.manager.Store, c.manager.ParserOptions()
	ids, err := store.ListPolicies(ctx, txn)
	if err != nil {
		return nil, err
	}
	modules := make(map[string]*ast.Module, len(ids))
	for _, id := range ids {
		text, err := store.GetPolicy(ctx, txn, id)
		if err != nil {
			return nil, err
		}
		module, err := ast.ParseModuleWithOpts(id, string(text), options)
		if err != nil {
			return nil, err
		}
		modules[id] = module
	}
	compiler := ast.NewCompiler().WithEnablePrintStatements(c.manager.EnablePrintStatements()).
		WithPathConflictsCheck(storage.NonEmpty(ctx, store, txn))
	if options.RegoVersion != ast.RegoUndefined {
		compiler = compiler.WithDefaultRegoVersion(options.RegoVersion)
	}
	if compiler.Compile(modules); compiler.Failed() {
		return nil, compiler.Errors
	}
	return compiler, nil
}
