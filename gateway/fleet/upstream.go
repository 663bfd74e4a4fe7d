package fleet

import (
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
)

// Upstream is what was known of one node when its View was published. It is
// never changed afterwards.
type Upstream struct {
	// Server is the node as the configuration names it.
	Server *config.Server
	// Live are the counters and slots of the node, which go on across views.
	Live *Live

	// Online: the last status was accepted and nothing has gone wrong since.
	Online bool
	// Late: a status is overdue. The node is not offline for that yet, but
	// whoever has a link to it may want to know whether that is alive.
	Late bool
	// Known: the ranges are (G1). They were reported, or are those that the
	// configuration declares for an archive that has not reported yet.
	Known bool
	// Reported: a status with a head was received once. It stays while offline.
	Reported bool
	// Stale: a live node that has not moved for twelve monitoring intervals.
	Stale bool
	// Disabled by an operator: never picked, links that it has stay.
	Disabled bool
	// Removed from the configuration: it only keeps its place, and the links
	// of sessions that have not moved yet.
	Removed bool

	// NoBlockLog: an archive that has sent a block that it covers without the
	// block itself, although asked for it.
	NoBlockLog bool

	// Head, LIB and the ranges are those of the last status. They are kept
	// while offline. Before the first one, an archive has the ranges that the
	// configuration declares for its traces and its chain state.
	Head, LIB  ship.Pos
	Trace      ship.Range
	ChainState ship.Range
	Finality   ship.Range
	// ChainID is nil while offline and for nodes that report none.
	ChainID *ship.ID
	// StatusV1 tells that the node answers v1 status requests.
	StatusV1 bool
	// ABI is nil until one was received.
	ABI *ship.ABI
	// Quarantines are the block ranges that the node is not asked for, those
	// that have run out included until the next view.
	Quarantines []Quarantine
}

// Quarantine is a block range that one node is not asked for, until a moment.
type Quarantine struct {
	Block, Range uint32
	Until        time.Time
}

// Covers reports whether block n is in the range and the time not over.
func (q Quarantine) Covers(n uint32, now time.Time) bool {
	return now.Before(q.Until) && n >= q.Block && uint64(n) < uint64(q.Block)+uint64(q.Range)
}

// Routable reports whether the node may be picked at all (G1).
func (u *Upstream) Routable() bool { return !u.Disabled && !u.Removed }

// Counted reports whether the node counts for readiness and coverage: it is
// online, and no operator keeps it out (spec "observability" 1.3).
func (u *Upstream) Counted() bool { return u.Online && u.Routable() }

// Frozen reports whether the node is an archive: a fixed range, no head of its
// own.
func (u *Upstream) Frozen() bool { return u.Server.Role == config.Frozen }

// newUpstream is a server that nothing is known of but what is declared.
func newUpstream(s *config.Server, live *Live) Upstream {
	u := Upstream{Server: s, Live: live}
	u.declare()
	return u
}

// Heard is an upstream of which nothing is known but its configuration and, when
// not nil, one status with a head.
func Heard(s *config.Server, status *ship.Status) Upstream {
	u := newUpstream(s, nil)
	if status != nil {
		u.hear(status)
	}
	return u
}

// hear takes what a status with a head says, the chain id apart (M5).
func (u *Upstream) hear(s *ship.Status) {
	u.Online, u.Known, u.Reported, u.StatusV1 = true, true, true, s.V1
	u.Head, u.LIB, u.Trace, u.ChainState, u.Finality = s.Head, s.LIB, s.Trace, s.ChainState, s.Finality
}

// forget drops all that the node has reported, but not its ABI.
func (u *Upstream) forget() {
	*u = Upstream{Server: u.Server, Live: u.Live, Disabled: u.Disabled, Removed: u.Removed, ABI: u.ABI}
	u.declare()
}

// serve gives the upstream the server of another configuration, which may have
// another role and another range.
func (u *Upstream) serve(s *config.Server) {
	u.Server = s
	if u.Frozen() {
		u.Stale = false
	} else {
		u.NoBlockLog = false
	}
	u.declare()
}

// declare gives an archive that has not reported the range of its configuration.
func (u *Upstream) declare() {
	if u.Reported {
		return
	}
	u.Known, u.Trace, u.ChainState = false, ship.Range{}, ship.Range{}
	if r := u.Server.Range; u.Frozen() && r != nil {
		u.Known, u.Trace = true, ship.Range(*r)
		u.ChainState = u.Trace
	}
}

// covers is G2 for one log: a live node has every block from its first one on,
// the ones to come included; an archive has its range.
func (u *Upstream) covers(log ship.Range, n uint32) bool {
	if u.Frozen() {
		return log.Contains(n)
	}
	return log.End > 0 && log.Begin <= n
}

// CoversTrace reports whether the node has the traces of block n (G2).
func (u *Upstream) CoversTrace(n uint32) bool { return u.covers(u.Trace, n) }

// CoversChainState reports whether the node has the deltas of block n (G2).
func (u *Upstream) CoversChainState(n uint32) bool { return u.covers(u.ChainState, n) }

// CoversFinality reports whether the node has the finality data of block n (G2).
func (u *Upstream) CoversFinality(n uint32) bool { return u.covers(u.Finality, n) }

// CoversIDs reports whether any log of the node knows the id of block n (G2).
func (u *Upstream) CoversIDs(n uint32) bool {
	return u.CoversTrace(n) || u.CoversChainState(n) || u.CoversFinality(n)
}

// Quarantined reports whether the node is not to be asked for block n (G4).
func (u *Upstream) Quarantined(n uint32, now time.Time) bool {
	for _, q := range u.Quarantines {
		if q.Covers(n, now) {
			return true
		}
	}
	return false
}

// Full reports whether the node has as many links as max_sessions allows (G8).
func (u *Upstream) Full() bool { return u.FullBeside(0) }

// FullBeside is Full without own of the slots: those of the session that asks.
func (u *Upstream) FullBeside(own int) bool {
	return u.Server.MaxSessions > 0 && u.Live.Links()-int64(own) >= int64(u.Server.MaxSessions)
}

// Understands reports whether the node knows the request, as far as its ABI
// tells. A node drops the link on one that it does not know, so asking it could
// only fail.
func (u *Upstream) Understands(n Need) bool {
	return !n.V1 || u.ABI == nil || len(u.ABI.Requests) == 0 || u.ABI.Knows("get_blocks_request_v1")
}

// Need is what a request asks of a node. fetch_block does not count (G3).
type Need struct {
	Traces, Deltas, Finality bool
	// V1: it is a get_blocks_request_v1.
	V1 bool
}

// NeedOf is what q asks for.
func NeedOf(q *ship.BlocksRequest) Need {
	return Need{Traces: q.FetchTraces, Deltas: q.FetchDeltas, Finality: q.FetchFinality, V1: q.V1}
}
