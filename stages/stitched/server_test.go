package stitched_test

import (
	"slices"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
)

// damage is what a server does instead of sending a block as it should.
type damage int

const (
	// dropping: it drops the connection, as nodes do over a damaged log.
	dropping damage = iota + 1
	// stalling: it sends nothing from there on.
	stalling
	// bare: the block comes without payload.
	bare

	// What only archives do, as a live node is not held to that.
	skipping  // the next block comes instead
	repeating // the block before comes once more
	nameless  // the result has no ids
	misnamed  // the result is of the other version
	foreign   // with the first result of a request, the block before is another
	greedy    // it is sent without credit
)

const (
	liveDamages    = bare
	archiveDamages = greedy
)

// server is a node at the tip by rules N1 to N4, or an archive by the contract
// of the seed, with all that can be wrong with one.
type server struct {
	*chain
	index  int
	frozen bool
	// logs are what it has; the ends of a live node's are its head.
	logs [len(fleet.Logs)]ship.Range
	// blocks tells that it has a block log.
	blocks  bool
	version int
	// head is the last block of an archive, which is its LIB too.
	head, lib uint32
	damaged   map[uint32]damage

	// down: it cannot be reached. busy: it refuses a session with 503. hung: it
	// is connected and sends not a byte.
	down, busy, hung bool
	// others are the slots that other sessions have.
	others int
}

func (s *server) has(l fleet.Log, n uint32) bool {
	r := s.logs[l]
	if !s.frozen {
		return r.End > 0 && r.Begin <= n && n <= s.head
	}
	return r.Contains(n)
}

func (s *server) named(n uint32) bool {
	return slices.ContainsFunc(fleet.Logs[:], func(l fleet.Log) bool { return s.has(l, n) })
}

// conn is the connection of the session to a server, with what is under way on
// it. There is one at a time.
type conn struct {
	*server
	// up is on its way to the server, down on its way back.
	up   []upward
	down []*pipeline.Result

	requested bool
	request   ship.BlocksRequest
	cursor    uint32
	credit    uint32
	first     bool
	// overran: it has sent without credit.
	overran bool
	// dead: the server has dropped it, after what is still under way.
	dead bool
}

// upward is one message to a server: a request, or else an ack.
type upward struct {
	request *ship.BlocksRequest
	ack     uint32
}

// arrive hands the server the next message that is under way to it.
func (c *conn) arrive() bool {
	if len(c.up) == 0 || c.dead {
		return false
	}
	m := c.up[0]
	c.up = c.up[1:]
	if m.request == nil {
		c.credit += m.ack
		return true
	}
	q := m.request
	c.requested, c.request, c.credit, c.cursor, c.first = true, *q, q.MaxInFlight, q.Start, true
	for _, p := range q.Have {
		if p.Num < c.cursor && (p.Num > c.head || p != c.at(c.version, p.Num)) {
			c.cursor = p.Num
		}
	}
	return true
}

// gate is the last block that the server sends.
func (c *conn) gate() uint32 {
	if c.request.Irreversible {
		return c.lib
	}
	return c.head
}

// produce has the server send its next result.
func (c *conn) produce() bool {
	if c.dead || c.hung || !c.requested || c.cursor >= c.request.End || c.cursor > c.gate() {
		return false
	}
	n, harm := c.cursor, c.damaged[c.cursor]
	if c.credit == 0 && harm != greedy {
		return false
	}
	switch harm {
	case dropping:
		c.dead = true
		return true
	case stalling:
		return false
	case skipping:
		n++
	case repeating:
		// Once only: the block itself follows.
		if c.first {
			n--
			c.send(c.result(n))
			return true
		}
	}
	r := c.result(n)
	switch harm {
	case bare:
		r.Parts = ship.Parts{Block: r.Parts.Block}
	case nameless:
		r.HasThis, r.HasPrev, r.Parts = false, false, ship.Parts{}
	case misnamed:
		r.V1 = !r.V1
	case foreign:
		if c.first && r.HasThis {
			r.HasPrev, r.Prev = true, c.at(c.version, n-1)
			r.Prev.ID[30]++
		}
	}
	c.cursor = n + 1
	c.send(r)
	return true
}

func (c *conn) send(r *pipeline.Result) {
	c.overran = c.overran || c.credit == 0
	c.credit -= min(c.credit, 1)
	c.first = false
	c.down = append(c.down, r)
}

// result is that of block n as it should be.
func (c *conn) result(n uint32) *pipeline.Result {
	q := &c.request
	r := &pipeline.Result{BlockHeader: ship.BlockHeader{V1: q.V1, Head: c.at(c.version, c.head), LIB: c.at(c.version, c.lib)}}
	if !c.named(n) {
		return r
	}
	r.HasThis, r.This = true, c.at(c.version, n)
	if c.named(n - 1) {
		r.HasPrev, r.Prev = true, c.at(c.version, n-1)
	}
	r.Parts = ship.Parts{
		Block:    q.FetchBlock && c.blocks,
		Traces:   q.FetchTraces && c.has(fleet.Trace, n),
		Deltas:   q.FetchDeltas && c.has(fleet.ChainState, n),
		Finality: q.FetchFinality && c.has(fleet.Finality, n),
	}
	return r
}
