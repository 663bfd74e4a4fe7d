// Package fleet knows the nodes of a listener: it watches each of them, and
// publishes what it knows as an immutable View.
//
// One goroutine owns the state (the house rule "one writer, many readers").
// Monitors and sessions tell it what they saw; everybody reads the View.
package fleet

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/dial"
)

// Fleet is the upstreams of one listener.
type Fleet struct {
	// Stats are the listener's counters.
	Stats *Stats

	dialer dial.Dialer
	cfg    atomic.Pointer[config.Listener]
	log    *slog.Logger
	events chan func(*owner)
	done   chan struct{}
	view   atomic.Pointer[View]
	// changed is closed and replaced with every view.
	changed atomic.Pointer[chan struct{}]
	// freed is closed and replaced when an upstream ceases to be full.
	freed atomic.Pointer[chan struct{}]

	tip     tip // the fleet's, merged from views and from what sessions see
	pair    atomic.Pointer[Pair]
	headAt  atomic.Int64
	started time.Time
	// libFloor is the highest LIB ever told; LIB never goes back (M12).
	libFloor tip

	// settled is closed, once, when every monitor has found out something;
	// unsettled counts those that have not.
	settled   chan struct{}
	settling  sync.Once
	unsettled atomic.Int64

	// picks is held to take a slot. turn has room for one who has to choose
	// again: a channel, as that may take time. taken counts the slots that were
	// ever taken.
	picks sync.Mutex
	turn  chan struct{}
	taken atomic.Uint64
}

// owner is the state that only the fleet's goroutine touches.
type owner struct {
	f         *Fleet
	upstreams []Upstream
	private   []private
	// dirty: the next view differs. onward: in nothing but how far the nodes have come.
	dirty, onward bool
	// poolABIs are the fingerprints that a pool was warned of.
	poolABIs map[string]bool
	chain    *ship.ID // that of the views so far, nil while none is known
	// ctx is the fleet's; monitors waits for those that were started under it.
	ctx      context.Context
	monitors sync.WaitGroup
	tick     *time.Ticker
}

// private is what the owner remembers of an upstream beside its snapshot.
type private struct {
	strikes strikes
	stale   staleness
	warned  warnings
	// told is the number of the head that the node had told of by its last
	// status: the next one cannot be lower, unless the node was set back.
	told uint32
	// stop ends the upstream's monitor.
	stop context.CancelFunc
}

// New makes the fleet of a listener. dialer says how nodes are reached; its
// limits are those of the configuration. Nothing is dialed before Run.
func New(cfg *config.Listener, dialer *dial.Dialer, log *slog.Logger) *Fleet {
	f := &Fleet{
		Stats: newStats(), dialer: *dialer, log: log,
		events: make(chan func(*owner)), done: make(chan struct{}), started: time.Now(),
		settled: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	f.dialer.Known = f.knownABI
	f.pair.Store(&Pair{})
	f.cfg.Store(cfg)
	var upstreams []Upstream
	for _, s := range monitored(cfg) {
		upstreams = append(upstreams, newUpstream(s, newLive()))
	}
	first := NewView(cfg, upstreams)
	f.view.Store(first)
	// One more, so that a fleet without servers is settled as well.
	f.unsettled.Store(int64(len(first.Upstreams)) + 1)
	f.settle()
	c := make(chan struct{})
	f.changed.Store(&c)
	full := make(chan struct{})
	f.freed.Store(&full)
	return f
}

// settle counts a monitor that has found out something for the first time.
func (f *Fleet) settle() {
	if f.unsettled.Add(-1) == 0 {
		f.settling.Do(func() { close(f.settled) })
	}
}

// monitored are the servers of a configuration that are used.
func monitored(cfg *config.Listener) (list []*config.Server) {
	for _, s := range cfg.Servers {
		if s.Enabled && s.URL != "" {
			list = append(list, s)
		}
	}
	return list
}

// Config is the configuration in force.
func (f *Fleet) Config() *config.Listener { return f.cfg.Load() }

// Open connects to a node within the limits of the configuration in force.
func (f *Fleet) Open(ctx context.Context, target string) (*dial.Node, error) {
	d := f.dialer
	d.Timeout, d.MaxMessage = f.Config().ConnectTimeout(), f.Config().MaxMessage
	return d.Open(ctx, target)
}

// Run watches the nodes until ctx ends, and returns when every goroutine that
// it started has ended.
func (f *Fleet) Run(ctx context.Context) {
	o := &owner{
		f: f, ctx: ctx, chain: f.View().ChainID, upstreams: slices.Clone(f.View().Upstreams), poolABIs: map[string]bool{},
		tick: time.NewTicker(f.Config().Monitoring),
	}
	defer o.tick.Stop()
	for i := range o.upstreams {
		o.private = append(o.private, private{})
		o.watch(i)
	}
	defer o.monitors.Wait()
	defer close(f.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.tick.C:
			o.interval()
		case event := <-f.events:
			event(o)
		}
		o.publish()
	}
}

// watch starts the monitor of upstream i.
func (o *owner) watch(i int) {
	ctx, stop := context.WithCancel(o.ctx)
	o.private[i] = private{strikes: newStrikes(), stop: stop}
	m := &monitor{f: o.f, index: i, url: o.upstreams[i].Server.URL, live: o.upstreams[i].Live}
	o.monitors.Go(func() { m.run(ctx) })
}

// do has the owner run event and waits until the view shows its effect. It
// does nothing once the fleet has ended.
func (f *Fleet) do(event func(*owner)) {
	finished := make(chan struct{})
	select {
	case f.events <- func(o *owner) { event(o); o.publish(); close(finished) }:
		<-finished
	case <-f.done:
	}
}

// publish makes a new view when something changed, and renews the tip.
func (o *owner) publish() {
	if !o.dirty && !o.onward {
		return
	}
	old := o.f.view.Load()
	v := old.next(o.f.Config(), o.upstreams)
	if v.Routing = old.Routing; o.dirty {
		v.Routing++
	}
	o.dirty, o.onward = false, false
	for i := range v.Upstreams {
		v.Upstreams[i].Quarantines = slices.Clone(o.private[i].strikes.active)
		if u := &v.Upstreams[i]; v.ChainID == nil && u.Online && u.ChainID != nil {
			v.ChainID = u.ChainID
		}
	}
	o.f.view.Store(v)
	if v.ChainID != nil {
		if o.chain != nil && *o.chain != *v.ChainID {
			// Head and LIB of another chain must not be told as those of this one.
			o.f.tip.reset()
			o.f.libFloor.reset()
			o.f.pair.Store(&Pair{})
		}
		o.chain = v.ChainID
	}
	o.f.renewTip(v)
	fresh := make(chan struct{})
	close(*o.f.changed.Swap(&fresh))
	o.tellABI(old, v)
	o.hint(v)
}

// View is the newest view. It is never nil.
func (f *Fleet) View() *View { return f.view.Load() }

// Changed is closed when a view newer than the present one is there. Take it
// before looking at the view.
func (f *Fleet) Changed() <-chan struct{} { return *f.changed.Load() }

// Settled is closed once every node has answered, or failed to, for the first
// time: before that, nobody online means only that it is too early to tell.
func (f *Fleet) Settled() <-chan struct{} { return f.settled }

// Reserve has choose pick an upstream and takes a slot on it. choose returns a
// negative index for none. It may be slow, a script say, and runs without a lock
// that others need; when somebody has meanwhile taken a slot on the upstream that
// it picks, it is asked again, so that a crowd that reconnects sees the load that
// it makes. Those that are asked again wait for each other, or a crowd would
// choose the same upstream once more.
//
// A slot that is lost to max_sessions gives a negative index.
func (f *Fleet) Reserve(choose func() int) int {
	i, outdated := f.try(choose)
	if !outdated {
		return i
	}
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	for range maxChoices {
		if i, outdated = f.try(choose); !outdated {
			return i
		}
	}
	// Others are quicker, again and again: what it knows is as old as one choice.
	f.picks.Lock()
	defer f.picks.Unlock()
	return f.takeSlot(i)
}

// maxChoices is how often choose is asked again at most.
const maxChoices = 64

// try takes a slot, unless outdated: one was taken on that upstream since choose
// began to look. The index is then the one that it would have been.
func (f *Fleet) try(choose func() int) (i int, outdated bool) {
	seen := f.taken.Load()
	if i = choose(); i < 0 {
		return -1, false
	}
	f.picks.Lock()
	defer f.picks.Unlock()
	if f.View().Upstreams[i].Live.lastTaken > seen {
		return i, true
	}
	return f.takeSlot(i), false
}

// takeSlot takes a slot on upstream i and returns i, or -1 when it has none.
// f.picks is held.
func (f *Fleet) takeSlot(i int) int {
	u := &f.View().Upstreams[i]
	if !u.Live.take(u.Server.MaxSessions) {
		return -1
	}
	u.Live.lastTaken = f.taken.Add(1)
	return i
}

// MarkOffline is told by a session that could not reach upstream i, or that
// heard nothing from it any more. It has no effect on archives (F5, F14).
func (f *Fleet) MarkOffline(i int, why string) {
	f.do(func(o *owner) {
		if o.upstreams[i].Server.Role == config.Live && o.upstreams[i].Online {
			o.offline(i)
			o.upstreams[i].Live.Errors.Add(time.Now())
			f.log.Warn("a session found an upstream dead; it is taken as offline", "server", o.upstreams[i].Server.Name, "why", why)
		}
	})
}

// Reached is told by a session that connected to upstream i: a monitor that
// waits before its next attempt need not (M3).
func (f *Fleet) Reached(i int) {
	select {
	case f.View().Upstreams[i].Live.wake <- struct{}{}:
	default:
	}
}

// Strike counts a block failure of upstream i at block n (F11).
func (f *Fleet) Strike(i int, n uint32) {
	live := f.View().Upstreams[i].Live
	live.BlockFailures.Add(1)
	live.Errors.Add(time.Now())
	f.blame(i, n)
}

// blame counts towards the quarantine of upstream i at block n, if there is to
// be one.
func (f *Fleet) blame(i int, n uint32) {
	policy := f.Config().Quarantine
	if policy == nil {
		return
	}
	f.do(func(o *owner) {
		// Sessions may still have a link to one that was removed.
		if !o.upstreams[i].Removed && o.private[i].strikes.add(policy, n, time.Now()) {
			o.dirty = true
			f.log.Warn("an upstream failed again and again at a block; it is not asked for it for a while",
				"server", o.upstreams[i].Server.Name, "block", n, "range", policy.Range, "for", policy.TTL)
		}
	})
}

// Suspect is told by a session that upstream i did not send block n although it
// owed it and stayed connected: its log may have a hole there. That counts
// towards a quarantine, but is no block failure (F7, F11).
func (f *Fleet) Suspect(i int, n uint32) { f.blame(i, n) }

// LacksBlocks is told by a session that archive i sent block n, which it
// covers, without the block itself (seed "fetch_block and block logs").
func (f *Fleet) LacksBlocks(i int, n uint32) {
	f.do(func(o *owner) {
		if u := &o.upstreams[i]; u.Frozen() && !u.Removed && !u.NoBlockLog {
			u.NoBlockLog, o.dirty = true, true
			f.log.Warn("frozen upstream sent no block for a block it covers", "server", u.Server.Name, "block", n)
		}
	})
}

// SetDisabled takes upstream i out of selection, tip and readiness, or back
// in. Links that it has stay.
func (f *Fleet) SetDisabled(i int, disabled bool) {
	f.do(func(o *owner) {
		if o.upstreams[i].Disabled != disabled {
			o.upstreams[i].Disabled = disabled
			o.dirty = true
		}
	})
}

// knownABI is the ABI with that text that a node of the fleet has sent, or nil.
func (f *Fleet) knownABI(text []byte) *ship.ABI {
	for _, u := range f.View().Upstreams {
		if u.ABI != nil && bytes.Equal(u.ABI.Text, text) {
			return u.ABI
		}
	}
	return nil
}

// interval is one monitoring interval: staleness, and quarantines that end.
func (o *owner) interval() {
	now := time.Now()
	for i := range o.upstreams {
		u := &o.upstreams[i]
		if o.private[i].strikes.expire(now) {
			o.dirty = true
		}
		if u.Server.Role != config.Live || !u.Online {
			continue
		}
		stale := o.private[i].stale.tick(u.Trace.End, u.ChainState.End)
		if stale == u.Stale {
			continue
		}
		u.Stale, o.dirty = stale, true
		if stale {
			o.f.log.Warn("an upstream has stopped moving and is ranked below the others", "server", u.Server.Name, "intervals", staleTicks)
		} else {
			o.f.log.Info("an upstream moves again", "server", u.Server.Name)
		}
	}
}

// staleTicks is how many monitoring intervals without progress are stale (G6).
const staleTicks = 12

// staleness counts the intervals in which neither log of a node has moved. A
// log that was set back has: the node was built anew and catches up.
type staleness struct {
	trace, state uint32
	still        int
}

func (s *staleness) tick(trace, state uint32) (stale bool) {
	if trace != s.trace || state != s.state {
		s.trace, s.state, s.still = trace, state, 0
	} else {
		s.still++
	}
	return s.still >= staleTicks
}
