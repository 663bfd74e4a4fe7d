package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/ship/session"
	"flotilla/gateway/tlsfiles"
)

// listener is one client port's fleet and sessions. Its configuration may be
// exchanged while it runs.
type listener struct {
	name  string
	log   *slog.Logger
	fleet *fleet.Fleet
	host  *session.Host
	certs atomic.Pointer[certificates]
	parts atomic.Pointer[parts]

	// ctx ends everything; the fleet outlives the clients, as what they do
	// while they end needs it.
	ctx      context.Context
	cancel   context.CancelFunc
	watching context.Context
	blind    context.CancelFunc

	ids      atomic.Uint64
	mu       sync.Mutex
	sessions map[*session.Session]struct{}
	closed   bool
	// clients waits for every connection's goroutine, background for the rest.
	clients, background sync.WaitGroup
}

// certificates are what a TLS port presents, with what ends their watch.
type certificates struct {
	*tlsfiles.Certificates
	files *config.TLS
	stop  context.CancelFunc
}

// newListener makes a listener; nothing is dialed before start.
func newListener(cfg *config.Listener, network Network, trust dial.Trust, log *slog.Logger) (*listener, error) {
	l := &listener{name: cfg.Name, log: log.With("listener", cfg.Name), sessions: map[*session.Session]struct{}{}}
	l.fleet = fleet.New(cfg, &dial.Dialer{Trust: trust, Connect: network.DialContext}, l.log)
	l.host = &session.Host{Fleet: l.fleet, Pipeline: &pipeline.Pipeline{}, Log: l.log}
	return l, nil
}

// loadCertificates loads what a configuration wants to present, or returns
// what is in use already when that is the same.
func (l *listener) loadCertificates(cfg *config.Listener) (*certificates, error) {
	now := l.certs.Load()
	if cfg.TLS == nil {
		return nil, nil
	}
	if now != nil && reflect.DeepEqual(now.files, cfg.TLS) {
		return now, nil
	}
	c, err := tlsfiles.Load(cfg.TLS)
	if err != nil {
		return nil, fmt.Errorf("listener %s: %w", cfg.Name, err)
	}
	for _, w := range c.Warnings() {
		l.log.Warn("a certificate is out of its dates", "warning", w)
	}
	return &certificates{Certificates: c, files: cfg.TLS}, nil
}

// present puts certificates in use; nil makes it a plaintext port for the
// connections to come.
func (l *listener) present(c *certificates) {
	old := l.certs.Swap(c)
	if old == c {
		return
	}
	if old != nil {
		old.stop()
	}
	if c != nil {
		ctx, stop := context.WithCancel(l.watching)
		c.stop = stop
		l.background.Go(func() { c.Watch(ctx, l.log) })
	}
}

// start begins to watch the nodes. ctx ends the sessions; stop waits for them.
func (l *listener) start(ctx context.Context) {
	l.ctx, l.cancel = context.WithCancel(ctx)
	l.watching, l.blind = context.WithCancel(context.WithoutCancel(ctx))
	l.background.Go(func() { l.fleet.Run(l.watching) })
	l.background.Go(func() { l.tick(l.watching) })
}

// stop closes the clients and returns when everything has ended. What is taken
// from now on is closed at once.
func (l *listener) stop() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.clients.Wait()
	l.blind()
	l.background.Wait()
}

// take serves a connection, unless there are too many.
func (l *listener) take(conn net.Conn) {
	stats := l.fleet.Stats
	if stats.Clients.Add(1) > int64(l.fleet.Config().MaxConnections) {
		stats.Clients.Add(-1)
		stats.Rejected.Add(1)
		conn.Close()
		l.log.Debug("a connection was refused: max_connections is reached", "client", conn.RemoteAddr().String())
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		stats.Clients.Add(-1)
		conn.Close()
		return
	}
	stats.Accepted.Add(1)
	l.clients.Go(func() {
		defer stats.Clients.Add(-1)
		l.serve(conn)
	})
}

// serve does the handshakes of one connection and runs its session.
func (l *listener) serve(raw net.Conn) {
	defer raw.Close()
	// A client that never finishes its handshake must not hold up a shutdown.
	stop := context.AfterFunc(l.ctx, func() { raw.Close() })
	early, header, conn, err := l.handshake(raw)
	if err != nil {
		stop()
		l.log.Debug("a client's handshake failed", "client", raw.RemoteAddr().String(), "error", err)
		return
	}
	if !stop() {
		return
	}
	s := session.New(l.host, l.ids.Add(1), conn, early, l.parts.Load().wanted(header))
	l.mu.Lock()
	l.sessions[s] = struct{}{}
	l.mu.Unlock()
	s.Run(l.ctx)
	l.mu.Lock()
	delete(l.sessions, s)
	l.mu.Unlock()
}

func (l *listener) handshake(conn net.Conn) ([]byte, http.Header, net.Conn, error) {
	cfg := l.fleet.Config()
	if certs := l.certs.Load(); certs != nil {
		limit, cancel := context.WithTimeout(l.ctx, cfg.ConnectTimeout())
		defer cancel()
		secure := tls.Server(conn, certs.Config())
		if err := secure.HandshakeContext(limit); err != nil {
			return nil, nil, conn, err
		}
		conn = secure
	}
	early, header, err := session.Upgrade(conn, cfg.HandshakeTimeout)
	return early, header, conn, err
}

// tick looks at every session now and then, and at all of them when the fleet
// has changed.
func (l *listener) tick(ctx context.Context) {
	ticker := time.NewTicker(session.TickInterval)
	defer ticker.Stop()
	changed := l.fleet.Changed()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			// Taken before the look, so that a change during it is not missed.
			changed = l.fleet.Changed()
			l.tickAll(time.Now(), true)
		case now := <-ticker.C:
			l.tickAll(now, false)
		}
	}
}

func (l *listener) tickAll(now time.Time, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.sessions {
		s.Tick(now, changed)
	}
}

// kill ends every session at once.
func (l *listener) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.sessions {
		s.Kill()
	}
}
