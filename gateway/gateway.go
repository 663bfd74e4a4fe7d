// Package gateway runs a configuration: it binds the ports, watches the nodes,
// serves the clients, and ends all of it in order.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/admin"
	"flotilla/gateway/config"
	"flotilla/gateway/tlsfiles"
)

// Options are what a caller may add to a configuration.
type Options struct {
	// Logger gets all log lines; nil is slog.Default().
	Logger *slog.Logger
	// Version and Commit show in flotilla_build_info.
	Version, Commit string
	// Ready is called once, when every port is bound, with the addresses by
	// listener name; that of the admin port is under "admin". Nil is allowed.
	Ready func(map[string]net.Addr)
	// Network is where ports are opened and nodes are dialed; nil is TCP.
	Network Network
	// Force ends the drain of a shutdown early when it is closed. Nil never is.
	Force <-chan struct{}
}

// Network opens ports and connects to nodes.
type Network interface {
	Listen(address string) (net.Listener, error)
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// tcp is the network of everything but tests.
type tcp struct{ net.Dialer }

func (*tcp) Listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

// Run serves cfg until ctx ends, and then drains: readiness turns 503, no
// client is accepted any more, those that are there get a Close frame with
// 1001, and those that have not gone when shutdown_grace is over are cut off.
// It returns when everything has ended; the error is one of the start.
func Run(ctx context.Context, cfg *config.Config, opts Options) error {
	log := opts.Logger
	if log == nil {
		log = slog.Default()
	}
	g := &gateway{cfg: cfg, log: log, network: opts.Network}
	if g.network == nil {
		g.network = &tcp{}
	}
	if err := g.bind(); err != nil {
		g.unbind()
		return err
	}
	g.publish(false)
	if opts.Ready != nil {
		opts.Ready(g.addresses())
	}
	g.run(ctx, opts)
	return nil
}

type gateway struct {
	cfg       *config.Config
	log       *slog.Logger
	network   Network
	listeners []*listener
	adminPort net.Listener
	state     atomic.Pointer[admin.State]
}

// bind binds all ports or reports every one that it could not.
func (g *gateway) bind() error {
	var failed []error
	trust := tlsfiles.NewTrust()
	for _, cfg := range g.cfg.Listeners {
		l, err := newListener(cfg, g.network, trust, g.log)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		g.listeners = append(g.listeners, l)
	}
	if g.cfg.Admin != nil {
		var err error
		if g.adminPort, err = g.network.Listen(g.cfg.Admin.Address); err != nil {
			failed = append(failed, fmt.Errorf("the admin port cannot listen on %s: %w", g.cfg.Admin.Address, err))
		}
	}
	return errors.Join(failed...)
}

func (g *gateway) unbind() {
	for _, l := range g.listeners {
		l.port.Close()
	}
	if g.adminPort != nil {
		g.adminPort.Close()
	}
}

func (g *gateway) addresses() map[string]net.Addr {
	all := map[string]net.Addr{}
	for _, l := range g.listeners {
		all[l.cfg.Name] = l.port.Addr()
	}
	if g.adminPort != nil {
		all["admin"] = g.adminPort.Addr()
	}
	return all
}

// publish tells the admin port what runs.
func (g *gateway) publish(draining bool) {
	s := &admin.State{Single: g.cfg.Single, Revision: 1, ReloadOK: true, Draining: draining}
	for _, l := range g.listeners {
		entry := admin.Listener{Config: l.cfg, Fleet: l.fleet}
		if l.certs != nil {
			entry.Certificates = l.certs
		}
		s.Listeners = append(s.Listeners, entry)
	}
	g.state.Store(s)
}

func (g *gateway) run(ctx context.Context, opts Options) {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	var admins, clients sync.WaitGroup
	administering, stopAdmin := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAdmin()
	if g.adminPort != nil {
		server := admin.New(g.state.Load, opts.Version, opts.Commit, g.log)
		admins.Go(func() {
			if err := server.Serve(administering, g.adminPort); err != nil {
				g.log.Error("the admin port has failed", "error", err)
			}
		})
		g.log.Info("admin port", "address", g.adminPort.Addr().String())
	}
	for _, l := range g.listeners {
		clients.Go(func() { l.run(serving) })
	}
	<-ctx.Done()
	g.log.Info("shutting down", "grace", g.cfg.ShutdownGrace)
	g.publish(true)
	stopServing()
	g.drain(&clients, opts.Force)
	stopAdmin()
	admins.Wait()
	g.log.Info("stopped")
}

// drain waits for the clients to go, and cuts off those that do not.
func (g *gateway) drain(clients *sync.WaitGroup, force <-chan struct{}) {
	gone := make(chan struct{})
	go func() {
		clients.Wait()
		close(gone)
	}()
	grace := time.NewTimer(g.cfg.ShutdownGrace)
	defer grace.Stop()
	select {
	case <-gone:
		return
	case <-grace.C:
		g.log.Warn("the shutdown grace is over; clients that are still there are cut off")
	case <-force:
		g.log.Warn("a second signal; clients that are still there are cut off")
	}
	for _, l := range g.listeners {
		l.kill()
	}
	<-gone
}
