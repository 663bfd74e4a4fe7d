package fleet

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/simulator"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logbook keeps what was logged, a line each.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// count is how many lines hold all of the parts.
func (b *logbook) count(parts ...string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			n++
		}
	}
	return n
}

// connect reaches nodes in place of TCP.
type connect = func(ctx context.Context, network, address string) (net.Conn, error)

// nowhere is a network in which every connect hangs, so that a fleet knows only
// what a test tells it.
func nowhere(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// world is a fleet that runs, and what it logs.
type world struct {
	*Fleet
	t    testing.TB
	log  *logbook
	stop func() // ends the fleet and waits for it
}

// run runs a fleet until the end of the test.
func run(t testing.TB, cfg *config.Listener, by connect) *world {
	w := &world{t: t, log: &logbook{}}
	w.Fleet = New(cfg, &dial.Dialer{Connect: by}, slog.New(slog.NewTextHandler(w.log, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	w.stop = func() { cancel(); running.Wait() }
	t.Cleanup(w.stop)
	return w
}

// listener is a configuration with short, round times and these servers.
func listener(servers ...*config.Server) *config.Listener {
	return &config.Listener{
		Name: "test", Topology: config.TopologyPool, Servers: servers,
		HandshakeTimeout: 10 * time.Second, MaxMessage: 1 << 20,
		Reconnect: time.Second, Monitoring: 5 * time.Second, Status: 2 * time.Second,
	}
}

// server is an enabled live server whose endpoint is address; without a port it
// gets one.
func server(address string) *config.Server {
	if !strings.Contains(address, ":") {
		address += ":8080"
	}
	return &config.Server{
		Name: strings.TrimSuffix(address, ":8080"), Endpoint: address, URL: "ws://" + address + "/",
		Enabled: true, Role: config.Live, Weight: 1,
	}
}

func servers(names ...string) (list []*config.Server) {
	for _, n := range names {
		list = append(list, server(n))
	}
	return list
}

// silent is a fleet of these servers that learns only what the test tells it.
// Nothing in it happens by itself, so it needs no bubble.
func silent(t testing.TB, change func(*config.Listener), names ...string) *world {
	cfg := listener(servers(names...)...)
	cfg.HandshakeTimeout, cfg.Monitoring = time.Hour, time.Hour
	if change != nil {
		change(cfg)
	}
	return run(t, cfg, nowhere)
}

// silentSplit is a silent, range-split fleet of these servers.
func silentSplit(t testing.TB, list ...*config.Server) *world {
	return silent(t, func(c *config.Listener) {
		limits := *c
		*c = *stitched(list...)
		c.HandshakeTimeout, c.Monitoring = limits.HandshakeTimeout, limits.Monitoring
	})
}

// changed is a copy of the configuration in force with a change.
func (w *world) changed(change func(*config.Listener)) *config.Listener {
	cfg := *w.Config()
	change(&cfg)
	return &cfg
}

// status is what a node of chain 1 with both logs reports.
func status(head, lib uint32) ship.Status {
	return ship.Status{
		V1: true, Head: pos(head), LIB: pos(lib), HasChainID: true, ChainID: ship.ID{1},
		Trace: ship.Range{Begin: 2, End: head + 1}, ChainState: ship.Range{Begin: 1, End: head + 1},
	}
}

// pos is block n of the first chain, fork another block of that number.
func pos(n uint32) ship.Pos { return fork(n, 0) }

func fork(n uint32, branch byte) ship.Pos {
	p := ship.Pos{Num: n}
	binary.BigEndian.PutUint32(p.ID[:], n)
	p.ID[31] = branch
	return p
}

// says has upstream i report a status.
func (w *world) says(i int, s ship.Status) { w.do(func(o *owner) { o.status(i, &s) }) }

// tells has upstream i report a head and LIB.
func (w *world) tells(i int, head, lib uint32) { w.says(i, status(head, lib)) }

// loses takes upstream i offline as its monitor would.
func (w *world) loses(i int) { w.do(func(o *owner) { o.offline(i) }) }

// stale makes upstream i stale, or not.
func (w *world) stale(i int, on bool) {
	w.do(func(o *owner) { o.upstreams[i].Stale, o.dirty = on, true })
}

// streams has a session get a result from upstream i.
func (w *world) streams(i int, head, lib ship.Pos) { w.Observe(w.View(), i, &head, &lib) }

// up is upstream i of the present view.
func (w *world) up(i int) *Upstream { return &w.View().Upstreams[i] }

// online checks which upstreams are online, as a list of their names.
func (w *world) online(want ...string) {
	w.t.Helper()
	got := []string{}
	for _, u := range w.View().Upstreams {
		if u.Online {
			got = append(got, u.Server.Name)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("online are %v, %v were due", got, want)
	}
}

// tipIs checks the tip of the fleet by its numbers.
func (w *world) tipIs(head, lib uint32) {
	w.t.Helper()
	h, l, known := w.Tip()
	if h.Num != head || l.Num != lib || known != (head > 0 && lib > 0) {
		w.t.Errorf("the tip is %d, %d (known: %v); %d, %d was due", h.Num, l.Num, known, head, lib)
	}
}

// lab is a simulated network and chain in a bubble.
type lab struct {
	t     *testing.T
	net   *simulator.Network
	chain *simulator.Chain
	// refuse, when set, decides on a connect before the network is asked.
	refuse atomic.Pointer[func() error]
	dials  dials
}

// inBubble runs test in fake time.
func inBubble(t *testing.T, test func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &lab{t: t, net: simulator.NewNetwork(), chain: simulator.NewChain(simulator.ChainOptions{Head: 100})})
	})
}

// node starts a simulated node.
func (l *lab) node(name string, o simulator.Options) *simulator.Node {
	l.t.Helper()
	o.Address, o.Listen = name+":8080", l.net.Listen
	n, err := simulator.Start(l.chain, o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(n.Close)
	return n
}

// watch runs a fleet in the network of the lab, and waits until nothing moves.
func (l *lab) watch(cfg *config.Listener) *world {
	w := run(l.t, cfg, func(ctx context.Context, network, address string) (net.Conn, error) {
		l.dials.note()
		if refuse := l.refuse.Load(); refuse != nil {
			if err := (*refuse)(); err != nil {
				return nil, err
			}
		}
		return l.net.DialContext(ctx, network, address)
	})
	synctest.Wait()
	return w
}

// after lets fake time pass, and all that is due in it happen.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// dials are the times of connects.
type dials struct {
	mu    sync.Mutex
	times []time.Time
}

func (d *dials) note() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.times = append(d.times, time.Now())
}

func (d *dials) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.times)
}

// gaps are the pauses between the connects so far.
func (d *dials) gaps() (list []time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 1; i < len(d.times); i++ {
		list = append(list, d.times[i].Sub(d.times[i-1]))
	}
	return list
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
