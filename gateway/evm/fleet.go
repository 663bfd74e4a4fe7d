package evm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/evm/health"
	"flotilla/gateway/evm/upstream"
)

// maxFailures is how many failures in a row evict a node.
const maxFailures = 3

// fleet watches the nodes of a listener. Whoever learns something about a node
// tells it, and it publishes a View; reading that takes no lock.
type fleet struct {
	log     *slog.Logger
	network upstream.Network
	trust   upstream.Trust
	view    atomic.Pointer[View]
	// ids counts the nodes that were made.
	ids atomic.Int64

	// running ends the monitors, monitors waits for them.
	running  context.Context
	monitors sync.WaitGroup

	mu     sync.Mutex
	cfg    *config.EVM
	rules  health.Rules
	nodes  []*Node
	frozen bool
	// settled is true once every node and the reference have been asked: before
	// that nobody is admitted, as nobody knows the tip.
	settled   bool
	reference *reference
	// tipRose is when the tip rose last.
	tipRose time.Time
	// changed is closed, and made anew, with each view.
	changed chan struct{}
}

// newFleet makes a fleet; nothing is dialed before start.
func newFleet(cfg *config.EVM, network upstream.Network, trust upstream.Trust, log *slog.Logger) (*fleet, error) {
	f := &fleet{log: log, network: network, trust: trust, changed: make(chan struct{})}
	f.view.Store(&View{})
	nodes, err := f.makeNodes(cfg)
	if err != nil {
		return nil, err
	}
	f.adopt(cfg, nodes)
	return f, nil
}

// enabled are the servers of a configuration that are used.
func enabled(cfg *config.EVM) (list []*config.EVMServer) {
	for _, s := range cfg.Servers {
		if s.Enabled {
			list = append(list, s)
		}
	}
	return list
}

// makeNodes makes the nodes of a configuration, one for each enabled server;
// those that are there already, and are reached in the same way, are kept.
func (f *fleet) makeNodes(cfg *config.EVM) (nodes []*Node, err error) {
	f.mu.Lock()
	now := f.nodes
	f.mu.Unlock()
	for _, s := range enabled(cfg) {
		if i := slices.IndexFunc(now, func(n *Node) bool { return sameNode(n.server.Load(), s) }); i >= 0 {
			nodes = append(nodes, now[i])
			continue
		}
		n, err := f.newNode(s)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func (f *fleet) newNode(s *config.EVMServer) (*Node, error) {
	client, err := upstream.New(s.Endpoint, s.Headers, f.network, f.trust)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", s.Name, err)
	}
	// An endpoint may hold a key.
	client.Label = s.Name
	n := &Node{id: int(f.ids.Add(1)), host: hostOf(s.Endpoint), client: client}
	n.server.Store(s)
	n.blocksFrom.Store(s.EarliestBlock)
	return n, nil
}

// hostOf is the host and port of a URL; all of it where it is none.
func hostOf(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
		return u.Host
	}
	return endpoint
}

// adopt puts a configuration and its nodes in force. f.mu is held, or f is new.
func (f *fleet) adopt(cfg *config.EVM, nodes []*Node) {
	f.cfg, f.nodes = cfg, nodes
	for i, s := range enabled(cfg) {
		if nodes[i].server.Swap(s).EarliestBlock != s.EarliestBlock {
			// What was learned is forgotten, as it may be what was corrected.
			nodes[i].blocksFrom.Store(s.EarliestBlock)
		}
	}
	h := cfg.Health
	f.rules = health.Rules{SoftLag: h.SoftLag, HardLag: h.HardLag, LagGrace: h.LagGrace, Readmit: h.Readmit,
		MinHealthy: h.MinHealthy, MaxFailures: maxFailures}
	f.view.Store(f.view.Load().rebuilt(nodes))
}

// start begins to watch. The monitors end with ctx; wait waits for them.
func (f *fleet) start(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = ctx
	for _, n := range f.nodes {
		f.watch(n)
	}
	f.watchReference()
}

// watch runs the monitor of a node. f.mu is held.
func (f *fleet) watch(n *Node) {
	ctx, stop := context.WithCancel(f.running)
	n.stop = stop
	f.monitors.Go(func() { f.monitor(ctx, n) })
	f.watchHeads(n)
}

// watchHeads follows the heads of a node, or ends that, as the configuration has
// it. f.mu is held.
func (f *fleet) watchHeads(n *Node) {
	switch wanted := f.cfg.Health.Subscribe && n.server.Load().WebSocketURL() != ""; {
	case wanted && n.unfollow == nil:
		ctx, stop := context.WithCancel(f.running)
		n.unfollow = stop
		f.monitors.Go(func() { f.follow(ctx, n) })
	case !wanted && n.unfollow != nil:
		n.unfollow()
		n.unfollow = nil
	}
}

func (f *fleet) wait() {
	f.monitors.Wait()
	for _, n := range f.nodes {
		n.client.Close()
	}
}

// changes is closed with the next view.
func (f *fleet) changes() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// freeze holds what is known: from now on nothing that is reported counts.
func (f *fleet) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
}

func (f *fleet) isFrozen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frozen
}

// tip is the height to measure an answer against that is asked for now.
func (f *fleet) tip() uint64 { return f.view.Load().Tip }

// reported takes in a check that told a height; tip is that of the moment when
// it was asked for. It returns whether the node has been admitted since it was
// asked for its version.
func (f *fleet) reported(n *Node, height uint64, hash string, rtt time.Duration, tip uint64, now time.Time) (admitted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone(n) {
		return false
	}
	n.counters.Checks.Add(1)
	n.rtt, n.checked, n.answered = rtt, now, true
	if hash != "" {
		n.history.Add(height, hash)
	}
	f.assess(n, height, tip, now)
	f.settle(now)
	f.log.Debug("check", "server", n.name(), "height", height, "lag", tip-min(tip, height), "rtt", rtt, "healthy", n.state.Healthy)
	admitted, n.admitted = n.admitted, false
	return admitted
}

// assess decides what becomes of a node that has told a height. f.mu is held.
func (f *fleet) assess(n *Node, height, tip uint64, now time.Time) {
	v := f.view.Load()
	why, unsure := f.distrusts(n, height, now)
	if unsure {
		// What it told before counts on.
		f.publish(n, health.None, now)
		return
	}
	if why != "" && why != n.aside {
		f.log.Warn("a node is set aside", "server", n.name(), "reason", why)
	}
	n.aside = why
	if why != "" {
		n.state.Known, n.state.Height, n.state.Failures = true, height, 0
		f.publish(n, f.rules.Refuse(&n.state, why), now)
		return
	}
	n.sawHead(height)
	if !n.state.Healthy {
		// To come in, a node must be in the band as it is now.
		tip = max(tip, v.Tip)
	}
	f.publish(n, f.rules.Reported(&n.state, height, tip, len(v.Pool), f.settled, now), now)
}

// failed takes in a check that told no height.
func (f *fleet) failed(n *Node, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone(n) {
		return
	}
	n.counters.CheckFailures.Add(1)
	n.errors.Add(now)
	n.rtt, n.checked, n.answered = 0, now, true
	why := explained(err)
	change := f.rules.Failed(&n.state, why)
	f.publish(n, change, now)
	f.mourn(n, change)
	f.settle(now)
	f.log.Debug("check failed", "server", n.name(), "error", why, "failures", n.state.Failures, "healthy", n.state.Healthy)
}

// mourn warns, once in each outage, of a node that does not answer and is not in
// the pool, which would be left in silence. f.mu is held.
func (f *fleet) mourn(n *Node, change health.Change) {
	if change == health.None && !n.state.Healthy && n.state.Failures == maxFailures {
		f.log.Warn("a node does not answer, and is not used", "server", n.name(), "reason", n.state.Err)
	}
}

// explained is an error in words for operators.
func explained(err error) string {
	var e *upstream.Error
	if errors.As(err, &e) {
		return e.Explain()
	}
	return err.Error()
}

// broke takes in a client's call that the node did not answer.
func (f *fleet) broke(n *Node, err error) {
	n.counters.Failures.Add(1)
	n.errors.Add(time.Now())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone(n) {
		return
	}
	change := f.rules.Broke(&n.state, explained(err))
	f.publish(n, change, time.Now())
	f.mourn(n, change)
}

// gone reports whether nothing that is reported about n counts.
func (f *fleet) gone(n *Node) bool { return f.frozen || !slices.Contains(f.nodes, n) }

// settle looks whether the last one of the fleet has been asked, which lets all
// those in that have only waited for that.
func (f *fleet) settle(now time.Time) {
	if f.settled || !f.complete() {
		return
	}
	f.settled = true
	for _, n := range f.nodes {
		if n.state.Known {
			f.assess(n, n.state.Height, f.view.Load().Tip, now)
		}
	}
}

// complete reports whether every node and the reference have been asked.
func (f *fleet) complete() bool {
	return (f.reference == nil || f.reference.answered) &&
		!slices.ContainsFunc(f.nodes, func(n *Node) bool { return !n.answered })
}

// publish makes a view after a change of n, and logs what happened to it.
func (f *fleet) publish(n *Node, change health.Change, now time.Time) {
	before := f.view.Load()
	v := before.with(n)
	if n.state.Known {
		v.retip()
	}
	if v.Tip > before.Tip {
		f.tipRose = now
	}
	f.judge(v)
	f.view.Store(v)
	close(f.changed)
	f.changed = make(chan struct{})
	switch change {
	case health.Evicted:
		n.counters.Evictions.Add(1)
		f.log.Warn("a node was evicted", "server", n.name(), "reason", n.state.Err, "healthy", len(v.Pool), "total", len(v.Nodes))
	case health.Admitted:
		n.admitted = true
		f.log.Info("a node was admitted", "server", n.name(), "height", n.state.Height, "healthy", len(v.Pool), "total", len(v.Nodes))
	}
}

// judge compares the fleet with the reference.
func (f *fleet) judge(v *View) {
	was := v.Lagging
	v.Lagging = false
	if f.cfg.Reference != nil && v.External != nil && v.TipKnown {
		v.Lagging = *v.External >= v.Tip+max(f.cfg.Reference.MaxLag, 1)
	}
	switch {
	case v.Lagging && !was:
		f.log.Warn("the whole fleet is behind the reference", "tip", v.Tip, "reference", *v.External)
	case was && !v.Lagging:
		f.log.Info("the fleet has caught up with the reference", "tip", v.Tip)
	}
}

// update puts another configuration in force.
func (f *fleet) update(cfg *config.EVM, nodes []*Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, witness := f.nodes, f.cfg.Reference
	f.adopt(cfg, nodes)
	for _, n := range before {
		if !slices.Contains(nodes, n) {
			n.leave()
		}
	}
	for _, n := range nodes {
		switch {
		case f.running == nil:
		case slices.Contains(before, n):
			f.watchHeads(n)
		default:
			f.watch(n)
		}
	}
	if reflect.DeepEqual(witness, cfg.Reference) {
		return
	}
	// What another one has told is no testimony of this one.
	v := *f.view.Load()
	v.External, v.Lagging = nil, false
	f.view.Store(&v)
	f.watchReference()
}

// leave ends what concerns a node that is in the fleet no more.
func (n *Node) leave() {
	for _, stop := range []context.CancelFunc{n.stop, n.unfollow} {
		if stop != nil {
			stop()
		}
	}
	n.client.Close()
}

// errNodeExists and errNodeUnknown are those of add and remove.
var (
	errNodeExists  = fmt.Errorf("already exists")
	errNodeUnknown = fmt.Errorf("not found")
	errLastNode    = fmt.Errorf("cannot remove the last server")
)

// add takes a node in at run time, and returns how many there are then.
func (f *fleet) add(s *config.EVMServer) (int, error) {
	n, err := f.newNode(s)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.nodes, func(n *Node) bool { return n.server.Load().Endpoint == s.Endpoint }) {
		return 0, errNodeExists
	}
	f.nodes = append(slices.Clone(f.nodes), n)
	f.view.Store(f.view.Load().rebuilt(f.nodes))
	if f.running != nil {
		f.watch(n)
	}
	f.log.Info("a node was added", "server", s.Name, "total", len(f.nodes))
	return len(f.nodes), nil
}

// remove takes a node out at run time, and returns how many are left.
func (f *fleet) remove(endpoint string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.nodes, func(n *Node) bool { return n.server.Load().Endpoint == endpoint })
	switch {
	case i < 0:
		return 0, errNodeUnknown
	case len(f.nodes) == 1:
		return 0, errLastNode
	}
	n := f.nodes[i]
	f.nodes = slices.Delete(slices.Clone(f.nodes), i, i+1)
	f.view.Store(f.view.Load().rebuilt(f.nodes))
	n.leave()
	f.log.Info("a node was removed", "server", n.name(), "total", len(f.nodes))
	return len(f.nodes), nil
}

// sameNode reports whether two servers are one node that is reached in the same
// way. What else a configuration says of a server is read when it is needed.
func sameNode(a, b *config.EVMServer) bool {
	return a.Name == b.Name && a.Endpoint == b.Endpoint && a.WSEndpoint == b.WSEndpoint && maps.Equal(a.Headers, b.Headers)
}
