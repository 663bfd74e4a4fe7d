package chainapi

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"flotilla/gateway/config"
	"flotilla/policies"
)

// Port is the chain API of one listener. Its configuration may be exchanged
// while it runs.
type Port struct {
	// Stats are the port's counters.
	Stats *Stats

	fleet    Fleet
	dial     Dial
	log      *slog.Logger
	settings atomic.Pointer[settings]
	view     atomic.Pointer[View]
	events   chan func(*owner)
	done     chan struct{}

	// primary is the node that get_info was asked of last; turns counts state
	// calls.
	primary atomic.Pointer[link]
	turns   atomic.Uint64
	// asked counts what the policy is asked for, askers holds *asker between
	// requests.
	asked   atomic.Uint64
	askers  sync.Pool
	cache   cache
	hedging budget

	mu      sync.Mutex
	conns   map[*conn]struct{}
	closed  atomic.Bool
	clients sync.WaitGroup
}

// settings are a configuration, and what is made of it once.
type settings struct {
	*config.Listener
	api   *config.ChainAPI
	rules Rules
	cors  []byte
	// busy are the status codes that mean that a node is busy.
	busy map[int]bool
	// policy is nil for the built-in order; headers are those that it wants to
	// see, in lower case.
	policy  policies.Policy
	headers [][]byte
}

func newSettings(cfg *config.Listener, policy policies.Policy) *settings {
	api := cfg.ChainAPI
	busy := map[int]bool{503: true}
	for _, text := range api.BusyStatuses {
		if code, err := strconv.Atoi(text); err == nil { // checked with the configuration
			busy[code] = true
		}
	}
	s := &settings{
		busy:     busy,
		Listener: cfg, api: api, cors: corsHeaders(api.CORS),
		rules: Rules{LiveFirst: api.BlockSource == "live_first", MaxAttempts: int(api.MaxAttempts), Lag: cfg.LiveLagBlocks},
	}
	s.setPolicy(policy)
	return s
}

// isBusy reports whether an answer means that the node has no time.
func (s *settings) isBusy(status int) bool { return s.busy[status] }

// allows reports whether a class is forwarded.
func (s *settings) allows(c Class) bool { return slices.Contains(s.api.Allow, string(c)) }

// New makes the port of a listener that has a chain_api. policy is the
// listener's. Nothing is dialed before Run.
func New(cfg *config.Listener, policy policies.Policy, fleet Fleet, dial Dial, log *slog.Logger) *Port {
	p := &Port{
		Stats: newStats(), fleet: fleet, dial: dial, log: log,
		events: make(chan func(*owner)), done: make(chan struct{}), conns: map[*conn]struct{}{},
		askers: sync.Pool{New: func() any { return &asker{} }},
	}
	p.settings.Store(newSettings(cfg, policy))
	p.view.Store(&View{})
	return p
}

// View is the newest view. It is never nil.
func (p *Port) View() *View { return p.view.Load() }

// Config is the configuration in force.
func (p *Port) Config() *config.ChainAPI { return p.settings.Load().api }

// Serve serves a connection in the background, unless there are too many.
// secure is nil for a plaintext port.
func (p *Port) Serve(raw net.Conn, secure *tls.Config) {
	if p.Stats.Connections.Add(1) > int64(p.Config().MaxConnections) {
		p.Stats.Connections.Add(-1)
		p.Stats.Rejected.Inc(RejectedConnections)
		raw.Close()
		p.log.Debug("a chain API connection was refused: max_connections is reached", "client", raw.RemoteAddr().String())
		return
	}
	c := newConn(p, raw)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		p.Stats.Connections.Add(-1)
		raw.Close()
		return
	}
	p.conns[c] = struct{}{}
	p.clients.Go(func() {
		c.run(secure)
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
		p.Stats.Connections.Add(-1)
	})
}

// Stop ends the idle connections, lets the others finish the request that they
// are at, and returns when all are gone. What comes from now on is closed.
func (p *Port) Stop() {
	p.mu.Lock()
	p.closed.Store(true)
	for c := range p.conns {
		c.leave()
	}
	p.mu.Unlock()
	p.clients.Wait()
}

// Kill ends every connection at once.
func (p *Port) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.raw.Close()
	}
}

// stopping reports whether clients are to leave.
func (p *Port) stopping() bool { return p.closed.Load() }

// nowPrimary is the node to ask for get_info, nil when there is none.
func (p *Port) nowPrimary(v *View) *link {
	old := p.primary.Load()
	next := nextPrimary(v, old)
	if next != old {
		p.primary.CompareAndSwap(old, next)
	}
	return next
}

// do has the owner run event and waits until the view shows its effect. It
// does nothing once the port has ended.
func (p *Port) do(event func(*owner)) {
	finished := make(chan struct{})
	select {
	case p.events <- func(o *owner) { event(o); o.publish(); close(finished) }:
		<-finished
	case <-p.done:
	}
}

// Update puts another configuration of the same listener, and its policy, in force. An API whose
// endpoint and role are the same keeps its state and its counters.
func (p *Port) Update(cfg *config.Listener, policy policies.Policy) {
	p.do(func(o *owner) { o.update(newSettings(cfg, policy)) })
}

// Follow puts in force at once what the SHiP side knows now. The port follows by
// itself soon after; who has just changed something there and is about to say
// so calls this before.
func (p *Port) Follow() { p.do((*owner).look) }

// Run watches the upstream APIs until ctx ends, and returns when every
// goroutine that it started has ended.
func (p *Port) Run(ctx context.Context) {
	o := &owner{p: p, ctx: ctx}
	o.update(p.settings.Load())
	o.publish()
	defer func() {
		close(p.done)
		o.probers.Wait()
		for _, k := range o.known {
			k.link.client.close()
		}
	}()
	for {
		changed := p.fleet.Changed()
		o.look()
		o.publish()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case event := <-p.events:
			event(o)
		}
	}
}
