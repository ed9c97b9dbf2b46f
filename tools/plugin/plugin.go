package main

// This file is the plugin as OPA knows it: its configuration, its start and its end.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/plugins/logs"
	"github.com/open-policy-agent/opa/v1/util"
)

const (
	pluginName = "fairlead"

	// The most connections at once. By default, an API server has up to 200 changing requests in flight.
	mostConnections = 1024
	// An idle connection is closed after this time. API servers close theirs after 90 seconds.
	idle = 120 * time.Second
)

// configuration is `plugins.fairlead` in OPA's configuration.
type configuration struct {
	// Listen is the `host:port` to serve at, with TLS.
	Listen string `json:"listen"`
	// The certificate to serve with and its key; read again within a second of a change.
	TLSCertFile       string `json:"tls_cert_file"`
	TLSPrivateKeyFile string `json:"tls_private_key_file"`
	// LargestReview is the most bytes of a review.
	LargestReview int64 `json:"largest_review"`
	// DecisionLogs has the form of OPA's `decision_logs`, which has to be `{"plugin": "fairlead"}` then.
	DecisionLogs json.RawMessage `json:"decision_logs"`
}

// factory makes the plugin, as OPA wants it.
type factory struct{}

// Validate returns the configuration that `text` has.
func (factory) Validate(_ *plugins.Manager, text []byte) (any, error) {
	config := configuration{LargestReview: 3 << 20}
	if err := util.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("plugins.%s: %w", pluginName, err)
	}
	for name, value := range map[string]string{
		"listen": config.Listen, "tls_cert_file": config.TLSCertFile, "tls_private_key_file": config.TLSPrivateKeyFile,
	} {
		if value == "" {
			return nil, fmt.Errorf("plugins.%s: %s is missing", pluginName, name)
		}
	}
	if config.LargestReview <= 0 {
		return nil, fmt.Errorf("plugins.%s: largest_review is not above 0", pluginName)
	}
	return config, nil
}

func (factory) New(manager *plugins.Manager, config any) plugins.Plugin {
	log.SetFlags(log.LstdFlags | log.LUTC)
	log.SetOutput(os.Stderr)
	manager.UpdatePluginStatus(pluginName, &plugins.Status{State: plugins.StateNotReady})
	manager.ExtraRoute(policiesPath, "fairlead/policies", changer{manager}.ServeHTTP)
	return &plugin{manager: manager, config: config.(configuration)}
}

// plugin serves at a port of its own from its start to its end.
type plugin struct {
	manager *plugins.Manager
	config  configuration
	logger  *logger
	server  *http.Server
}

func (p *plugin) Start(ctx context.Context) error {
	var err error
	if p.logger, err = newLogger(p.manager, p.config.DecisionLogs); err != nil {
		return fmt.Errorf("plugins.%s.decision_logs: %w", pluginName, err)
	}
	if p.logger != nil {
		if err := p.logger.logs.Start(ctx); err != nil {
			return err
		}
	}
	decider, err := newDecider(ctx, p.manager, p.logger)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", p.config.Listen)
	if err != nil {
		return err
	}
	p.server = &http.Server{
		// Also the time until the first request of a connection. An API server that has many requests connects ahead
		// of them, and may use such a connection much later. If it finds it closed, it does not try again.
		ReadHeaderTimeout: idle,
		IdleTimeout:       idle,
		MaxHeaderBytes:    16 << 10,
		TLSConfig:         serverTLS(shown(p.config.TLSCertFile, p.config.TLSPrivateKeyFile)),
		ErrorLog:          log.New(quiet{}, "", 0),
		Protocols:         new(http.Protocols),
	}
	p.server.Protocols.SetHTTP1(true) // like OPA; one HTTP/2 connection could carry hundreds of requests
	// SetKeepAlivesEnabled(false) also closes the connections that are idle at the moment.
	api, largest := newAPI(p.manager, p.config.LargestReview), p.config.LargestReview
	answers := newFront(decider.decide, api, largest, p.server.SetKeepAlivesEnabled)
	if p.server.Handler, err = measured(answers, p.manager.PrometheusRegister()); err != nil {
		return err
	}
	go p.serve(newLimited(listener, mostConnections))
	p.manager.UpdatePluginStatus(pluginName, &plugins.Status{State: plugins.StateOK})
	return nil
}

func (p *plugin) serve(listener net.Listener) {
	if err := p.server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("%s: %v", p.config.Listen, err)
	}
}

// Stop ends when all requests in hand are answered, or when OPA waits no longer.
func (p *plugin) Stop(ctx context.Context) {
	if p.server != nil {
		p.server.Shutdown(ctx)
	}
	if p.logger != nil {
		p.logger.logs.Stop(ctx)
	}
}

// Log takes a decision of OPA's own API from `decision_logs`. The API still reads OPA's store, which cannot be read once
// more at the same time: a writer may wait in between.
func (p *plugin) Log(ctx context.Context, event logs.EventV1) error {
	if p.logger != nil {
		go p.logger.ofAPI(context.WithoutCancel(ctx), event)
	}
	return nil
}

// Reconfigure keeps the configuration of the start: only a restart brings another one into force.
func (p *plugin) Reconfigure(context.Context, any) {}

// quiet drops what the HTTP library logs about each failed handshake, because anybody can cause many.
type quiet struct{}

func (quiet) Write(text []byte) (int, error) { return len(text), nil }
