package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/simulator"
)

const (
	patience = 10 * time.Second
	largest  = 1 << 20
)

// noTrust is for tests without wss.
type noTrust struct{}

func (noTrust) Config(string) (*tls.Config, error) { return nil, errors.New("no TLS here") }

func node(t *testing.T, chain *simulator.Chain, o simulator.Options) *simulator.Node {
	t.Helper()
	n, err := simulator.Start(chain, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func newChain() *simulator.Chain {
	return simulator.NewChain(simulator.ChainOptions{Seed: "probe", Head: 100})
}

func TestProbe(t *testing.T) {
	chain := newChain()
	for _, c := range []struct {
		name    string
		options simulator.Options
		v1      bool
		chainID bool
	}{
		{"today's node", simulator.Options{}, true, true},
		{"old node", simulator.Options{V0Only: true}, false, true},
		{"old node without a chain id", simulator.Options{V0Only: true, NoChainID: true}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := node(t, chain, c.options)
			r, err := Probe(t.Context(), n.URL(), patience, largest, noTrust{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Status.Head != chain.Head() || r.Status.V1 != c.v1 || r.Status.HasChainID != c.chainID {
				t.Errorf("the status is %+v", r.Status)
			}
			if r.ABI.Fingerprint != ship.Fingerprint(n.ABI()) {
				t.Errorf("the fingerprint is %s", r.ABI.Fingerprint)
			}
		})
	}
}

func TestProbeErrors(t *testing.T) {
	// A timeout has to be long enough for what comes before the step that
	// times out.
	const soon = 2 * time.Second
	chain := newChain()
	busy, hanging, mute := node(t, chain, simulator.Options{}), node(t, chain, simulator.Options{}), node(t, chain, simulator.Options{})
	busy.Busy(true)
	hanging.Hang(true)
	mute.Mute(true)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "ws://" + closed.Addr().String() + "/"
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, url string
		limit     int64
		word      string
		abi       bool
	}{
		{"nobody", nobody, largest, "refused", false},
		{"busy", busy.URL(), largest, "503", false},
		{"hanging", hanging.URL(), largest, "", false},
		{"mute", mute.URL(), largest, "status: no reply", true},
		{"ABI too large", node(t, chain, simulator.Options{}).URL(), 10, "larger", false},
		{"wss without trust", "wss" + strings.TrimPrefix(mute.URL(), "ws"), largest, "no TLS here", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := Probe(t.Context(), c.url, soon, c.limit, noTrust{})
			if err == nil || !strings.Contains(err.Error(), c.word) {
				t.Errorf("got %v, want %q in it", err, c.word)
			}
			if (r.ABI != nil) != c.abi {
				t.Errorf("the ABI is %v", r.ABI)
			}
		})
	}
}

func TestProbeEndsWithItsContext(t *testing.T) {
	n := node(t, newChain(), simulator.Options{})
	n.Mute(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Probe(ctx, n.URL(), time.Hour, largest, noTrust{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// listenerFor is a configuration with those servers.
func listenerFor(chainID *[32]byte, servers ...*config.Server) *config.Config {
	return &config.Config{Listeners: []*config.Listener{{
		Name: "l", ChainID: chainID, Topology: config.TopologyAuto, Servers: servers,
		HandshakeTimeout: patience, MaxMessage: largest,
	}}}
}

func live(name string, n *simulator.Node) *config.Server {
	return &config.Server{Name: name, Endpoint: n.Addr(), URL: n.URL(), Enabled: true, Role: config.Live}
}

func frozen(name string, n *simulator.Node, begin, end uint32) *config.Server {
	s := live(name, n)
	s.Role, s.Range = config.Frozen, &config.Range{Begin: begin, End: end}
	return s
}

func archive(t *testing.T, chain *simulator.Chain, first, end uint32) *simulator.Node {
	return node(t, chain, simulator.Options{First: first, End: end})
}

func TestAll(t *testing.T) {
	chain := newChain()
	id := [32]byte(chain.ID())
	head := node(t, chain, simulator.Options{First: 90})
	foreign := node(t, simulator.NewChain(simulator.ChainOptions{Seed: "other", Head: 100}), simulator.Options{First: 90})
	silent := node(t, chain, simulator.Options{V0Only: true, NoChainID: true, First: 90})
	down := archive(t, chain, 51, 91)
	down.Busy(true)
	y, z := archive(t, chain, 1, 51), archive(t, chain, 51, 91)
	off := live("off", head)
	off.Enabled = false

	for _, c := range []struct {
		name    string
		chainID *[32]byte
		require bool
		servers []*config.Server
		faults  []string
		trace   string
		holes   string
		dead    bool
	}{
		{"complete", &id, false, []*config.Server{frozen("y", y, 1, 51), frozen("z", z, 51, 91), live("l", head), off},
			nil, "[2,101)", "-", false},
		{"hole", &id, false, []*config.Server{frozen("y", y, 1, 51), live("l", head)},
			[]string{"no server has the blocks [51,90) in its trace log", "no server has the blocks [51,90) in its chain_state log"}, "[2,51) [90,101)", "[51,90)", false},
		{"archive down", &id, false, []*config.Server{frozen("y", y, 1, 51), frozen("down", down, 51, 91), live("l", head)},
			[]string{`server "down" did not answer, so its range is not reported`}, "[2,101)", "-", false},
		{"another range", &id, false, []*config.Server{frozen("y", y, 1, 53), frozen("z", z, 51, 91), live("l", head)},
			[]string{`server "y" declares the range [1,53), but reports trace [2,51) and chain_state [1,51)`}, "[2,101)", "-", false},
		{"wrong chain", &id, false, []*config.Server{live("l", head), live("foreign", foreign)},
			[]string{`server "foreign" is on another chain`}, "[90,101)", "-", false},
		{"not pinned, two chains", nil, false, []*config.Server{live("l", head), live("foreign", foreign)},
			[]string{`server "foreign" is on another chain`}, "[90,101)", "-", false},
		{"no chain id", &id, false, []*config.Server{live("silent", silent)}, nil, "[90,101)", "-", false},
		{"no chain id, required", &id, true, []*config.Server{live("silent", silent)},
			[]string{`server "silent" reports no chain id, which require_chain_id asks for`}, "[90,101)", "-", false},
		{"dead", &id, false, []*config.Server{live("down", down)}, []string{`server "down" did not answer`}, "-", "-", true},
		{"nothing to ask", &id, false, []*config.Server{{Name: "http", Enabled: true, Role: config.Live, APIEndpoint: "h:1"}},
			[]string{"no server has an endpoint that could be asked"}, "-", "-", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := listenerFor(c.chainID, c.servers...)
			cfg.Listeners[0].RequireChainID = c.require
			l := All(t.Context(), cfg, noTrust{}, nil).Listeners[0]
			if got, want := strings.Join(l.Faults(), "; "), strings.Join(c.faults, "; "); got != want {
				t.Errorf("the faults are %q, want %q", got, want)
			}
			if got := RangesText(l.Coverage[fleet.Trace].Ranges); got != c.trace {
				t.Errorf("the trace log covers %s, want %s", got, c.trace)
			}
			if got := RangesText(l.Coverage.Holes()); got != c.holes {
				t.Errorf("the holes are %s, want %s", got, c.holes)
			}
			if l.Dead() != c.dead {
				t.Errorf("dead is %v", l.Dead())
			}
		})
	}
}

func TestAllCounts(t *testing.T) {
	n := node(t, newChain(), simulator.Options{})
	var servers []*config.Server
	for range 3 * width {
		servers = append(servers, live("s", n))
	}
	counts := make(chan int, len(servers))
	All(t.Context(), listenerFor(nil, servers...), noTrust{}, func(count, total int) {
		if total != len(servers) {
			t.Errorf("the total is %d", total)
		}
		counts <- count
	})
	close(counts)
	seen := map[int]bool{}
	for count := range counts {
		seen[count] = true
	}
	if len(seen) != len(servers) || n.Counters().StatusRequests != uint64(len(servers)) {
		t.Errorf("%d counts, %d status requests", len(seen), n.Counters().StatusRequests)
	}
}

func TestRanges(t *testing.T) {
	declared := &config.Server{Name: "z", Enabled: true, Role: config.Frozen, Range: &config.Range{Begin: 1, End: 5}}
	reported := &Server{Server: declared, Probed: true, Chain: ChainMatch, Result: Result{Status: ship.Status{
		Head: ship.Pos{Num: 4}, Trace: ship.Range{Begin: 2, End: 5}, ChainState: ship.Range{Begin: 1, End: 5}, Finality: ship.Range{Begin: 3, End: 5}}}}
	wrong := *reported
	wrong.Chain = ChainWrong
	for _, c := range []struct {
		name   string
		server *Server
		want   Ranges
	}{
		{"reported", reported, Ranges{SourceReported, ship.Range{Begin: 2, End: 5}, ship.Range{Begin: 1, End: 5}, ship.Range{Begin: 3, End: 5}}},
		{"declared", &Server{Server: declared, Probed: true, Err: errors.New("down")}, Ranges{SourceDeclared, ship.Range{Begin: 1, End: 5}, ship.Range{Begin: 1, End: 5}, ship.Range{}}},
		{"wrong chain", &wrong, Ranges{SourceDeclared, ship.Range{Begin: 1, End: 5}, ship.Range{Begin: 1, End: 5}, ship.Range{}}},
		{"unknown", &Server{Server: &config.Server{Enabled: true}, Probed: true, Err: errors.New("down")}, Ranges{Source: SourceUnknown}},
	} {
		if got := c.server.Ranges(); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestCoverageIsThatOfARunningFleet: config test tells of the same nodes what
// the gateway would.
func TestCoverageIsThatOfARunningFleet(t *testing.T) {
	chain := newChain()
	id := [32]byte(chain.ID())
	down := archive(t, chain, 51, 71)
	down.Kill()
	disabled := live("off", down)
	disabled.Enabled = false
	cfg := listenerFor(&id,
		frozen("y", archive(t, chain, 1, 51), 1, 51), frozen("down", down, 51, 71), frozen("short", archive(t, chain, 75, 81), 75, 85),
		live("l", node(t, chain, simulator.Options{First: 90})), disabled)
	l := cfg.Listeners[0]
	l.Reconnect, l.Monitoring, l.Status = time.Hour, time.Hour, time.Hour
	got := All(t.Context(), cfg, noTrust{}, nil).Listeners[0].Coverage

	f := fleet.New(l, &dial.Dialer{Trust: noTrust{}}, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	defer running.Wait()
	defer stop()
	select {
	case <-f.Settled():
	case <-time.After(patience):
		t.Fatal("the fleet does not settle")
	}
	for _, log := range fleet.Logs {
		if want := f.View().Coverage(log, chain.Head().Num); !reflect.DeepEqual(got[log].Ranges, want.Ranges) || !reflect.DeepEqual(got[log].Gaps, want.Gaps) {
			t.Errorf("%s: %v with the gaps %v, the fleet has %v with %v", log, got[log].Ranges, got[log].Gaps, want.Ranges, want.Gaps)
		}
	}
	if holes := RangesText(got.Holes()); holes != "[71,75) [81,90)" {
		t.Errorf("the holes are %s", holes)
	}
}
