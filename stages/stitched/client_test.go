package stitched_test

import (
	"slices"

	"pgregory.net/rapid"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
)

// client checks what it gets as a strict reader would.
type client struct {
	q ship.BlocksRequest
	// granted is the credit that it gave for its request, got how many
	// results it has had.
	granted, got uint32
	// expected is the block that has to come next, unless a fork goes back.
	expected uint32
	// chain are the blocks of its request, each the one after the one before,
	// behind those that the client says it has: the first claimed of them.
	chain     []ship.Pos
	claimed   int
	head, lib uint32
	// before is the last block of the request before, when that was irreversible
	// and this one goes on with the next.
	before *ship.Pos
	// sure is the last block that it has got, when that came from an archive and
	// was told to be irreversible.
	sure uint32
	// served are the upstreams as they were known when the leg was planned, from
	// block begin on.
	served []fleet.Upstream
	begin  uint32
	// gate is the fleet's LIB by then.
	gate uint32
}

func (c *client) ask(q *ship.BlocksRequest, settled uint32) {
	c.before = nil
	if n := len(c.chain); n > c.claimed && c.chain[n-1].Num == q.Start-1 && c.chain[n-1].Num <= settled {
		c.before = &c.chain[n-1]
	}
	c.q, c.granted, c.got, c.expected = *q, q.MaxInFlight, 0, q.Start
	c.chain, c.claimed = slices.Clone(q.Have), len(q.Have)
}

// last is the block that the client has before the one that it expects.
func (c *client) last() *ship.Pos {
	if n := len(c.chain); n > 0 {
		return &c.chain[n-1]
	}
	return c.before
}

// take is a result that the client gets from a server.
func (c *client) take(t *rapid.T, s *session, from *server, r *pipeline.Result) {
	s.seen.Results++
	if c.got++; c.got > c.granted {
		t.Fatalf("block %d is result %d, the client has given credit for %d", r.Num, c.got, c.granted)
	}
	if r.Kind == pipeline.KeepAlive {
		t.Fatalf("the client gets a keep-alive, which no server has sent")
	}
	if r.V1 != c.q.V1 {
		t.Fatalf("block %d is of version v1 %v, asked is %v", r.Num, r.V1, c.q.V1)
	}
	if s.cfg.Stitching.PatchHeadLIB {
		if r.Head.Num < c.head || r.LIB.Num < c.lib || r.LIB.Num > r.Head.Num {
			t.Fatalf("block %d tells of head %d, LIB %d after head %d, LIB %d", r.Num, r.Head.Num, r.LIB.Num, c.head, c.lib)
		}
		c.head, c.lib = r.Head.Num, r.LIB.Num
	}
	n := r.Num
	switch {
	case r.Jump || n > c.expected:
		t.Fatalf("the client gets block %d and expects %d", n, c.expected)
	case r.Fork:
		s.seen.Forks++
	case n < c.expected:
		t.Fatalf("the client gets block %d again", n)
	}
	if n >= c.q.End {
		t.Fatalf("the client gets block %d of a request up to %d", n, c.q.End)
	}
	if lib := max(c.gate, s.tip.LIB.Num); c.q.Irreversible && n > lib && (from.frozen || n > from.lib) {
		t.Fatalf("the client gets block %d, LIB is %d", n, lib)
	}
	c.whole(t, s, from, r)
	if !r.HasThis {
		s.seen.Idless++
		c.chain, c.claimed, c.before, c.expected = nil, 0, nil, n+1
		return
	}
	c.link(t, s, from, r)
	if c.sure = 0; from.frozen && n <= c.lib {
		c.sure = n
	}
}

// whole checks that a result has all that anybody has of the block.
func (c *client) whole(t *rapid.T, s *session, from *server, r *pipeline.Result) {
	if !r.HasThis && named(c.served, r.Num) {
		t.Fatalf("block %d comes without ids", r.Num)
	}
	if !r.HasThis || r.Num < c.begin {
		return // what a node rewinds to was not planned
	}
	for l, has := range map[fleet.Log]bool{fleet.Trace: r.Parts.Traces, fleet.ChainState: r.Parts.Deltas, fleet.Finality: r.Parts.Finality} {
		if wants(&c.q, l) && !has && anybody(c.served, l, r.Num) {
			t.Fatalf("block %d comes from server %d without its %s, which somebody has", r.Num, from.index, l)
		}
	}
	if c.q.FetchBlock && !r.Parts.Block {
		s.seen.Bare++
		if from.blocks {
			t.Fatalf("block %d comes without the block from server %d, which has it", r.Num, from.index)
		}
	}
}

// link checks that a block continues what the client has.
func (c *client) link(t *rapid.T, s *session, from *server, r *pipeline.Result) {
	n := r.Num
	if r.FillPrev {
		s.seen.Filled++
	}
	keep := 0
	for keep < len(c.chain) && c.chain[keep].Num < n {
		keep++
	}
	// What it only claims to have it may get: nodes behind send that natively.
	if keep < len(c.chain) && keep >= c.claimed && c.chain[keep] == r.This {
		t.Fatalf("the client gets block %d again, of the same fork", n)
	}
	if c.chain = c.chain[:keep]; keep > 0 {
		c.before = nil
	}
	last := c.last()
	switch has := r.HasPrev || r.FillPrev; {
	case last == nil || last.Num != n-1:
	case from.frozen && keep > 0 && keep <= c.claimed:
		// Archives take no positions, so what is only claimed counts for nothing.
	case !has && from.frozen && last.Num == c.sure:
		t.Fatalf("block %d comes without the block before, which the client has", n)
	case has && r.Prev != *last:
		t.Fatalf("block %d of fork %d follows %v, the client has %v", n, r.This.ID[31], r.Prev, *last)
	}
	if want := s.at(s.latest(), n); n <= base && r.This != want {
		t.Fatalf("block %d is %v, which is irreversible as %v", n, r.This, want)
	}
	c.chain, c.claimed, c.before, c.expected = append(c.chain, r.This), min(c.claimed, keep), nil, n+1
}

func wants(q *ship.BlocksRequest, l fleet.Log) bool {
	return [...]bool{q.FetchTraces, q.FetchDeltas, q.FetchFinality}[l]
}

// covers is G2, said once more.
func covers(u *fleet.Upstream, l fleet.Log, n uint32) bool {
	r := u.Range(l)
	return u.Known && r.End > 0 && n >= r.Begin && (!u.Frozen() || n < r.End)
}

func anybody(all []fleet.Upstream, l fleet.Log, n uint32) bool {
	return slices.ContainsFunc(all, func(u fleet.Upstream) bool { return covers(&u, l, n) })
}

// named reports whether anybody knows the id of a block.
func named(all []fleet.Upstream, n uint32) bool {
	return slices.ContainsFunc(fleet.Logs[:], func(l fleet.Log) bool { return anybody(all, l, n) })
}
