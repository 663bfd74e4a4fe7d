package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
)

// gatewayFunc runs a gateway until ctx ends. It calls ready once, with the
// bound address of each listener by name and of "admin".
type gatewayFunc func(ctx context.Context, cfg *config.Config, ready func(map[string]net.Addr)) error

func runGateway(ctx context.Context, cfg *config.Config, ready func(map[string]net.Addr)) error {
	return gateway.Run(ctx, cfg, gateway.Options{Logger: slog.New(slog.DiscardHandler), Ready: ready})
}

// runningGateway is a gateway on ports of its own.
type runningGateway struct {
	ship, admin net.Addr
	cancel      context.CancelFunc
	done        chan error
}

func startGateway(ctx context.Context, fleet *simFleet, run gatewayFunc) (*runningGateway, error) {
	cfg, _, err := config.Parse("demo.hcl", []byte(fleet.text()))
	if err != nil {
		return nil, fmt.Errorf("the configuration of the demo: %w", err)
	}
	// A file cannot ask for a free port, as it would not say which.
	cfg.Admin.Address, cfg.Listeners[0].Address = "127.0.0.1:0", "127.0.0.1:0"

	// The gateway outlives an interrupt, so that the summary can be read.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	gw := &runningGateway{cancel: cancel, done: make(chan error, 1)}
	ready := make(chan map[string]net.Addr, 1)
	go func() { gw.done <- run(ctx, cfg, func(bound map[string]net.Addr) { ready <- bound }) }()
	select {
	case bound := <-ready:
		gw.ship, gw.admin = bound[cfg.Listeners[0].Name], bound["admin"]
		return gw, nil
	case err := <-gw.done:
		cancel()
		return nil, fmt.Errorf("the gateway does not start: %w", err)
	}
}

func (gw *runningGateway) stop() error {
	gw.cancel()
	return <-gw.done
}

// dial connects the client, again and again until the gateway knows its nodes.
func (gw *runningGateway) dial(ctx context.Context, o simulator.ClientOptions) (*simulator.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	for {
		c, err := simulator.Dial(ctx, "ws://"+gw.ship.String()+"/", o)
		if err == nil {
			return c, nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			return nil, err
		}
	}
}

// count reads from the gateway's metrics what a counter of its listener is at.
func (gw *runningGateway) count(metric string) (int, error) {
	c := http.Client{Timeout: demoPatience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + gw.admin.String() + "/metrics")
	if err != nil {
		return 0, fmt.Errorf("read the gateway's metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	sum, err := simulator.SumMetric(resp.Body, metric)
	return int(sum), err
}
