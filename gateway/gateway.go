// Package gateway runs a configuration: it opens the ports, watches the nodes,
// serves the clients, exchanges the configuration while it runs, and ends all
// of it in order.
package gateway

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/admin"
	"flotilla/gateway/config"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/tlsfiles"
	"flotilla/policies/choice"
)

// Options are what a caller may add to a configuration.
type Options struct {
	// Logger gets all log lines; nil is slog.Default().
	Logger *slog.Logger
	// Level is what the logger goes by, for ports that may change it; nil when
	// it cannot be changed.
	Level *slog.LevelVar
	// Version and Commit show in flotilla_build_info.
	Version, Commit string
	// Ready is called once, when every port is open, with the addresses by
	// listener name; that of a chain API is under "NAME/chain_api", that of the
	// admin port under "admin". Nil is allowed.
	Ready func(map[string]net.Addr)
	// Network is where ports are opened and nodes are dialed; nil is TCP.
	Network Network
	// Reload brings configurations to put in force; see Watch, which makes
	// them from files. Nil never does.
	Reload <-chan Reload
	// Force ends the drain of a shutdown early when it is closed. Nil never is.
	Force <-chan struct{}
}

// Network opens ports and connects to nodes.
type Network interface {
	Listen(address string) (net.Listener, error)
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// tcp is the network of everything but tests.
type tcp struct{}

func (tcp) Listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

func (tcp) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return dial.TCP(ctx, network, address)
}

// Run serves cfg until ctx ends, and then drains: readiness turns 503, no
// client is accepted any more, those that are there get a Close frame with
// 1001, and those that have not gone when shutdown_grace is over are cut off.
// It returns when everything has ended; the error is one of the start.
func Run(ctx context.Context, cfg *config.Config, opts Options) error {
	g := &gateway{
		log: opts.Logger, network: opts.Network, trust: tlsfiles.NewTrust(), opts: opts,
		listeners: map[string]*listener{}, evm: map[string]*evmListener{}, ports: portSet{},
	}
	if g.log == nil {
		g.log = slog.Default()
	}
	if g.network == nil {
		g.network = tcp{}
	}
	// The clients end when run says so, not when ctx does: readiness goes first.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g.serving = serving
	servingEVM, stopEVM := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEVM()
	g.servingEVM = servingEVM
	if err := g.apply(cfg); err != nil {
		return err
	}
	if opts.Ready != nil {
		opts.Ready(g.addresses())
	}
	g.run(ctx, stop, stopEVM)
	return nil
}

// gateway is the running process. All of it but state belongs to the goroutine
// of Run.
type gateway struct {
	log     *slog.Logger
	network Network
	trust   *tlsfiles.Trust
	opts    Options
	serving context.Context
	// servingEVM outlives it by the drain of EVM listeners.
	servingEVM context.Context

	cfg       *config.Config
	revision  uint64
	listeners map[string]*listener
	evm       map[string]*evmListener
	ports     portSet
	admin     *adminPort
	control   *admin.Control
	// leaving waits for listeners that the configuration has no more.
	leaving sync.WaitGroup
	state   atomic.Pointer[admin.State]
}

// adminPort is the open admin port.
type adminPort struct {
	net.Listener
	stop context.CancelFunc
	done sync.WaitGroup
}

func (g *gateway) addresses() map[string]net.Addr {
	all := map[string]net.Addr{}
	for _, cfg := range g.cfg.Listeners {
		all[cfg.Name] = g.ports[cfg.Address].Addr()
		if cfg.ChainAPI != nil {
			all[cfg.Name+"/chain_api"] = g.ports[cfg.ChainAPI.Address].Addr()
		}
	}
	for _, cfg := range g.cfg.EVM {
		all[cfg.Name] = g.ports[cfg.Address].Addr()
	}
	if g.admin != nil {
		all["admin"] = g.admin.Addr()
	}
	return all
}

// publish tells the admin port what runs.
func (g *gateway) publish(change func(*admin.State)) {
	s := &admin.State{Single: g.cfg.Single, Revision: g.revision, ReloadOK: true, Control: g.control}
	for _, cfg := range g.cfg.Listeners {
		l := g.listeners[cfg.Name]
		entry := admin.Listener{Config: cfg, Fleet: l.fleet, Policy: l.parts.Load().running, Sessions: l.describe}
		if certs := l.tls.now.Load(); certs != nil {
			entry.Certificates = certs
		}
		if l.api != nil {
			entry.ChainAPI = l.api.Port
			if certs := l.api.tls.now.Load(); certs != nil {
				entry.ChainAPICertificates = certs
			}
		}
		entry.Explain = func(text []byte) (choice.Answer, error) { return l.explain(entry.ChainAPI, text) }
		s.Listeners = append(s.Listeners, entry)
	}
	for _, cfg := range g.cfg.EVM {
		l := g.evm[cfg.Name]
		entry := admin.EVM{Config: cfg, Listener: l.Listener, Policy: l.policy.running}
		policy := l.policy.name()
		entry.Explain = func(text []byte) (choice.Answer, error) { return l.explain(policy, text) }
		if certs := l.tls.now.Load(); certs != nil {
			entry.Certificates = certs
		}
		s.EVM = append(s.EVM, entry)
	}
	if change != nil {
		change(s)
	}
	g.state.Store(s)
}

// openAdmin serves the admin port on l, or ends it when l is nil.
func (g *gateway) openAdmin(l net.Listener) {
	g.closeAdmin()
	if l == nil {
		return
	}
	// It answers until the very end: readiness says that the end is coming.
	ctx, stop := context.WithCancel(context.WithoutCancel(g.serving))
	g.admin = &adminPort{Listener: l, stop: stop}
	server := admin.New(g.state.Load, g.opts.Version, g.opts.Commit, g.log)
	g.admin.done.Go(func() {
		if err := server.Serve(ctx, l); err != nil {
			g.log.Error("the admin port has failed", "error", err)
		}
	})
	g.log.Info("admin port", "address", l.Addr().String())
}

func (g *gateway) closeAdmin() {
	if g.admin == nil {
		return
	}
	g.admin.stop()
	g.admin.done.Wait()
	g.admin = nil
}

func (g *gateway) run(ctx context.Context, stop, stopEVM context.CancelFunc) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case r := <-g.opts.Reload:
			g.reload(r)
		}
	}
	g.log.Info("shutting down", "grace", g.cfg.ShutdownGrace)
	g.publish(func(s *admin.State) { s.Draining = true })
	var ends sync.WaitGroup
	ends.Go(func() { g.stopEVM(stopEVM) })
	later := evmAddresses(g.cfg)
	for address, p := range g.ports {
		if !slices.Contains(later, address) {
			p.shut()
		}
	}
	stop()
	g.drain()
	ends.Wait()
	g.closeAdmin()
	g.log.Info("stopped")
}

// drain waits for the clients to go, and cuts off those that do not.
func (g *gateway) drain() {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for _, l := range g.listeners {
			l.stop()
		}
		g.leaving.Wait()
	}()
	if g.inTime(gone) {
		return
	}
	for _, l := range g.listeners {
		l.kill()
	}
	<-gone
}

// inTime reports whether the clients have gone by themselves before the grace
// is over and before a second signal.
func (g *gateway) inTime(gone <-chan struct{}) bool {
	grace := time.NewTimer(g.cfg.ShutdownGrace)
	defer grace.Stop()
	select {
	case <-gone:
		return true
	case <-grace.C:
		g.log.Warn("the shutdown grace is over; clients that are still there are cut off")
	case <-g.opts.Force:
		g.log.Warn("a second signal; clients that are still there are cut off")
	}
	return false
}
