package fleet

import (
	"sync"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
)

// TestTip is M10 to M13: what the fleet's head and LIB are after some events.
func TestTip(t *testing.T) {
	for name, tt := range map[string]struct {
		play      func(w *world)
		head, lib uint32
	}{
		"nobody": {func(*world) {}, 0, 0},
		"one":    {func(w *world) { w.tells(0, 100, 90) }, 100, 90},
		"the highest of each, from different nodes": {func(w *world) {
			w.tells(0, 100, 80)
			w.tells(1, 95, 85)
		}, 100, 85},
		"a LIB of 0 is unknown": {func(w *world) { w.tells(0, 100, 0) }, 100, 0},
		"LIB is capped at head": {func(w *world) { w.tells(0, 100, 200) }, 100, 100},
		"a LIB above its head leaves nothing behind": {func(w *world) {
			w.tells(0, 100, 5000)
			w.loses(0)
			w.tells(1, 300, 290)
		}, 300, 290},
		"nor does one that was streamed": {func(w *world) {
			w.tells(0, 100, 90)
			w.streams(0, pos(101), pos(5000))
			w.loses(0)
			w.tells(1, 300, 290)
		}, 300, 290},

		"streamed": {func(w *world) {
			w.tells(0, 100, 90)
			w.streams(0, pos(105), pos(95))
		}, 105, 95},
		"streamed, and a status behind it": {func(w *world) {
			w.tells(0, 100, 90)
			w.streams(0, pos(105), pos(95))
			w.tells(0, 103, 93)
		}, 105, 95},
		"streamed, and a view in between": {func(w *world) {
			w.tells(0, 100, 90)
			w.streams(0, pos(105), pos(95))
			w.SetDisabled(1, true)
		}, 105, 95},
		"streamed lower": {func(w *world) {
			w.tells(0, 100, 90)
			w.streams(0, pos(50), pos(40))
		}, 100, 90},
		"streamed from one that is offline": {func(w *world) {
			w.tells(0, 100, 90)
			w.streams(1, pos(500), pos(400))
		}, 100, 90},
		"streamed from one that is disabled": {func(w *world) {
			w.tells(0, 100, 90)
			w.tells(1, 99, 90)
			w.SetDisabled(1, true)
			w.streams(1, pos(500), pos(400))
		}, 100, 90},
		"it counts when it is enabled": {func(w *world) {
			w.tells(0, 100, 90)
			w.tells(1, 99, 90)
			w.SetDisabled(1, true)
			w.streams(1, pos(500), pos(400))
			w.SetDisabled(1, false)
		}, 500, 400},
		"streamed with a view that is old": {func(w *world) {
			w.tells(0, 200, 190)
			w.tells(1, 100, 90)
			old := w.View()
			w.loses(0)
			head, lib := pos(201), pos(191)
			w.Observe(old, 0, &head, &lib)
		}, 100, 100},
		"streamed from one that is stale": {func(w *world) {
			w.tells(0, 100, 90)
			w.tells(1, 90, 80)
			w.stale(1, true)
			w.streams(1, pos(500), pos(95))
		}, 100, 90},
		"streamed when all are stale": {func(w *world) {
			w.tells(0, 100, 90)
			w.stale(0, true)
			w.streams(0, pos(101), pos(91))
		}, 101, 91},

		"a stale one is left out": {func(w *world) {
			w.tells(0, 200, 190)
			w.tells(1, 100, 90)
			w.stale(0, true)
		}, 100, 100},
		"until nobody is fresh": {func(w *world) {
			w.tells(0, 200, 190)
			w.tells(1, 100, 90)
			w.stale(0, true)
			w.stale(1, true)
		}, 200, 190},
		"or it moves again": {func(w *world) {
			w.tells(0, 200, 190)
			w.tells(1, 100, 90)
			w.stale(0, true)
			w.stale(0, false)
		}, 200, 190},
		"a disabled one is left out": {func(w *world) {
			w.tells(0, 200, 90)
			w.tells(1, 100, 90)
			w.SetDisabled(0, true)
		}, 100, 90},
		"an archive is no anchor": {func(w *world) {
			w.tells(2, 5000, 4000)
			w.tells(0, 100, 90)
		}, 100, 90},
		"not even alone": {func(w *world) { w.tells(2, 5000, 4000) }, 0, 0},

		"back when the leader goes": {func(w *world) {
			w.tells(0, 200, 90)
			w.tells(1, 100, 90)
			w.loses(0)
		}, 100, 90},
		"back when the leader is removed": {func(w *world) {
			w.tells(0, 200, 90)
			w.tells(1, 100, 90)
			w.Update(w.changed(func(c *config.Listener) { c.Servers = c.Servers[1:] }))
		}, 100, 90},
		"LIB stays, capped": {func(w *world) {
			w.tells(0, 200, 190)
			w.tells(1, 100, 90)
			w.loses(0)
		}, 100, 100},
		"LIB stays, and is there when the head is back": {func(w *world) {
			w.tells(0, 200, 190)
			w.tells(1, 100, 90)
			w.loses(0)
			w.tells(1, 195, 150)
		}, 195, 190},
		"the last pair when all are gone": {func(w *world) {
			w.tells(0, 200, 190)
			w.tells(1, 100, 90)
			w.loses(0)
			w.loses(1)
		}, 100, 100},
		"the last pair when all are removed": {func(w *world) {
			w.tells(0, 200, 190)
			w.Update(w.changed(func(c *config.Listener) { c.Servers = nil }))
		}, 200, 190},

		"a node that was set back": {func(w *world) {
			w.tells(0, 200, 190)
			w.streams(0, pos(210), pos(200))
			w.tells(0, 150, 140)
		}, 150, 150},
		"set back while it was away": {func(w *world) {
			w.tells(0, 200, 190)
			w.streams(0, pos(210), pos(200))
			w.loses(0)
			w.tells(0, 205, 195)
		}, 205, 200},
		"set back below what it streamed only": {func(w *world) {
			w.tells(0, 200, 190)
			w.streams(0, pos(300), pos(200))
			w.tells(0, 250, 200)
			w.tells(0, 260, 210)
		}, 260, 210},
		"results from before it was set back": {func(w *world) {
			w.tells(0, 200, 190)
			w.loses(0)
			w.tells(0, 100, 90)
			w.streams(0, pos(199), pos(190))
			w.tells(0, 101, 91)
			w.tells(0, 102, 92)
		}, 102, 102},
	} {
		t.Run(name, func(t *testing.T) {
			w := silent(t, func(c *config.Listener) { c.Servers[2].Role = config.Frozen }, "a", "b", "archive")
			tt.play(w)
			w.tipIs(tt.head, tt.lib)
		})
	}
}

// TestTipIDs: of equal numbers the first id stays, and only the node that told
// of it can take it back.
func TestTipIDs(t *testing.T) {
	says := func(w *world, i int, head ship.Pos) {
		s := status(head.Num, 90)
		s.Head = head
		w.says(i, s)
	}
	for name, tt := range map[string]struct {
		play func(w *world)
		want ship.Pos
	}{
		"the first of two": {func(w *world) { says(w, 0, fork(100, 1)); says(w, 1, fork(100, 2)) }, fork(100, 1)},
		"in whatever order they are listed": {func(w *world) {
			says(w, 1, fork(100, 1))
			says(w, 0, fork(100, 2))
		}, fork(100, 1)},
		"also when it says so again": {func(w *world) {
			says(w, 1, fork(100, 1))
			says(w, 0, fork(100, 2))
			says(w, 1, fork(100, 1))
			w.SetDisabled(2, true)
		}, fork(100, 1)},
		"a fork that its own node reports": {func(w *world) {
			says(w, 1, fork(100, 1))
			says(w, 0, fork(100, 2))
			says(w, 1, fork(100, 3))
		}, fork(100, 3)},
		"a fork that another one reports": {func(w *world) {
			says(w, 0, fork(100, 1))
			says(w, 1, fork(100, 1))
			says(w, 1, fork(100, 2))
		}, fork(100, 1)},
		"a fork that its own node streams": {func(w *world) {
			says(w, 0, fork(100, 1))
			w.streams(0, fork(100, 2), pos(90))
		}, fork(100, 2)},
		"a fork that another one streams": {func(w *world) {
			says(w, 0, fork(100, 1))
			says(w, 1, fork(99, 1))
			w.streams(1, fork(100, 2), pos(90))
		}, fork(100, 1)},
		"streamed, and forked by a later status": {func(w *world) {
			says(w, 0, fork(99, 1))
			w.streams(0, fork(100, 1), pos(90))
			says(w, 0, fork(100, 2))
		}, fork(100, 2)},
		"streamed, forked by a status, and streamed again": {func(w *world) {
			says(w, 0, fork(99, 1))
			w.streams(0, fork(100, 1), pos(90))
			says(w, 0, fork(100, 2))
			w.streams(0, fork(100, 3), pos(90))
		}, fork(100, 3)},
		"the id of a leader that goes": {func(w *world) {
			says(w, 0, fork(100, 1))
			says(w, 1, fork(100, 2))
			w.loses(0)
		}, fork(100, 2)},
		"a leader that comes back is second": {func(w *world) {
			says(w, 0, fork(100, 1))
			says(w, 1, fork(100, 2))
			w.loses(0)
			says(w, 0, fork(100, 1))
		}, fork(100, 2)},
		"a higher number wins": {func(w *world) {
			says(w, 0, fork(100, 1))
			says(w, 1, fork(101, 2))
		}, fork(101, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			w := silent(t, nil, "a", "b", "c")
			tt.play(w)
			if head, _, _ := w.Tip(); head != tt.want {
				t.Errorf("the head is %d %x, %d %x was due", head.Num, head.ID[31], tt.want.Num, tt.want.ID[31])
			}
		})
	}
}

// TestTipKeepsWhatSessionsSee while views are made all the time: a block that a
// session has got is not forgotten until the next one.
func TestTipKeepsWhatSessionsSee(t *testing.T) {
	w := silent(t, nil, "a", "b")
	w.tells(0, 1, 1)
	done := make(chan struct{})
	var views sync.WaitGroup
	views.Go(func() {
		for on := true; !closed(done); on = !on {
			w.SetDisabled(1, on)
		}
	})
	defer views.Wait()
	defer close(done)
	for n := uint32(2); n < 20000; n++ {
		w.streams(0, pos(n), pos(n-1))
		if head, lib, _ := w.Tip(); head.Num != n || lib.Num != n-1 {
			t.Fatalf("a session has seen %d and %d, the fleet is at %d and %d", n, n-1, head.Num, lib.Num)
		}
	}
}

// TestLIBNeverGoesBack for a reader, whoever leads and goes meanwhile.
func TestLIBNeverGoesBack(t *testing.T) {
	w := silent(t, nil, "a", "b")
	done := make(chan struct{})
	var events sync.WaitGroup
	events.Go(func() {
		defer close(done)
		for n := uint32(1000); n < 4000; n++ {
			w.tells(1, n, n-600)
			w.tells(0, n, n-500)
			w.streams(0, pos(n), pos(n-400))
			w.loses(0)
		}
	})
	defer events.Wait()
	var last uint32
	for !closed(done) {
		if _, lib, known := w.Tip(); known && lib.Num < last {
			t.Fatalf("LIB went from %d to %d", last, lib.Num)
		} else if known {
			last = lib.Num
		}
	}
}

// TestTipOfAnotherChain: when the listener is put on another chain, blocks of
// the old one count for nothing, LIB included.
func TestTipOfAnotherChain(t *testing.T) {
	for name, tt := range map[string]struct {
		first *[32]byte
		move  func(w *world)
	}{
		"the pin is changed": {&[32]byte{1}, func(w *world) {
			w.Update(w.changed(func(c *config.Listener) { c.ChainID = &[32]byte{2} }))
		}},
		"a pin is added": {nil, func(w *world) {
			w.Update(w.changed(func(c *config.Listener) { c.ChainID = &[32]byte{2} }))
		}},
		"the servers are changed": {nil, func(w *world) {
			w.Update(w.changed(func(c *config.Listener) { c.Servers = c.Servers[1:] }))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := silent(t, func(c *config.Listener) { c.ChainID = tt.first }, "a", "b")
			w.tells(0, 5000, 4000)
			w.streams(0, pos(5001), pos(4001))
			tt.move(w)
			s := on(2)
			s.Head, s.LIB = pos(100), pos(90)
			w.says(1, s)
			w.online("b")
			w.tipIs(100, 90)
			// Its links go on for a moment; what they bring is of the old chain.
			w.streams(0, pos(5002), pos(4002))
			w.tipIs(100, 90)
		})
	}
}
