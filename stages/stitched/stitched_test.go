// Package stitched_test plays sessions in front of range-split fleets through
// the real stages: random fleets, faults and requests, and time that passes.
package stitched_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
)

// TestStitched: whatever happens, the client gets the blocks that the fleet can
// serve, in order, once, each with all that anybody has of it, and is closed only
// as the rules say; and no server that could serve it is left aside for ever.
//
// A play that fails is named by its seed; there are rounds times -rapid.checks.
func TestStitched(t *testing.T) {
	seen := newEvents()
	for range rounds {
		rapid.Check(t, func(t *rapid.T) { play(t, theRules(), seen) })
	}
	t.Logf("%+v", *seen)
	for what, n := range map[string]int{
		"forks": seen.Forks, "dropped results": seen.Dropped, "filled prev blocks": seen.Filled, "results without ids": seen.Idless,
		"results without a block": seen.Bare, "legs on the same link": seen.SameLink, "handoffs": seen.Handoffs, "failovers": seen.Failovers,
		"strikes": seen.Strikes, "holds": seen.Holds, "waits": seen.Waits, "tries of offline servers": seen.Desperate,
		"moves for a block log": seen.Moves, "reused links": seen.Reused,
		"clients closed for a gap": seen.Closed["gap"], "clients closed for strikes": seen.Closed["budget"], "clients closed after a hold": seen.Closed["hold"],
	} {
		if n == 0 {
			t.Errorf("there were no %s: the test has lost its point", what)
		}
	}
	for _, v := range fleet.Violations {
		// Some are too rare for 1,000 plays.
		if seen.Violations[v] == 0 && seen.Results > 100_000 {
			t.Errorf("there were no violations of the kind %s: the test has lost its point", v)
		}
	}
}

// rounds of 100 plays each hold every rare event several times.
const rounds = 10

func newEvents() *events {
	return &events{Violations: map[fleet.Violation]int{}, Closed: map[string]int{}}
}

// play is one session from its first request until nothing moves any more.
func play(t *rapid.T, r *rules, seen *events) {
	s := newSession(t, r, seen)
	defer func() {
		if t.Failed() {
			s.explain(t)
		}
	}()
	for range between(t, "damages", 0, 4) {
		s.damage(t)
	}
	s.ask(t, s.request(t))
	server := rapid.SampledFrom(s.servers)
	some := rapid.SampledFrom(numbers[1:13])
	t.Repeat(map[string]func(*rapid.T){
		"run":    func(t *rapid.T) { times(some.Draw(t, "steps"), func() bool { return s.step(t) }) },
		"run on": func(t *rapid.T) { times(40, func() bool { return s.step(t) }) },
		"arrive": func(t *rapid.T) {
			times(some.Draw(t, "messages"), func() bool { return s.conn != nil && s.conn.arrive() })
		},
		"produce": func(t *rapid.T) {
			times(some.Draw(t, "results"), func() bool { return s.conn != nil && s.conn.produce() })
		},
		"ack": func(t *rapid.T) { s.ack(t, some.Draw(t, "results")) },
		"ask": func(t *rapid.T) {
			if rarely(t, "now", 5) {
				s.ask(t, s.request(t))
			}
		},
		"time": func(t *rapid.T) {
			s.pass(t, time.Duration(rapid.SampledFrom([]int{1, 10, 50, 300, 900}).Draw(t, "time"))*100*time.Millisecond, func() bool { return false })
		},
		"grow":   func(t *rapid.T) { s.grow(t, server.Draw(t, "server")) },
		"fork":   func(t *rapid.T) { s.fork(t, server.Draw(t, "server")) },
		"settle": func(t *rapid.T) { s.settleBlocks(t, server.Draw(t, "server")) },
		"poll":   func(t *rapid.T) { s.poll(server.Draw(t, "server")) },
		"change": func(t *rapid.T) { s.change(t, server.Draw(t, "server")) },
		"":       s.check,
	})
	s.end(t)
}

// change is something that happens to a server.
func (s *session) change(t *rapid.T, v *server) {
	i := v.index
	u := &s.known[i]
	switch between(t, "what", 0, 9) {
	case 0: // it goes down, or is back; a node at the tip maybe from a snapshot
		v.down = !v.down
		if s.conn != nil && s.conn.index == i {
			s.conn.dead = true
		}
		if !v.down && !v.frozen && rarely(t, "from a snapshot", 2) {
			// Its monitor is there before any session.
			s.cutOver(t, v)
			s.report(i)
		}
	case 1:
		v.busy = !v.busy
	case 2:
		v.hung = !v.hung
	case 3:
		if !v.frozen {
			u.Stale = !u.Stale
		}
	case 4:
		u.Disabled = !u.Disabled
	case 5, 6:
		if v.others > 0 && rapid.Bool().Draw(t, "frees") {
			s.slots.Release(i)
			v.others--
		} else if s.slots.Reserve(func() int { return i }) == i {
			v.others++
		}
	case 7:
		s.damage(t)
	case 8:
		clear(v.damaged)
	case 9: // the connection is lost
		if s.conn != nil {
			s.conn.dead = true
		}
	}
	s.publish()
}

// damage damages a block of a server.
func (s *session) damage(t *rapid.T) {
	v := rapid.SampledFrom(s.servers).Draw(t, "server")
	kinds := archiveDamages
	if !v.frozen {
		kinds = liveDamages
	}
	first := begin(&s.known[v.index]) % base
	block := first
	if !rarely(t, "its first block", 2) {
		block = between(t, "block", max(s.x.Cursor, first), v.head+3)
	}
	v.damaged[block] = damage(between(t, "damage", 1, uint32(kinds)))
}

// request draws a request: from somewhere on the chain, with some positions of
// some version.
func (s *session) request(t *rapid.T) *ship.BlocksRequest {
	head, lib := s.highest()
	start := between(t, "start", 1, 20)
	if rarely(t, "near the head", 1) {
		start = between(t, "start", max(start, s.client.expected%100), head+3)
	}
	q := &ship.BlocksRequest{
		V1:           rapid.Bool().Draw(t, "v1"),
		Start:        start,
		End:          1<<32 - 1,
		MaxInFlight:  between(t, "credit", 0, 30),
		Irreversible: rarely(t, "irreversible", 4),
		FetchBlock:   rapid.Bool().Draw(t, "block"), FetchTraces: !rarely(t, "no traces", 3), FetchDeltas: rapid.Bool().Draw(t, "deltas"),
	}
	q.FetchFinality = q.V1 && rapid.Bool().Draw(t, "finality")
	if s.x.Asked && rarely(t, "goes on", 2) {
		q.Start = max(s.x.Cursor, 1)
	}
	switch between(t, "end", 0, 9) {
	case 8:
		q.End = q.Start
	case 9:
		q.End = q.Start + between(t, "blocks", 1, 30)
	}
	version := rapid.IntRange(0, s.latest()).Draw(t, "version")
	for n := q.Start - min(rapid.SampledFrom([]uint32{0, 0, 0, 1, 4}).Draw(t, "positions"), q.Start-1); n < q.Start; n++ {
		if n <= lib {
			q.Have = append(q.Have, s.at(s.latest(), n))
		} else {
			q.Have = append(q.Have, s.at(version, n))
		}
	}
	return q
}

// follow takes a node on to a version and a head, block by block.
func (s *session) follow(v *server, version int, head uint32) {
	first := min(s.differ(v.version, version), v.head+1)
	v.version = version
	for b := first; b <= head; b++ {
		v.head = b
		if c := s.conn; c != nil && c.server == v && c.requested && b < c.cursor {
			c.cursor = b // N4
		}
	}
}

// grow takes a node on by some blocks of some version from its own on.
func (s *session) grow(t *rapid.T, v *server) {
	if v.frozen {
		return
	}
	version := rapid.IntRange(v.version, s.latest()).Draw(t, "version")
	if _, lib := s.highest(); s.differ(version, s.latest()) <= lib {
		// A version is given up for good where another one is irreversible.
		version = s.latest()
	}
	first := min(s.differ(v.version, version), v.head+1)
	s.follow(v, version, between(t, "to", first, first+4))
}

// fork makes a new version and has the node follow it.
func (s *session) fork(t *rapid.T, v *server) {
	if v.frozen || rarely(t, "not now", 1) || len(s.forks) > 200 {
		return
	}
	head, lib := s.highest()
	f := between(t, "fork", lib+1, head+1)
	s.forks = append(s.forks, f)
	first := min(s.differ(v.version, s.latest()), v.head+1)
	s.follow(v, s.latest(), between(t, "to", max(first, f), max(first, f)+4))
}

// settleBlocks raises a node's LIB.
func (s *session) settleBlocks(t *rapid.T, v *server) {
	if limit := min(v.head, s.final()); !v.frozen && limit > v.lib {
		v.lib = between(t, "lib", v.lib, limit)
	}
}

// end ends all forks, leaves the servers as they are otherwise, and lets time go
// by until nothing can move any more, while the client acks all that it gets. It
// then has all that there is for it, or is closed.
func (s *session) end(t *rapid.T) {
	s.note("from here on nothing changes any more")
	head, _ := s.highest()
	head = max(head, s.client.expected%(1<<31)) + 3
	for _, v := range s.servers {
		if !v.frozen {
			s.follow(v, s.latest(), head)
			v.lib = head - 1
		}
	}
	if rapid.Bool().Draw(t, "repaired") {
		for i, v := range s.servers {
			v.down, v.busy, v.hung, s.known[i].Disabled = false, false, false, false
		}
		s.publish()
	}
	s.ack(t, between(t, "window", 1, 8))
	got := s.client.got
	s.pass(t, 20*time.Minute, func() bool {
		if s.client.got == got {
			return false
		}
		s.ack(t, s.client.got-got)
		got = s.client.got
		return true
	})
	if s.closed != "" || s.x.Finished() {
		return
	}
	if good := s.couldServe(); len(good) > 0 {
		t.Fatalf("in the end the client waits for block %d, which %v could serve; the plan is %+v", s.x.Cursor, good, s.x.Plan)
	}
	if !s.led() {
		return
	}
	for _, p := range s.client.chain {
		if want := s.at(s.latest(), p.Num); p != want && s.conn != nil {
			t.Fatalf("in the end the client has block %d of fork %d, canonical is fork %d", p.Num, p.ID[31], want.ID[31])
		}
	}
}

// explain tells what led to a failure.
func (s *session) explain(t *rapid.T) {
	for i, v := range s.servers {
		u := &s.known[i]
		t.Logf("server %d: frozen %v, logs %v, block log %v, head %d, LIB %d, damaged %v, down %v, busy %v, hung %v, others %d of %d; known: %v, online %v, stale %v, disabled %v, quarantines %v",
			i, v.frozen, v.logs, v.blocks, v.head, v.lib, v.damaged, v.down, v.busy, v.hung, v.others, u.Server.MaxSessions, u.Known, u.Online, u.Stale, u.Disabled, len(u.Quarantines))
	}
	t.Logf("%+v, quarantine %+v", s.cfg.Stitching, s.cfg.Quarantine)
	for _, line := range s.log[max(0, len(s.log)-60):] {
		t.Log(line)
	}
}

// times calls f until it has nothing to do, n times at most.
func times(n uint32, f func() bool) {
	for range n {
		if !f() {
			return
		}
	}
}
