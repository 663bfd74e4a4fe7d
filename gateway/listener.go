package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/ship/session"
	"flotilla/gateway/tlsfiles"
	"flotilla/stages"
)

// listener is one client port with its fleet and its sessions.
type listener struct {
	cfg   *config.Listener
	log   *slog.Logger
	port  net.Listener
	fleet *fleet.Fleet
	host  *session.Host
	certs *tlsfiles.Certificates

	ids      atomic.Uint64
	mu       sync.Mutex
	sessions map[*session.Session]struct{}
	// clients waits for every connection's goroutine.
	clients sync.WaitGroup
}

// newListener binds the port; nothing is accepted or dialed before run.
func newListener(cfg *config.Listener, network Network, trust dial.Trust, log *slog.Logger) (*listener, error) {
	l := &listener{cfg: cfg, log: log.With("listener", cfg.Name), sessions: map[*session.Session]struct{}{}}
	if cfg.Stitched() {
		return nil, fmt.Errorf("listener %s has frozen servers: range-split fleets are not served by this version", cfg.Name)
	}
	p, err := stages.Pipeline(cfg)
	if err != nil {
		return nil, err
	}
	for _, way := range p.Order() {
		l.log.Debug("pipeline", "order", way)
	}
	if cfg.TLS != nil {
		if l.certs, err = tlsfiles.Load(cfg.TLS); err != nil {
			return nil, fmt.Errorf("listener %s: %w", cfg.Name, err)
		}
	}
	dialer := &dial.Dialer{Trust: trust, Timeout: cfg.ConnectTimeout(), MaxMessage: cfg.MaxMessage, Connect: network.DialContext}
	l.fleet = fleet.New(cfg, dialer, l.log)
	l.host = &session.Host{Config: cfg, Fleet: l.fleet, Pipeline: p, Log: l.log}
	if l.port, err = network.Listen(cfg.Address); err != nil {
		return nil, fmt.Errorf("listener %s cannot listen on %s: %w", cfg.Name, cfg.Address, err)
	}
	return l, nil
}

// run serves until ctx ends; then no more clients are accepted, those that are
// there are closed, and it returns when all are gone.
func (l *listener) run(ctx context.Context) {
	// The fleet outlives the clients: what they do while they end needs it.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { l.fleet.Run(watching) })
	background.Go(func() { l.tick(watching) })
	if l.certs != nil {
		background.Go(func() { l.certs.Watch(watching, l.log) })
	}
	l.log.Info("listening", "address", l.port.Addr().String(), "servers", len(l.fleet.View().Upstreams), "tls", l.certs != nil)
	closePort := context.AfterFunc(ctx, func() { l.port.Close() })
	l.accept(ctx)
	closePort()
	l.clients.Wait()
	stop()
	background.Wait()
}

// acceptPause is how long accepting rests after a failure that may pass, such
// as too many open files.
const acceptPause = time.Second

func (l *listener) accept(ctx context.Context) {
	for {
		conn, err := l.port.Accept()
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			l.log.Warn("a connection could not be accepted", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		stats := l.fleet.Stats
		if stats.Clients.Add(1) > int64(l.cfg.MaxConnections) {
			stats.Clients.Add(-1)
			stats.Rejected.Add(1)
			conn.Close()
			l.log.Debug("a connection was refused: max_connections is reached", "client", conn.RemoteAddr().String())
			continue
		}
		stats.Accepted.Add(1)
		l.clients.Go(func() {
			defer stats.Clients.Add(-1)
			l.serve(ctx, conn)
		})
	}
}

// serve does the handshakes of one connection and runs its session.
func (l *listener) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	// A client that never finishes its handshake must not hold up a shutdown.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	early, conn, err := l.handshake(ctx, conn)
	if err != nil {
		stop()
		l.log.Debug("a client's handshake failed", "client", conn.RemoteAddr().String(), "error", err)
		return
	}
	if !stop() {
		return
	}
	s := session.New(l.host, l.ids.Add(1), conn, early)
	l.mu.Lock()
	l.sessions[s] = struct{}{}
	l.mu.Unlock()
	s.Run(ctx)
	l.mu.Lock()
	delete(l.sessions, s)
	l.mu.Unlock()
}

func (l *listener) handshake(ctx context.Context, conn net.Conn) ([]byte, net.Conn, error) {
	if l.certs != nil {
		limit, cancel := context.WithTimeout(ctx, l.cfg.ConnectTimeout())
		defer cancel()
		secure := tls.Server(conn, l.certs.Config())
		if err := secure.HandshakeContext(limit); err != nil {
			return nil, conn, err
		}
		conn = secure
	}
	early, err := session.Upgrade(conn, l.cfg.HandshakeTimeout)
	return early, conn, err
}

// tick looks at every session now and then, and at all of them when the fleet
// has changed.
func (l *listener) tick(ctx context.Context) {
	ticker := time.NewTicker(session.TickInterval)
	defer ticker.Stop()
	for {
		changed := l.fleet.Changed()
		select {
		case <-ctx.Done():
			return
		case <-changed:
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
