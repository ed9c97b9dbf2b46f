package main

// This file asks OPA's own REST API, in the same process.

import (
	"context"
	"net/http"
	"sync"

	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/server/authorizer"
	"github.com/open-policy-agent/opa/v1/server/handlers"
	"github.com/open-policy-agent/opa/v1/server/identifier"
	"github.com/open-policy-agent/opa/v1/topdown/cache"
)

// The most bytes that a compressed body unpacks to: nobody who asks Fairlead sends one, and 3 KB unpack to 3 MB.
const largestUnpacked = 1

// api is OPA's REST API behind its authz policy, by the packages of OPA's own server.
type api struct {
	manager *plugins.Manager
	served  func() http.Handler // built at the first request: OPA makes its server after it has started its plugins
}

func newAPI(manager *plugins.Manager, largest int64) *api {
	a := &api{manager: manager}
	a.served = sync.OnceValue(func() http.Handler {
		return handlers.DecodingLimitsHandler(a.guarded(manager.GetRouter()), largest, largestUnpacked)
	})
	return a
}

// guarded puts OPA's authz policy in front of a handler.
func (a *api) guarded(handler http.Handler) http.Handler {
	m := a.manager
	return identifier.NewTokenBased(authorizer.NewBasic(
		handler, m.GetCompiler, m.Store,
		authorizer.Runtime(m.Info),
		authorizer.Decision(m.GetConfig().DefaultAuthorizationDecisionRef),
		authorizer.PrintHook(m.PrintHook()),
		authorizer.EnablePrintStatements(m.EnablePrintStatements()),
		authorizer.InterQueryCache(shared.queries),
		authorizer.InterQueryValueCache(shared.values),
		authorizer.URLPathExpectsBodyFunc(m.ExtraAuthorizerRoutes()),
	))
}

// isServed says whether OPA's server is made, and so has routes.
func (a *api) isServed() bool {
	select {
	case <-a.manager.ServerInitializedChannel():
		return true
	default:
		return false
	}
}

// ServeHTTP answers as OPA itself does.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.served().ServeHTTP(w, r) }

// refusal asks OPA's authz policy about a request without a body. It returns nil if that is allowed, or OPA's answer.
func (a *api) refusal(r *http.Request) *answer {
	refused, isAllowed := &answer{}, false
	allow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { isAllowed = true })
	a.guarded(allow).ServeHTTP(refused, r)
	if isAllowed {
		return nil
	}
	return refused
}

// caches are those of OPA's server for what queries share, such as the answers to http.send.
type caches struct {
	queries cache.InterQueryCache
	values  cache.InterQueryValueCache
}

// shared is filled in by OPA's server when it is made.
var shared = &caches{}

func (c *caches) OnInterQueryCache(_ context.Context, queries cache.InterQueryCache) error {
	c.queries = queries
	return nil
}

func (c *caches) OnInterQueryValueCache(_ context.Context, values cache.InterQueryValueCache) error {
	c.values = values
	return nil
}
