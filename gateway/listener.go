package gateway

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/ship/handshake"
	"flotilla/gateway/ship/session"
)

// listener is one client port's fleet and sessions. Its configuration may be
// exchanged while it runs.
type listener struct {
	name  string
	log   *slog.Logger
	fleet *fleet.Fleet
	host  *session.Host
	parts atomic.Pointer[parts]
	// tls is what the port presents; api is nil without a chain API.
	tls presented
	api *chainAPI

	// ctx ends everything; the fleet outlives the clients, as what they do
	// while they end needs it.
	ctx      context.Context
	cancel   context.CancelFunc
	watching context.Context
	blind    context.CancelFunc

	ids      atomic.Uint64
	mu       sync.Mutex
	sessions map[*session.Session]struct{}
	// greeting are the connections whose handshake is not over.
	greeting map[net.Conn]struct{}
	closed   bool
	// clients waits for every connection's goroutine, background for the rest.
	clients, background sync.WaitGroup
}

// newListener makes a listener; nothing is dialed before start.
func newListener(cfg *config.Listener, network Network, trust dial.Trust, log *slog.Logger) (*listener, error) {
	l := &listener{name: cfg.Name, log: log.With("listener", cfg.Name), sessions: map[*session.Session]struct{}{}, greeting: map[net.Conn]struct{}{}}
	l.fleet = fleet.New(cfg, &dial.Dialer{Trust: trust, Connect: network.DialContext}, l.log)
	l.host = &session.Host{Fleet: l.fleet, Pipeline: &pipeline.Pipeline{}, Log: l.log, Looks: session.NewLooks()}
	return l, nil
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
	for conn := range l.greeting {
		conn.Close()
	}
	open := slices.Collect(maps.Keys(l.sessions))
	l.mu.Unlock()
	l.cancel()
	for _, s := range open {
		s.ShutDown()
	}
	if l.api != nil {
		l.api.end()
	}
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
	l.greeting[conn] = struct{}{}
	l.clients.Go(func() {
		defer stats.Clients.Add(-1)
		defer conn.Close()
		if s := l.greet(conn); s != nil {
			s.Run()
			l.mu.Lock()
			delete(l.sessions, s)
			l.mu.Unlock()
		}
	})
}

// greet does the handshakes of one connection. It returns its session, or nil
// when they fail, or when the listener has stopped, which closes raw.
func (l *listener) greet(raw net.Conn) *session.Session {
	head, conn, err := l.handshake(raw)
	if err != nil {
		l.log.Debug("a client's handshake failed", "client", raw.RemoteAddr().String(), "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.greeting, raw)
	if err != nil || l.closed {
		head.Release()
		return nil
	}
	s := session.New(l.host, l.ids.Add(1), conn, head.Rest, l.parts.Load().wanted(head.Value))
	head.Release()
	l.sessions[s] = struct{}{}
	return s
}

func (l *listener) handshake(conn net.Conn) (*handshake.Head, net.Conn, error) {
	cfg := l.fleet.Config()
	if secure := l.tls.config(); secure != nil {
		limit, cancel := context.WithTimeout(l.ctx, cfg.ConnectTimeout())
		defer cancel()
		secure := tls.Server(conn, secure)
		if err := secure.HandshakeContext(limit); err != nil {
			return nil, conn, err
		}
		conn = secure
	}
	head, err := handshake.Server(conn, cfg.HandshakeTimeout)
	return head, conn, err
}

// tick looks at the sessions with which something is due, and at all of them
// when the fleet has changed.
func (l *listener) tick(ctx context.Context) {
	timer := time.NewTimer(session.LookInterval)
	defer timer.Stop()
	changed, routing := l.fleet.Changed(), l.fleet.View().Routing
	last, at := time.Now(), time.Now().Add(session.LookInterval)
	look := func(next time.Time) {
		if least := last.Add(session.LookInterval); next.Before(least) {
			next = least
		}
		at = next
		timer.Reset(time.Until(next))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			// Taken before the look, so that a change during it is not missed.
			changed = l.fleet.Changed()
			// How far the nodes have come matters at once to those only that wait
			// for an archive's turn.
			if v := l.fleet.View(); v.Stitching != nil || v.Routing != routing {
				routing = v.Routing
				look(l.tickAll(time.Now(), true))
			}
		case <-l.host.Looks.Wanted:
			if soon := time.Now().Add(session.LookInterval); soon.Before(at) {
				look(soon)
			}
		case last = <-timer.C:
			look(l.tickAll(last, false))
		}
	}
}

// restless is how long the listener looks away at most.
const restless = time.Minute

// tickAll returns when something is due again.
func (l *listener) tickAll(now time.Time, changed bool) (next time.Time) {
	next = now.Add(restless)
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.sessions {
		s.Tick(now, changed)
		if due := s.Due(); due.Before(next) {
			next = due
		}
	}
	return next
}

// describe tells how every session is doing.
func (l *listener) describe() []session.Description {
	l.mu.Lock()
	list := slices.Collect(maps.Keys(l.sessions))
	l.mu.Unlock()
	out := make([]session.Description, len(list))
	for i, s := range list {
		out[i] = s.Describe()
	}
	return out
}

// kill ends every session at once.
func (l *listener) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.sessions {
		s.Kill()
	}
	if l.api != nil {
		l.api.Kill()
	}
}
