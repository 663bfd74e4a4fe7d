package fleet

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
)

// TestTipOfArchives is M11: the newest archived block is head and LIB of a
// listener without live nodes; with any, the last pair stays while all are down.
func TestTipOfArchives(t *testing.T) {
	const y, z, l = 0, 1, 2
	onlyArchives := func(w *world) { w.serve(declares("y", 1, 51), declares("z", 0, 0)) }
	for name, tt := range map[string]struct {
		play      func(w *world)
		head, lib uint32
	}{
		"nobody reported":       {onlyArchives, 0, 0},
		"one archive":           {func(w *world) { onlyArchives(w); w.says(y, archived(1, 51)) }, 50, 50},
		"the newest":            {func(w *world) { onlyArchives(w); w.says(z, archived(51, 101)); w.says(y, archived(1, 51)) }, 100, 100},
		"also while it is down": {func(w *world) { onlyArchives(w); w.says(z, archived(51, 101)); w.says(y, archived(1, 51)); w.loses(z) }, 100, 100},
		"also while it is disabled": {func(w *world) {
			onlyArchives(w)
			w.says(z, archived(51, 101))
			w.says(y, archived(1, 51))
			w.SetDisabled(z, true)
		}, 100, 100},
		"not when it is removed": {func(w *world) {
			onlyArchives(w)
			w.says(z, archived(51, 101))
			w.says(y, archived(1, 51))
			w.serve(declares("y", 1, 51))
		}, 50, 50},
		"archives count for nothing beside a live node": {func(w *world) { w.tells(l, 90, 80); w.says(z, archived(1, 101)) }, 90, 80},
		"not even while it was never up":                {func(w *world) { w.says(z, archived(1, 101)) }, 0, 0},
		"nor once it is down":                           {func(w *world) { w.tells(l, 90, 80); w.says(z, archived(1, 101)); w.loses(l) }, 90, 80},
		"nor in what sessions see": {func(w *world) {
			w.tells(l, 90, 80)
			w.says(z, archived(1, 101))
			w.streams(z, pos(100), pos(100))
		}, 90, 80},
		"the live node is taken out of the configuration": {func(w *world) {
			w.tells(l, 150, 80)
			w.says(z, archived(1, 101))
			onlyArchives(w)
		}, 100, 100},
		"a live node is added": {func(w *world) {
			onlyArchives(w)
			w.says(z, archived(1, 101))
			w.serve(declares("y", 1, 51), declares("z", 0, 0), server("l"))
			w.tells(l, 150, 130)
		}, 150, 130},
		"an archive becomes a live node": {func(w *world) {
			onlyArchives(w)
			w.says(z, archived(1, 101))
			w.serve(declares("y", 1, 51), server("z"))
			w.tells(z, 150, 130)
		}, 150, 130},
	} {
		t.Run(name, func(t *testing.T) {
			w := silentSplit(t, declares("y", 1, 51), declares("z", 0, 0), server("l"))
			tt.play(w)
			w.tipIs(tt.head, tt.lib)
			if p, h := w.Pair(), tt.head; p.Head != pos(h) && h > 0 || p.LIB.Num != tt.lib {
				t.Errorf("the pair is %v", p)
			}
		})
	}
}

// TestPairIsWhole: whoever reads it, while statuses, results and reloads change
// the tip, sees a head and a LIB that belong together: each id is that of its
// number, and LIB is not above head.
func TestPairIsWhole(t *testing.T) {
	w := silentSplit(t, declares("z", 1, 101), server("l"), server("m"))
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(done)
		for n := uint32(200); n < 1200; n++ {
			w.tells(1, n, n+5) // a LIB above its own head
			w.tells(2, n-20, n-150)
			w.streams(1, pos(n+1), pos(n-100))
			w.loses(1)
			if n%100 == 0 {
				w.serve(declares("z", 1, 101))
				w.says(0, archived(1, 101))
				w.serve(declares("z", 1, 101), server("l"), server("m"))
			}
		}
	})
	for range 2 {
		all.Go(func() {
			for !closed(done) {
				p := w.Pair()
				if p.LIB.Num > p.Head.Num {
					t.Errorf("LIB %d is above head %d", p.LIB.Num, p.Head.Num)
					return
				}
				for _, at := range []ship.Pos{p.Head, p.LIB} {
					if at.Num > 0 && at != pos(at.Num) {
						t.Errorf("block %d has the id of another", at.Num)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// TestRoleChangesOnReload: what was found out of a node in one role does not
// follow it into the other.
func TestRoleChangesOnReload(t *testing.T) {
	w := silentSplit(t, declares("z", 1, 101), server("l"))
	w.says(0, archived(1, 101))
	w.tells(1, 150, 130)
	w.LacksBlocks(0, 50)
	w.stale(1, true)
	w.serve(server("z"), declares("l", 1, 151))
	if u := w.up(0); u.Frozen() || u.NoBlockLog || !u.Known || !u.Online {
		t.Errorf("the archive that is live now: %+v", u)
	}
	if u := w.up(1); !u.Frozen() || u.Stale || !u.Known || u.Trace != br(2, 151) {
		t.Errorf("the live node that is an archive now: %+v", u)
	}
	w.do(func(o *owner) {
		for range staleTicks + 1 {
			o.interval()
		}
	})
	if w.up(1).Stale {
		t.Error("an archive is stale")
	}
	w.MarkOffline(1, "test")
	w.online("z", "l")
}

// TestLacksBlocks is the flag of an archive without a block log: who can have
// it, and what takes it away.
func TestLacksBlocks(t *testing.T) {
	const z, l = 0, 1
	flagged := func(w *world) { w.says(z, archived(1, 101)); w.LacksBlocks(z, 50) }
	change := func(f func(*ship.Status)) func(w *world) {
		return func(w *world) {
			flagged(w)
			s := archived(1, 101)
			f(&s)
			w.says(z, s)
		}
	}
	for name, tt := range map[string]struct {
		play func(w *world)
		want bool
	}{
		"flagged":                              {flagged, true},
		"said again":                           {func(w *world) { flagged(w); w.LacksBlocks(z, 51) }, true},
		"the same status":                      {change(func(*ship.Status) {}), true},
		"another head":                         {change(func(s *ship.Status) { s.Head.Num-- }), false},
		"another id":                           {change(func(s *ship.Status) { s.Head.ID[5]++ }), false},
		"another LIB":                          {change(func(s *ship.Status) { s.LIB.Num-- }), false},
		"other traces":                         {change(func(s *ship.Status) { s.Trace.Begin++ }), false},
		"other deltas":                         {change(func(s *ship.Status) { s.ChainState.Begin++ }), false},
		"other finality":                       {change(func(s *ship.Status) { s.Finality = ship.Range{} }), false},
		"offline":                              {func(w *world) { flagged(w); w.loses(z) }, true},
		"back":                                 {func(w *world) { flagged(w); w.loses(z); w.says(z, archived(1, 101)) }, false},
		"a status without a head says nothing": {func(w *world) { flagged(w); w.says(z, ship.Status{V1: true}) }, true},
		"nor does one of another chain": {func(w *world) {
			flagged(w)
			s := archived(1, 101)
			s.ChainID = ship.ID{2}
			w.says(z, s)
		}, true},
		"flagged once more":      {func(w *world) { flagged(w); w.loses(z); w.says(z, archived(1, 101)); w.LacksBlocks(z, 50) }, true},
		"before it has reported": {func(w *world) { w.LacksBlocks(z, 50) }, true},
		"removed":                {func(w *world) { w.serve(server("l")); w.LacksBlocks(z, 50) }, false},
		"removed and back":       {func(w *world) { flagged(w); w.serve(server("l")); w.serve(declares("z", 1, 101), server("l")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := silentSplit(t, declares("z", 1, 101), server("l"))
			tt.play(w)
			if got := w.up(z).NoBlockLog; got != tt.want {
				t.Errorf("it is flagged: %v", got)
			}
			w.LacksBlocks(l, 140)
			if w.up(l).NoBlockLog {
				t.Error("a live node is flagged")
			}
		})
	}
	w := silentSplit(t, declares("z", 1, 101), server("l"))
	flagged(w)
	w.LacksBlocks(z, 51)
	w.loses(z)
	w.says(z, archived(1, 101))
	const warning, info = `level=WARN msg="frozen upstream sent no block for a block it covers" server=z block=50`, "level=INFO msg=\"an archive is back or has changed"
	if w.log.count("sent no block") != 1 || w.log.count(warning) != 1 || w.log.count(info) != 1 {
		t.Errorf("the log is\n%s", w.log.text.String())
	}
}

// TestAnotherChainForgetsTheOldOne: coverage counts nodes that are offline, but
// not with blocks of a chain that the listener has left.
func TestAnotherChainForgetsTheOldOne(t *testing.T) {
	const y, z, l, m = 0, 1, 2, 3
	w := silentSplit(t, declares("y", 1, 51), declares("z", 0, 0), server("l"), server("m"))
	w.says(y, archived(1, 61))
	w.says(z, archived(51, 101))
	w.tells(l, 150, 130)
	w.loses(z)
	other := on(2)
	w.says(m, other)
	w.put(func(c *config.Listener) { c.ChainID = &[32]byte{2} })
	if u := w.up(y); u.Reported || !u.Known || u.Trace != br(1, 51) || u.Head.Num > 0 {
		t.Errorf("an archive with a declared range: %+v", u)
	}
	for _, i := range []int{z, l, m} {
		if u := w.up(i); u.Known || u.Reported || u.Head.Num > 0 || u.Trace != (ship.Range{}) {
			t.Errorf("upstream %d: %+v", i, u)
		}
	}
	w.serve(declares("y", 1, 51), declares("z", 0, 0))
	w.tipIs(0, 0)

	// The pin of the chain that it is on anyway changes nothing.
	w = silent(t, nil, "a")
	w.tells(0, 100, 90)
	w.loses(0)
	w.put(func(c *config.Listener) { c.ChainID = &[32]byte{1} })
	if u := w.up(0); !u.Known || u.Head.Num != 100 {
		t.Errorf("it is %+v", u)
	}
}

// TestUnreported is M16.
func TestUnreported(t *testing.T) {
	w := silentSplit(t, declares("y", 0, 0), declares("z", 0, 0), declares("d", 1, 51), server("l"))
	is := func(want int) {
		t.Helper()
		if got := w.View().Unreported(); got != want {
			t.Errorf("%d archives are unreported, %d were due", got, want)
		}
	}
	is(2)
	w.says(0, archived(1, 51))
	is(1)
	w.loses(0)
	w.SetDisabled(1, true)
	is(1)
	w.serve(declares("y", 0, 0), declares("d", 0, 0), server("l"))
	is(1)
}

// TestSlotFreed: closed when an upstream that was full is no longer, and only
// then.
func TestSlotFreed(t *testing.T) {
	limited := declares("z", 1, 101)
	limited.MaxSessions = 2
	w := silentSplit(t, limited, server("l"))
	take := func(i int) { w.Reserve(func() int { return i }) }
	signals := func(want bool, what string, play func()) {
		t.Helper()
		freed := w.SlotFreed()
		play()
		if closed(freed) != want {
			t.Errorf("%s: it is closed: %v", what, !want)
		}
	}
	signals(false, "a slot is taken", func() { take(0) })
	signals(false, "one that is not full loses a link", func() { w.Release(0) })
	take(0)
	signals(false, "it is full now", func() { take(0) })
	signals(false, "another slot is refused", func() { take(0) })
	signals(true, "a full one loses a link", func() { w.Release(0) })
	signals(false, "and another", func() { w.Release(0) })
	take(1)
	signals(false, "one without a limit", func() { w.Release(1) })
	take(0)
	take(0)
	lower := *limited
	lower.MaxSessions = 1
	signals(false, "the limit is lowered below the links", func() { w.serve(&lower, server("l")) })
	signals(false, "it is still full", func() { w.Release(0) })
	signals(true, "it has come down to the limit", func() { w.Release(0) })
}

// TestSlotFreedWakesWhoWaits: a crowd that takes turns on one slot, none of whom
// may sleep through its turn.
func TestSlotFreedWakesWhoWaits(t *testing.T) {
	limited := declares("z", 1, 101)
	limited.MaxSessions = 1
	w := silentSplit(t, limited)
	var crowd sync.WaitGroup
	late, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for range 8 {
		crowd.Go(func() {
			for range 50 {
				for {
					freed := w.SlotFreed()
					if w.Reserve(func() int { return 0 }) == 0 {
						break
					}
					select {
					case <-freed:
					case <-late.Done():
						t.Error("a session waits for a slot that is free")
						return
					}
				}
				w.Release(0)
			}
		})
	}
	crowd.Wait()
	if got := w.up(0).Live.Links(); got != 0 {
		t.Errorf("%d slots are taken", got)
	}
}

// TestViolationsAreTheKindsOfTheDocuments, each with its own count.
func TestViolationsAreTheKindsOfTheDocuments(t *testing.T) {
	const want = "[idless gap rewind missing_field credit variant discontinuity]"
	if got := fmt.Sprint(Violations); got != want {
		t.Errorf("the kinds are %s", got)
	}
	live := newLive()
	for i, kind := range Violations {
		for range i + 1 {
			live.Violations.Inc(kind)
		}
	}
	i := uint64(0)
	live.Violations.Each(func(kind Violation, n uint64) {
		if i++; n != i || kind != Violations[i-1] {
			t.Errorf("%s was counted %d times, %d were due", kind, n, i)
		}
	})
}
