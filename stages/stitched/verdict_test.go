package stitched_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"flotilla/gateway/fleet"
)

// couldServe are the servers that could serve the client's next block right now:
// each is there, has a slot, has the block undamaged and as fully as anybody,
// and neither quarantine nor exclusion keeps it from being asked. It is said in
// terms of what the servers are, not of what the planner makes of them.
func (s *session) couldServe() map[int]bool {
	good := map[int]bool{}
	n := s.x.Cursor
	for i, v := range s.servers {
		u := &s.known[i]
		switch {
		case v.down || v.busy || v.hung || !u.Online || u.Disabled:
		case s.x.Excluded(i, s.now) && !s.x.Hard[i].Until.After(s.now.Add(longest)):
		case u.Quarantined(n, s.now) || u.FullBeside(s.x.Own(i)):
		case !s.has(i, n) || s.harms(v, n) || n > s.reach(v):
		default:
			good[i] = true
		}
	}
	return good
}

// longest is the longest exclusion that the rules have for what happens here.
const longest = 30 * time.Second

// has reports whether a server has a block as fully as anybody does.
func (s *session) has(i int, n uint32) bool {
	if !named(s.known, n) {
		// Below the first block of all: who begins with that answers.
		first, own := uint32(1<<32-1), uint32(1<<32-1)
		for j := range s.known {
			if b := begin(&s.known[j]); b < first {
				first = b
			}
		}
		own = begin(&s.known[i])
		return n < first && own == first && !s.unheard()
	}
	u := &s.known[i]
	any := false
	for _, l := range fleet.Logs {
		any = any || covers(u, l, n)
		if wants(&s.x.Want, l) && !covers(u, l, n) && anybody(s.known, l, n) {
			return false
		}
	}
	return any
}

// unheard reports whether an archive has neither reported nor declared a range,
// so that it may have anything.
func (s *session) unheard() bool {
	return slices.ContainsFunc(s.known, func(u fleet.Upstream) bool { return u.Frozen() && !u.Known })
}

// begin is the first block that an upstream has.
func begin(u *fleet.Upstream) uint32 {
	b := uint32(1<<32 - 1)
	for _, l := range fleet.Logs {
		if r := u.Range(l); u.Known && r.End > 0 {
			b = min(b, r.Begin)
		}
	}
	return b
}

// harms reports whether damage keeps a server from sending a block, or one below
// that it may rewind to before.
func (s *session) harms(v *server, n uint32) bool {
	low := n
	for _, p := range s.x.Want.Have {
		low = min(low, p.Num)
	}
	for i := range s.x.Delivered.Len() {
		if p := s.x.Delivered.At(i); p.Num > s.x.Settled {
			low = min(low, p.Num)
		}
	}
	if v.frozen {
		low = n
	}
	for block := low; block <= n; block++ {
		if v.damaged[block] != 0 {
			return true
		}
	}
	return false
}

// led reports whether any node at the tip could lead the client out of a fork:
// one that has its next block in all logs, and no damage from the fork up to it.
func (s *session) led() bool {
	for i, v := range s.servers {
		if !v.frozen && s.has(i, s.x.Cursor) && !s.harms(v, s.x.Cursor) {
			return true
		}
	}
	return false
}

// reach is the last block that a server would send now.
func (s *session) reach(v *server) uint32 {
	gate := v.head
	if s.x.Want.Irreversible {
		gate = v.lib
	}
	if v.frozen {
		gate = min(v.head, s.x.Gate())
	}
	return gate
}

// narrow notes who could have served the block at this plan as well.
func (s *session) narrow() {
	if len(s.x.Failed) == 0 || s.x.StuckAt != s.x.Cursor {
		return
	}
	now := s.couldServe()
	for i := range s.good {
		if !now[i] {
			delete(s.good, i)
		}
	}
}

// mayClose checks that a client was closed for what the rules say.
func (s *session) mayClose(t *rapid.T, why string) {
	n := s.x.Cursor
	archived := slices.ContainsFunc(s.known, func(u fleet.Upstream) bool {
		return u.Frozen() && slices.ContainsFunc(fleet.Logs[:], func(l fleet.Log) bool { return covers(&u, l, n) })
	})
	unheard := s.unheard()
	switch why {
	case "gap":
		above := slices.ContainsFunc(s.known, func(u fleet.Upstream) bool {
			return slices.ContainsFunc(fleet.Logs[:], func(l fleet.Log) bool { return u.Known && u.Range(l).End > n && u.Range(l).Begin > n })
		})
		below := slices.ContainsFunc(s.known, func(u fleet.Upstream) bool { return begin(&u) < n })
		if named(s.known, n) || !above || !below || unheard {
			t.Fatalf("the client is closed for a gap at block %d: named %v, blocks above %v, below %v, an archive has not reported %v", n, named(s.known, n), above, below, unheard)
		}
	case "budget":
		asked := map[int]bool{}
		for _, i := range s.x.Failed {
			asked[i] = true
		}
		if len(s.x.Failed) < 5 || len(s.good) > 0 && len(asked) < 5 {
			t.Fatalf("the client is closed at block %d after %v have failed; %v could have served it all the time", n, s.x.Failed, s.good)
		}
	case "hold":
		if good := s.couldServe(); len(good) > 0 {
			t.Fatalf("the client is closed after a hold at block %d, which %v can serve", n, good)
		}
		if s.now.Sub(s.hold.since) < s.cfg.Stitching.GapWait {
			t.Fatalf("the hold at block %d ends after %v", n, s.now.Sub(s.hold.since))
		}
		if named(s.known, n) && !archived {
			t.Fatalf("the hold at block %d ends, which only live nodes have", n)
		}
	}
}

// check holds at any moment.
func (s *session) check(t *rapid.T) {
	x := s.x
	if want := s.client.granted - s.client.got; x.Asked && x.Credit != want && s.closed == "" {
		t.Fatalf("credit %d; the client granted %d and got %d", x.Credit, s.client.granted, s.client.got)
	}
	if s.conn == nil || !x.Link.Requested || s.conn.dead {
		return
	}
	// What the server may send once it has got all that is under way to it (S21).
	credit := s.conn.credit + uint32(len(s.conn.down))
	for _, m := range s.conn.up {
		if m.request != nil {
			credit = m.request.MaxInFlight
		}
		credit += m.ack
	}
	if credit+x.Ack != x.Credit && !s.conn.overran {
		t.Fatalf("the server's credit comes to %d, the client's is %d", credit+x.Ack, x.Credit)
	}
}
