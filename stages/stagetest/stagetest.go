// Package stagetest makes fleets and exchanges for tests of stages: by hand,
// without a socket, a timer or a goroutine.
package stagetest

import (
	"encoding/binary"
	"log/slog"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/dial"
)

// Head and LIB are those of a node and of a fleet that nothing else is said of.
const (
	Head = 1000
	LIB  = 900
)

// Option changes a node that Node makes.
type Option func(u *fleet.Upstream)

// Node is an online live node with trace and chain-state logs from block 1 to
// Head, of weight 1 and priority 0, changed by the options. It has its own
// counters, and no slot of it is taken.
func Node(name string, options ...Option) fleet.Upstream {
	u := fleet.Upstream{
		Server: &config.Server{Name: name, Endpoint: name + ":8080", URL: "ws://" + name + ":8080/", Enabled: true, Role: config.Live, Weight: 1},
		Online: true, Known: true, StatusV1: true,
		Head: Pos(Head), LIB: Pos(LIB),
		Trace: ship.Range{Begin: 1, End: Head + 1}, ChainState: ship.Range{Begin: 1, End: Head + 1},
	}
	u.Live = counters(u.Server)
	for _, o := range options {
		o(&u)
	}
	return u
}

// counters are those of a node that no session uses.
func counters(s *config.Server) *fleet.Live {
	return fleetOf(s).View().Upstreams[0].Live
}

func fleetOf(s *config.Server) *fleet.Fleet {
	return fleet.New(&config.Listener{Servers: []*config.Server{s}}, &dial.Dialer{}, slog.New(slog.DiscardHandler))
}

// Taken takes n slots of the node, whatever its max_sessions is.
func Taken(n int) Option {
	return func(u *fleet.Upstream) {
		unlimited := *u.Server
		unlimited.MaxSessions = 0
		f := fleetOf(&unlimited)
		for range n {
			f.Reserve(func() int { return 0 })
		}
		u.Live = f.View().Upstreams[0].Live
	}
}

// MaxSessions limits the slots of the node.
func MaxSessions(n int) Option { return func(u *fleet.Upstream) { u.Server.MaxSessions = n } }

// Offline makes the node offline; what is known of it stays.
func Offline(u *fleet.Upstream) { u.Online = false }

// Disabled makes the node one that an operator has taken out.
func Disabled(u *fleet.Upstream) { u.Disabled = true }

// Stale makes the node one that does not move.
func Stale(u *fleet.Upstream) { u.Stale = true }

// HeadAt sets the head of the node's last status; its logs stay.
func HeadAt(n uint32) Option { return func(u *fleet.Upstream) { u.Head = Pos(n) } }

// From makes both logs of the node begin at block n.
func From(n uint32) Option {
	return func(u *fleet.Upstream) { u.Trace.Begin, u.ChainState.Begin = n, n }
}

// Quarantined keeps the node from being asked for the blocks from n on, count
// of them, until then.
func Quarantined(n, count uint32, until time.Time) Option {
	return func(u *fleet.Upstream) {
		u.Quarantines = append(u.Quarantines, fleet.Quarantine{Block: n, Range: count, Until: until})
	}
}

// Told has the node tell of a head and a LIB.
func Told(head, lib uint32) Option {
	return func(u *fleet.Upstream) {
		f, h, l := fleetOf(u.Server), Pos(head), Pos(lib)
		f.Observe(f.View(), 0, &h, &l)
		u.Live = f.View().Upstreams[0].Live
	}
}

// NoSlots makes the node one that is full.
func NoSlots(u *fleet.Upstream) {
	MaxSessions(1)(u)
	Taken(1)(u)
}

// Log sets the range of one log of the node; 0, 0 is no log.
func Log(l fleet.Log, begin, end uint32) Option {
	return func(u *fleet.Upstream) {
		*[...]*ship.Range{&u.Trace, &u.ChainState, &u.Finality}[l] = ship.Range{Begin: begin, End: end}
	}
}

// Archive is an online archive that has reported trace and chain-state logs for
// [begin, end), of which it is sure that they are irreversible; otherwise as
// Node.
func Archive(name string, begin, end uint32, options ...Option) fleet.Upstream {
	u := Node(name, func(u *fleet.Upstream) {
		u.Server.Role = config.Frozen
		u.Reported = true
		u.Head, u.LIB = Pos(end-1), Pos(end-1)
		u.Trace = ship.Range{Begin: begin, End: end}
		u.ChainState = u.Trace
	})
	for _, o := range options {
		o(&u)
	}
	return u
}

// Unheard makes the node one that has never told anything, of which nothing is
// declared.
func Unheard(u *fleet.Upstream) {
	u.Online, u.Known, u.Reported = false, false, false
	u.Head, u.LIB = ship.Pos{}, ship.Pos{}
	u.Trace, u.ChainState, u.Finality = ship.Range{}, ship.Range{}, ship.Range{}
}

// NoBlockLog makes the node an archive that is known to have no block log.
func NoBlockLog(u *fleet.Upstream) { u.NoBlockLog = true }

// View is a fleet of these nodes, without a limit for lag.
func View(nodes ...fleet.Upstream) *fleet.View {
	return &fleet.View{Generation: 1, Upstreams: nodes}
}

// Exchange is that of a new session in front of these nodes: nothing is asked,
// and there is no link.
func Exchange(nodes ...fleet.Upstream) *pipeline.Exchange {
	x := &pipeline.Exchange{Session: 1, View: View(nodes...), Tip: &fleet.Pair{Head: ship.Pos{Num: Head}, LIB: ship.Pos{Num: LIB}}, Now: time.Unix(1_700_000_000, 0)}
	x.Current, x.Pick, x.Soft = pipeline.None, pipeline.None, pipeline.None
	x.Retained, x.Standby = pipeline.None, pipeline.None
	x.Link.Upstream = pipeline.None
	return x
}

// Stitched is that of a new session in front of a range-split fleet of these
// nodes, with the defaults of the configuration.
func Stitched(nodes ...fleet.Upstream) *pipeline.Exchange {
	x := Exchange(nodes...)
	x.Stitched = true
	x.View = fleet.NewView(&config.Listener{
		Topology:  config.TopologyStitched,
		Stitching: config.Stitching{HistoryPreference: "frozen", PatchHeadLIB: true, ABIMismatch: "warn"},
	}, nodes)
	return x
}

// Pos is block n of the first chain.
func Pos(n uint32) ship.Pos { return Fork(n, 0) }

// Fork is block n of a numbered fork; 0 is the first chain.
func Fork(n uint32, fork byte) ship.Pos {
	p := ship.Pos{Num: n}
	binary.BigEndian.PutUint32(p.ID[:], n)
	p.ID[31] = fork
	return p
}

// Result is the result for block p that follows prev, with the fleet's usual
// head and LIB.
func Result(p, prev ship.Pos) *pipeline.Result {
	return &pipeline.Result{BlockHeader: ship.BlockHeader{
		V1: true, Head: Pos(Head), LIB: Pos(LIB), HasThis: true, This: p, HasPrev: true, Prev: prev,
	}}
}

// HeadOnly is a result that names no block.
func HeadOnly(head, lib uint32) *pipeline.Result {
	return &pipeline.Result{BlockHeader: ship.BlockHeader{V1: true, Head: Pos(head), LIB: Pos(lib)}}
}
