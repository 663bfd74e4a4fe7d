package evm

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/evm/upstream"
	"flotilla/policies"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/semaphore"
)

// Options are what a listener needs of the process.
type Options struct {
	Network upstream.Network
	Trust   upstream.Trust
	// Certificates gives the TLS settings for a client that connects now, nil
	// for plaintext. Nil is never TLS.
	Certificates func() *tls.Config
	// Policy chooses among nodes that are equally fresh; nil is the built-in way.
	Policy policies.Policy
	// Level is the log level that /loglevel sets; nil when it cannot be set.
	Level  *slog.LevelVar
	Logger *slog.Logger
}

// Listener is one client port: its fleet, its clients and its management API.
// Its configuration may be exchanged while it runs.
type Listener struct {
	log    *slog.Logger
	opts   Options
	fleet  *fleet
	admin  *fasthttp.Server
	server atomic.Pointer[fasthttp.Server]
	limits atomic.Pointer[limits]
	// filters are those of the clients over HTTP.
	filters *filters
	// chooser has the policy in force.
	chooser atomic.Pointer[chooser]
	Stats   *Stats
	heads   heads

	// ctx ends the clients, watching the monitors, which outlive them.
	ctx      context.Context
	cancel   context.CancelFunc
	watching context.Context
	blind    context.CancelFunc
	draining atomic.Bool

	mu       sync.Mutex
	clients  map[net.Conn]*client
	sessions map[wsSession]struct{}
	closed   bool
	// serving waits for every connection's goroutine, background for the rest.
	serving, background sync.WaitGroup
}

// limits are the settings of a configuration that requests read.
type limits struct {
	cfg   *config.EVM
	logs  *semaphore.Weighted
	rates *rates
}

// client is one connection.
type client struct {
	conn net.Conn
	// hijacked is true when the connection becomes a WebSocket; what is known
	// about that comes by upgraded.
	hijacked atomic.Bool
	upgraded chan *upgrade
}

// Stats are what a listener counts; all only rise, but Clients and Sessions.
type Stats struct {
	Clients, Sessions                                    atomic.Int64
	Accepted, Rejected, Requests, Limited, Unserved      atomic.Uint64
	Upgrades, Rotated, Moved, Retries, Held, HeadsRaised atomic.Uint64
}

// New makes a listener; nothing is dialed before Start.
func New(cfg *config.EVM, o Options) (*Listener, error) {
	log := o.Logger.With("listener", cfg.Name)
	f, err := newFleet(cfg, o.Network, o.Trust, log)
	if err != nil {
		return nil, err
	}
	l := &Listener{log: log, opts: o, fleet: f, Stats: &Stats{}, filters: newFilters(), clients: map[net.Conn]*client{}, sessions: map[wsSession]struct{}{}}
	l.limits.Store(newLimits(cfg, nil))
	l.chooser.Store(newChooser(cfg.Name, o.Policy))
	l.server.Store(l.newServer(cfg, l.serveHTTP))
	l.admin = l.newServer(cfg, l.serveManagement)
	return l, nil
}

// newLimits takes over from before what a configuration does not change.
func newLimits(cfg *config.EVM, before *limits) *limits {
	l := &limits{cfg: cfg}
	if before != nil && before.cfg.Limits.GetLogs == cfg.Limits.GetLogs {
		l.logs = before.logs
	} else {
		l.logs = semaphore.NewWeighted(int64(cfg.Limits.GetLogs))
	}
	if before != nil && before.cfg.Limits.Rate == cfg.Limits.Rate && before.cfg.Limits.Burst == cfg.Limits.Burst {
		l.rates = before.rates
	} else {
		l.rates = newRates(cfg.Limits.Rate, cfg.Limits.Burst)
	}
	return l
}

// Config is the configuration in force.
func (l *Listener) Config() *config.EVM { return l.limits.Load().cfg }

// View is what is known of the fleet now.
func (l *Listener) View() *View { return l.fleet.view.Load() }

// Told is the highest block that clients have been told.
func (l *Listener) Told() uint64 { return l.heads.latest.Load() }

// Filters is how many filters clients have now.
func (l *Listener) Filters() int { return l.filters.count(time.Now()) }

// FilterStats counts the filters that clients have made.
func (l *Listener) FilterStats() *FilterStats { return &l.filters.stats }

// Start begins to watch the nodes. ctx ends the clients; Stop waits for them.
func (l *Listener) Start(ctx context.Context) {
	l.ctx, l.cancel = context.WithCancel(ctx)
	l.watching, l.blind = context.WithCancel(context.WithoutCancel(ctx))
	l.fleet.start(l.watching)
	l.background.Go(func() { l.tick(l.watching) })
	l.background.Go(func() { l.tags(l.watching) })
}

// Change is an update that has been prepared.
type Change struct {
	cfg    *config.EVM
	nodes  []*Node
	policy policies.Policy
}

// Prepare does what can fail of an update. policy is as in Options.
func (l *Listener) Prepare(cfg *config.EVM, policy policies.Policy) (*Change, error) {
	nodes, err := l.fleet.makeNodes(cfg)
	if err != nil {
		return nil, err
	}
	return &Change{cfg, nodes, policy}, nil
}

// Apply puts a prepared update in force.
func (l *Listener) Apply(c *Change) {
	if c.cfg.Limits != l.Config().Limits {
		// Connections that are open keep the limits that they began with.
		l.server.Store(l.newServer(c.cfg, l.serveHTTP))
	}
	l.limits.Store(newLimits(c.cfg, l.limits.Load()))
	l.chooser.Store(newChooser(c.cfg.Name, c.policy))
	l.fleet.update(c.cfg, c.nodes)
}

// Drain makes the probe say 503, closes WebSockets, and holds what is known of
// the nodes (seed 004 "Draining"). Calls are served on.
func (l *Listener) Drain() {
	l.fleet.freeze()
	l.draining.Store(true)
	l.log.Info("draining", "for", l.Config().Drain)
}

// Stop closes the clients and returns when everything has ended. What is taken
// from now on is closed at once.
func (l *Listener) Stop() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.draining.Store(true)
	l.cancel()
	gone := make(chan struct{})
	l.background.Go(func() {
		defer close(gone)
		l.serving.Wait()
	})
	// A connection that waits for its next request wakes up by its deadline. It
	// may have set a later one just now, hence more than once.
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for waiting := true; waiting; {
		l.mu.Lock()
		for _, c := range l.clients {
			c.conn.SetReadDeadline(time.Now())
		}
		l.mu.Unlock()
		select {
		case <-gone:
			waiting = false
		case <-ticker.C:
		}
	}
	l.blind()
	l.background.Wait()
	l.fleet.wait()
}

// Kill cuts every client off.
func (l *Listener) Kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.clients {
		c.conn.Close()
	}
	for s := range l.sessions {
		s.kill()
	}
}

// Take serves a connection of the client port, unless there are too many.
func (l *Listener) Take(conn net.Conn) { l.take(conn, l.server.Load()) }

// TakeManagement serves a connection of the management port.
func (l *Listener) TakeManagement(conn net.Conn) { l.take(conn, l.admin) }

func (l *Listener) take(conn net.Conn, server *fasthttp.Server) {
	public := server != l.admin
	if public && l.Stats.Clients.Add(1) > int64(l.Config().Limits.MaxConnections) {
		l.Stats.Clients.Add(-1)
		l.Stats.Rejected.Add(1)
		conn.Close()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		if public {
			l.Stats.Clients.Add(-1)
		}
		conn.Close()
		return
	}
	if public {
		l.Stats.Accepted.Add(1)
	}
	l.serving.Go(func() {
		if public {
			defer l.Stats.Clients.Add(-1)
		}
		l.serve(conn, server)
	})
}

// serve runs one connection to its end.
func (l *Listener) serve(conn net.Conn, server *fasthttp.Server) {
	defer conn.Close()
	if server != l.admin && l.opts.Certificates != nil {
		if cfg := l.opts.Certificates(); cfg != nil {
			secure := tls.Server(conn, cfg)
			limit, cancel := context.WithTimeout(l.ctx, 10*time.Second)
			err := secure.HandshakeContext(limit)
			cancel()
			if err != nil {
				l.log.Debug("a client's handshake failed", "client", conn.RemoteAddr().String(), "error", err)
				return
			}
			conn = secure
		}
	}
	c := &client{conn: conn, upgraded: make(chan *upgrade, 1)}
	l.mu.Lock()
	l.clients[conn] = c
	l.mu.Unlock()
	err := server.ServeConn(conn)
	if c.hijacked.Load() {
		l.runSession(<-c.upgraded)
	} else if err != nil {
		l.log.Debug("a client's connection ended", "client", conn.RemoteAddr().String(), "error", err)
	}
	l.mu.Lock()
	delete(l.clients, conn)
	l.mu.Unlock()
}

// find is the client of a connection that is being served.
func (l *Listener) find(conn net.Conn) *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients[conn]
}

// tick looks at the WebSocket sessions now and then.
func (l *Listener) tick(ctx context.Context) {
	for {
		ws := l.Config().WebSocket
		if !pause(ctx, min(max(min(ws.HealthPoll, ws.Heartbeat)/5, 10*time.Millisecond), time.Second)) {
			return
		}
		l.mu.Lock()
		due := make([]wsSession, 0, len(l.sessions))
		for s := range l.sessions {
			due = append(due, s)
		}
		l.mu.Unlock()
		now, view := time.Now(), l.View()
		for _, s := range due {
			s.tick(now, view)
		}
	}
}
