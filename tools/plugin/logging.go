package main

// This file gives OPA's decision logs what may be shown of a decision (see shown.go), and nothing of the sidecar's reads.

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/plugins/logs"
	"github.com/open-policy-agent/opa/v1/server"
	"github.com/open-policy-agent/opa/v1/storage"
)

// sampleLabel is the label of OPA with the share of the admitted requests that is logged. Each entry has it, too.
const sampleLabel = "decision_sample"

// admissionPath is how the log names the policies that decide about reviews.
const admissionPath = "system/main"

// admissionPaths also has the name that they have in signed bundles.
var admissionPaths = []string{admissionPath, "signed_bundle/main"}

// logger reduces decisions and gives them to a logger of OPA's: the one that OPA itself has, it would give all of them.
type logger struct {
	manager *plugins.Manager
	logs    *logs.Plugin
	share   float64
}

// newLogger returns the logger with the configuration `plugins.fairlead.decision_logs`, which has the form of OPA's own
// `decision_logs`; nil if there is none.
func newLogger(manager *plugins.Manager, text json.RawMessage) (*logger, error) {
	if len(text) == 0 {
		return nil, nil
	}
	parsed, err := logs.NewConfigBuilder().WithBytes(text).WithServices(manager.Services()).WithLogger(manager.Logger()).Parse()
	if err != nil || parsed == nil {
		return nil, err
	}
	share := 1.0
	if label, has := manager.Labels()[sampleLabel]; has {
		if share, err = strconv.ParseFloat(label, 64); err != nil {
			return nil, fmt.Errorf("labels.%s: %q is no share", sampleLabel, label)
		}
	}
	return &logger{manager, logs.New(parsed, manager), share}, nil
}

// review logs the decision about a review, if it is drawn.
func (l *logger) review(ctx context.Context, txn storage.Transaction, review any, result *any, failed error, from string) {
	if l != nil {
		l.write(ctx, server.Info{
			Txn: txn, DecisionID: uuid.NewString(), RemoteAddr: from, Path: admissionPath, Timestamp: time.Now().UTC(),
			Input: &review, Results: result, Error: failed,
		})
	}
}

// bundles are the revisions of the bundles that OPA has.
func (l *logger) bundles(ctx context.Context, txn storage.Transaction) map[string]server.BundleInfo {
	bundles := map[string]server.BundleInfo{}
	names, _ := bundle.ReadBundleNamesFromStore(ctx, l.manager.Store, txn) // none are found without bundles
	for _, name := range names {
		if revision, err := bundle.ReadBundleRevisionFromStore(ctx, l.manager.Store, txn, name); err == nil {
			bundles[name] = server.BundleInfo{Revision: revision}
		}
	}
	return bundles
}

// ofAPI logs what OPA's API decided, if that is about a review.
func (l *logger) ofAPI(ctx context.Context, event logs.EventV1) {
	if !slices.Contains(admissionPaths, event.Path) {
		return
	}
	err := storage.Txn(ctx, l.manager.Store, storage.TransactionParams{}, func(txn storage.Transaction) error {
		bundles := map[string]server.BundleInfo{}
		for name, bundle := range event.Bundles {
			bundles[name] = server.BundleInfo{Revision: bundle.Revision}
		}
		l.write(ctx, server.Info{
			Txn: txn, DecisionID: event.DecisionID, RemoteAddr: event.RequestedBy, Path: event.Path,
			Timestamp: event.Timestamp, RequestID: event.RequestID, Bundles: bundles,
			Input: event.Input, Results: event.Result, Error: event.Error,
		})
		return nil
	})
	l.report(err)
}

// write gives OPA's logger what is shown of a decision.
func (l *logger) write(ctx context.Context, decision server.Info) {
	var input, result any
	if decision.Input != nil {
		input = *decision.Input
	}
	if decision.Results != nil {
		result = *decision.Results
	}
	if !l.isDrawn(result) {
		return
	}
	input, result = shownReview(input), shownAnswer(result)
	if decision.Bundles == nil { // OPA's API says which it had
		decision.Bundles = l.bundles(ctx, decision.Txn)
	}
	value, err := ast.InterfaceToValue(input)
	if err == nil {
		decision.Input, decision.InputAST = &input, value
		if decision.Results != nil {
			decision.Results = &result
		}
		// Whoever closes the connection early is logged, too.
		err = l.logs.Log(context.WithoutCancel(ctx), &decision)
	}
	l.report(err)
}

// report says that a decision is missing in the log, if there is an error.
func (l *logger) report(err error) {
	if err != nil {
		l.manager.Logger().Error("The decision cannot be logged: %v", err)
	}
}

// isDrawn says whether a decision about a review is logged. Refusals, warnings and requests without an answer are.
func (l *logger) isDrawn(result any) bool {
	answer, _ := result.(object)
	response, _ := answer["response"].(object)
	warnings, hasWarnings := response["warnings"]
	isPlain := response["allowed"] == true && (!hasWarnings || warnings == false)
	return !isPlain || l.share >= 1 || rand.Float64() < l.share
}
