package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// The tests in this file are those of spec "ship" 9.1 that concern pools: each
// is a case in which the peer's users are hurt. (9.1.5 is TestCloses, 9.1.10
// TestEveryNodeDownForAMomentHoldsTheClient; 9.1.1, 7 and 8 are about archives.)

// 9.1.2
func TestSatisfiedClientSurvivesAnyNumberOfRestarts(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		n := w.Node(simulator.Options{}, nil)
		w.Config.HoldWait = time.Minute
		defer w.Start()()
		c := w.Dial(simulator.ClientOptions{AckEvery: 1})
		w.Ask(c, scene.Everything(2, 50, 100))
		w.Reaches(c, 49)
		for range 12 {
			n.DropLinks()
			time.Sleep(5 * time.Second)
		}
		if end, ended := c.End(); ended {
			t.Fatalf("the client was closed: %v", end)
		}
		w.Ask(c, scene.Everything(50, 101, 100))
		w.Reaches(c, 100)
		w.Clean(c)
	})
}

// The same for a client that waits at the head: it has asked for more, and is
// owed nothing yet.
func TestClientAtTheHeadSurvivesAnyNumberOfRestarts(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		n := w.Node(simulator.Options{}, nil)
		w.Config.HoldWait = time.Minute
		defer w.Start()()
		c := w.Dial(simulator.ClientOptions{AckEvery: 1})
		w.Ask(c, scene.Everything(90, 1000, 100))
		w.Reaches(c, 100)
		for range 12 {
			n.DropLinks()
			time.Sleep(5 * time.Second)
		}
		w.Chain.Advance(1)
		w.Reaches(c, 101)
		w.Clean(c)
	})
}

// 9.1.3
func TestOnlineNodeIsTriedAgainBeforeAnOfflineOne(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		a := w.Node(simulator.Options{}, priority(1))
		b := w.Node(simulator.Options{}, priority(0))
		defer w.Start()()
		b.Kill()
		synctest.Wait()
		// From now on a dial to b would take as long as the handshake may.
		b.Hang(true)
		if err := b.Restart(); err != nil {
			t.Fatal(err)
		}
		c := w.Dial(simulator.ClientOptions{AckEvery: 1})
		w.Ask(c, scene.Everything(2, 1000, 5))
		w.Reaches(c, 100)
		a.Inject(simulator.Fault{Kind: simulator.Drop, Block: 101, Times: 1})
		w.Chain.Advance(5)
		r := w.Reaches(c, 105)
		w.Clean(c)
		if r.LongestSilence > 200*time.Millisecond {
			t.Errorf("the client got nothing for %v", r.LongestSilence)
		}
	})
}

// 9.1.4, first half
func TestClientThatOnlyReadsIsNotIdle(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		w.Node(simulator.Options{}, nil)
		w.Config.IdleTimeout = 10 * time.Second
		defer w.Start()()
		c := w.Dial(simulator.ClientOptions{})
		w.Ask(c, scene.Everything(2, 5000, 5000))
		for range 60 {
			w.Chain.Advance(1)
			time.Sleep(2 * time.Second)
		}
		w.Reaches(c, 160)
		w.Clean(c)
	})
}

// 9.1.4, second half
func TestClientThatStopsReadingIsClosedWithAReason(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 5000, Sizes: simulator.Sizes{Traces: 10_000}}, func(t *testing.T, w *world) {
		n := w.Node(simulator.Options{}, nil)
		defer w.Start()()
		c := w.dialRaw()
		q := scene.Everything(2, 5000, 5000)
		c.send(t, request(&q))
		// Its node is rid of it as soon as its buffer is full, long before it is
		// closed itself.
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if open, _ := n.Links(); open != 1 {
			t.Errorf("%d links are open, the monitor's alone was due", open)
		}
		// A client that wakes up just then learns why.
		time.Sleep(w.Config.SlowClientTimeout - 10*time.Second + 300*time.Millisecond)
		if code, reason := c.closedWith(t); code != 1008 || reason != "client does not read" {
			t.Errorf("closed with %d %q", code, reason)
		}
	})
}

// 9.1.6, first half
func TestNodeWithTracesOnlyIsNotStaleWhileItAdvances(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		// The preferred node has no chain state; the other one stands still.
		a := w.Node(simulator.Options{StateBegin: simulator.NoLog}, priority(0))
		b := w.Node(simulator.Options{}, priority(1))
		b.Pin(true)
		defer w.Start()()
		for range 40 {
			w.Chain.Advance(1)
			time.Sleep(w.Config.Monitoring / 2)
		}
		w.Dial(simulator.ClientOptions{})
		if open, _ := a.Links(); open != 2 {
			t.Errorf("%d links to the node that advances, the monitor's and the client's were due", open)
		}
	})
}

// 9.1.6, second half
func TestUpgradedNodeShowsItsFinalityLog(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		old := w.Node(simulator.Options{V0Only: true}, nil)
		defer w.Start()()
		c := w.Dial(simulator.ClientOptions{})
		if s, err := c.Status(w.Ctx, true); err != nil || !s.Finality.Empty() {
			t.Fatalf("before: %v, %v", s.Finality, err)
		}
		old.Close()
		upgraded, err := simulator.Start(w.Chain, simulator.Options{Address: old.Addr(), Listen: w.net.Listen})
		if err != nil {
			t.Fatal(err)
		}
		defer upgraded.Close()
		time.Sleep(5 * time.Second)
		later := w.Dial(simulator.ClientOptions{})
		if s, err := later.Status(w.Ctx, true); err != nil || s.Finality.Begin != 1 || s.Finality.End != 101 {
			t.Errorf("after: %v, %v", s.Finality, err)
		}
		later.Close()
		c.Close()
	})
}

// 9.1.9
func TestShutdownDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 5000, Sizes: simulator.Sizes{Traces: 10_000}}, func(t *testing.T, w *world) {
		w.Node(simulator.Options{}, nil)
		stop := w.Start()
		c := w.dialRaw()
		q := scene.Everything(2, 5000, 5000)
		c.send(t, request(&q))
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the shutdown took %v", took)
		}
	})
}

// A node that hangs costs the next client a moment, not the time of a dial.
func TestSecondNodeIsDialedBesideOneThatHangs(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		a := w.Node(simulator.Options{}, priority(0))
		w.Node(simulator.Options{}, priority(1))
		w.Config.Status = time.Minute
		defer w.Start()()
		a.Hang(true)
		began := time.Now()
		w.Dial(simulator.ClientOptions{})
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("the client waited for its ABI for %v", took)
		}
		// The dial that lost the race still finds out that the node is dead.
		time.Sleep(w.Config.ConnectTimeout())
		began = time.Now()
		w.Dial(simulator.ClientOptions{})
		if took := time.Since(began); took != 0 {
			t.Errorf("the second client waited for %v", took)
		}
	})
}

// A client that connects right at the start is not told that there are no
// nodes before anybody has asked them.
func TestFirstClientWaitsForTheFirstStatus(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		n := w.Node(simulator.Options{}, nil)
		n.Mute(true)
		defer w.Start()()
		time.AfterFunc(500*time.Millisecond, func() { n.Mute(false) })
		// It fails the test when a Close frame comes instead of the ABI.
		w.Dial(simulator.ClientOptions{})
	})
}

// A node whose log has a hole is connected, answers pings and never sends the
// block: it is left after the stall time, and quarantined there.
func TestNodeWithAHoleInItsLogIsQuarantinedThere(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		a := w.Node(simulator.Options{}, priority(0))
		b := w.Node(simulator.Options{}, priority(1))
		w.Config.StallTimeout = 10 * time.Second
		w.Config.Quarantine = &config.Quarantine{Strikes: 1, Window: time.Minute, TTL: time.Hour, Range: 1}
		defer w.Start()()
		first := w.Dial(simulator.ClientOptions{AckEvery: 1})
		a.Stall(true)
		w.Ask(first, scene.Everything(50, 60, 5))
		if r := w.Reaches(first, 59); r.LongestSilence > 11*time.Second {
			t.Errorf("the client got nothing for %v", r.LongestSilence)
		}
		before := b.Counters().Requests
		second := w.Dial(simulator.ClientOptions{AckEvery: 1})
		w.Ask(second, scene.Everything(50, 60, 5))
		if r := w.Reaches(second, 59); r.LongestSilence > time.Second || b.Counters().Requests != before+1 {
			t.Errorf("the next client asked for the block of the node with the hole: it got nothing for %v", r.LongestSilence)
		}
		w.Clean(first)
		w.Clean(second)
	})
}

// Half a block is never passed on as if it were whole, and the whole one that
// follows it is not passed on as a second one.
func TestHalfABlockIsAskedForAgain(t *testing.T) {
	for name, others := range map[string]int{"of another node": 1, "of the same node": 0} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, simulator.ChainOptions{Head: 100, Sizes: simulator.Sizes{Traces: 500, Deltas: 500}}, func(t *testing.T, w *world) {
				a := w.Node(simulator.Options{}, priority(0))
				for range others {
					w.Node(simulator.Options{}, priority(1))
				}
				defer w.Start()()
				a.Inject(simulator.Fault{Kind: simulator.Hasten, Block: 60, Times: 1})
				c := w.Dial(simulator.ClientOptions{AckEvery: 1, Keep: true, CheckPayload: true})
				w.Ask(c, scene.Everything(50, 1000, 5))
				w.Reaches(c, 100)
				w.Clean(c)
				for _, r := range c.Results() {
					if r.Traces == nil || r.Deltas == nil {
						t.Errorf("block %d came without traces or deltas", r.This.Num)
					}
				}
			})
		})
	}
}
