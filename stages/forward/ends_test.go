package forward_test

import (
	"encoding/binary"
	"hash/fnv"
	"testing"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/forward"
	"flotilla/stages/stagetest"
)

const ms = time.Millisecond

// jittered is F9.
func jittered(d time.Duration, session uint64, count uint32) time.Duration {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, session))
	h.Write(binary.LittleEndian.AppendUint32(nil, count))
	return time.Duration(float64(d) * (0.8 + float64(h.Sum64()%4001)/10000))
}

// owing is a session on node 1 of three that is owed block 960.
func owing() *pipeline.Exchange {
	x := stagetest.Exchange(stagetest.Node("a"), stagetest.Node("b"), stagetest.Node("c"))
	x.Session, x.Current = 77, 1
	x.Asked, x.Want, x.Cursor, x.Credit = true, ship.BlocksRequest{Start: 900, End: 2000}, 960, 5
	return x
}

// TestEnded covers the table of 5.2, as far as a pool has these ends.
func TestEnded(t *testing.T) {
	for _, c := range []struct {
		end    fleet.End
		strike bool
		pause  time.Duration
		soft   bool
		hard   time.Duration
		dead   bool
	}{
		{end: fleet.EndUnclean, strike: true, pause: 100 * ms, soft: true},
		{end: fleet.EndClean, pause: 100 * ms},
		{end: fleet.EndIdle, pause: 100 * ms},
		{end: fleet.EndStall, pause: 100 * ms, soft: true},
		{end: fleet.EndOffline, pause: 100 * ms, soft: true},
		{end: fleet.EndSilent, pause: 100 * ms, soft: true, dead: true},
		{end: fleet.EndViolation, strike: true, pause: 100 * ms, soft: true},
		{end: fleet.EndUncovered, hard: 30 * time.Second},
		{end: fleet.EndDiscontinuity, hard: 30 * time.Second},
		{end: fleet.EndSend, pause: 100 * ms, hard: 2 * time.Second},
		{end: fleet.EndBehind, pause: 100 * ms},
		{end: fleet.EndOperator, pause: 100 * ms, soft: true, hard: 10 * time.Second},
	} {
		t.Run(string(c.end), func(t *testing.T) {
			x := owing()
			x.Soft = 2 // left for a fault before
			got := forward.Ended(x, c.end, true)
			if got.Strike != c.strike || got.Exhausted || got.Dead != c.dead {
				t.Errorf("strike %v, exhausted %v, dead %v", got.Strike, got.Exhausted, got.Dead)
			}
			count := uint32(0)
			if c.strike {
				count = 1
			}
			if want := jittered(c.pause, 77, count); got.Pause != want {
				t.Errorf("pause %v, want %v", got.Pause, want)
			}
			wantSoft := pipeline.None
			if c.soft {
				wantSoft = 1
			}
			if x.Soft != wantSoft {
				t.Errorf("soft exclusion of %d, want %d", x.Soft, wantSoft)
			}
			if got := x.Excluded(1, x.Now); got != (c.hard > 0) {
				t.Errorf("hard exclusion: %v", got)
			}
			if c.hard > 0 && (!x.Excluded(1, x.Now.Add(c.hard-1)) || x.Excluded(1, x.Now.Add(c.hard))) {
				t.Errorf("the hard exclusion does not end after %v", c.hard)
			}
			if x.Excluded(0, x.Now) || x.Excluded(2, x.Now) {
				t.Error("another node is excluded")
			}
			if len(x.Failed) != int(count) {
				t.Errorf("%d failures", len(x.Failed))
			}
			if left := len(x.SeamLeft) == 1 && x.SeamLeft[0] == 1; left != (c.end == fleet.EndDiscontinuity) {
				t.Errorf("left at the seam: %v", x.SeamLeft)
			}
		})
	}
}

// TestBudget covers F8: strikes at one block double the pause, the fifth
// closes.
func TestBudget(t *testing.T) {
	x := owing()
	for i, pause := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms} {
		c := forward.Ended(x, fleet.EndUnclean, true)
		if want := jittered(pause, 77, uint32(i+1)); c.Pause != want || c.Exhausted {
			t.Errorf("strike %d: pause %v, exhausted %v; want %v", i+1, c.Pause, c.Exhausted, want)
		}
		// Another node does not start anew, nor does an end without a strike.
		x.Current = i % 3
		if c := forward.Ended(x, fleet.EndClean, true); c.Strike || c.Exhausted || len(x.Failed) != i+1 {
			t.Errorf("an end without a strike: %+v, failures %d", c, len(x.Failed))
		}
	}
	if c := forward.Ended(x, fleet.EndUnclean, true); !c.Exhausted || !c.Strike {
		t.Errorf("strike 5: %+v", c)
	}
}

func TestBudgetStartsAnewAtAnotherBlock(t *testing.T) {
	x := owing()
	for range 4 {
		forward.Ended(x, fleet.EndUnclean, true)
	}
	x.Cursor++
	if c := forward.Ended(x, fleet.EndUnclean, true); c.Exhausted || len(x.Failed) != 1 || c.Pause != jittered(100*ms, 77, 1) {
		t.Errorf("at the next block: %+v, failures %d", c, len(x.Failed))
	}
}

// The budget has no decay in time (F8).
func TestBudgetOutlastsTime(t *testing.T) {
	x := owing()
	for range 4 {
		forward.Ended(x, fleet.EndUnclean, true)
		x.Now = x.Now.Add(24 * time.Hour)
	}
	if c := forward.Ended(x, fleet.EndUnclean, true); !c.Exhausted {
		t.Errorf("the fifth strike days later: %+v", c)
	}
}

// TestNoStrike: nothing can fail for a client that is owed nothing (better than
// F10, see 9.1.2 and weakness 4 of section 10).
func TestNoStrike(t *testing.T) {
	x := owing()
	for range 20 {
		if c := forward.Ended(x, fleet.EndUnclean, false); c.Strike || c.Exhausted || c.Pause != jittered(100*ms, 77, 0) {
			t.Fatalf("%+v", c)
		}
	}
	if x.Soft != 1 {
		t.Error("others are to be preferred all the same")
	}
}

// An end that excludes nobody leaves an earlier exclusion as it is.
func TestEarlierExclusionStays(t *testing.T) {
	x := owing()
	x.Exclude(1, pipeline.Exclusion{Until: x.Now.Add(time.Second)})
	forward.Ended(x, fleet.EndClean, true)
	if !x.Excluded(1, x.Now) {
		t.Error("the exclusion is gone")
	}
}

// TestSuspect: a node that stalls on a block which another one has may have a
// hole in its log there.
func TestSuspect(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   fleet.End
		owed  bool
		alone bool
		want  bool
	}{
		{"stalled, another has the block", fleet.EndStall, true, false, true},
		{"stalled, nobody else has it", fleet.EndStall, true, true, false},
		{"stalled, nothing was owed", fleet.EndStall, false, false, false},
		{"another end", fleet.EndUnclean, true, false, false},
	} {
		x := owing()
		x.Link.Upstream = 1
		if c.alone {
			x.View.Upstreams[0].Online, x.View.Upstreams[2].Online = false, false
		}
		if got := forward.Ended(x, c.end, c.owed).Suspect; got != c.want {
			t.Errorf("%s: suspect is %v, want %v", c.name, got, c.want)
		}
	}
}

// TestLeave: a link that ends without a strike while it owes a block costs
// nothing of the budget, but is remembered, so that others have their turn.
func TestLeave(t *testing.T) {
	for _, c := range []struct {
		end  fleet.End
		owed bool
		want int
	}{
		{fleet.EndClean, true, 1},
		{fleet.EndIdle, true, 1},
		{fleet.EndStall, true, 1},
		{fleet.EndOffline, true, 1},
		{fleet.EndSilent, true, 1},
		{fleet.EndStall, false, 0},
		{fleet.EndUnclean, true, 1}, // which is a strike
		{fleet.EndUncovered, true, 0},
		{fleet.EndDiscontinuity, true, 0},
		{fleet.EndSend, true, 0},
		{fleet.EndOperator, true, 0},
		{fleet.EndNoBlockLog, true, 0},
	} {
		x := owing()
		forward.Ended(x, c.end, c.owed)
		if got := x.InVainAt(1, 960); got != c.want || x.InVainAt(0, 960) != 0 || x.InVainAt(1, 961) != 0 {
			t.Errorf("%s, owed %v: asked in vain %d times, want %d", c.end, c.owed, got, c.want)
		}
		if len(x.Failed) > 0 && c.end != fleet.EndUnclean {
			t.Errorf("%s: it costs %d of the budget", c.end, len(x.Failed))
		}
	}
	x := owing()
	for range 1000 {
		forward.Ended(x, fleet.EndClean, true)
	}
	if len(x.Left) > 2 {
		t.Errorf("a node that ends again and again takes up %d places", len(x.Left))
	}
	x.Cursor++
	forward.Ended(x, fleet.EndClean, true)
	if x.InVainAt(1, 960) != 0 || x.InVainAt(1, 961) != 1 {
		t.Errorf("at the next block: %d at %d", len(x.Left), x.LeftAt)
	}
	ask(x, ship.BlocksRequest{Start: 961, End: 2000})
	if x.InVainAt(1, 961) != 0 {
		t.Error("a new request begins anew")
	}
}

// TestLift covers the end of S26.
func TestLift(t *testing.T) {
	x := owing()
	forward.Ended(x, fleet.EndDiscontinuity, true)
	x.Current = 2
	forward.Ended(x, fleet.EndDiscontinuity, true)
	x.Current = 0
	forward.Ended(x, fleet.EndUncovered, true)
	forward.Lift(x)
	for i, want := range []bool{true, false, false} {
		if got := x.Excluded(i, x.Now); got != want {
			t.Errorf("node %d: excluded is %v, want %v", i, got, want)
		}
	}
	if len(x.SeamLeft) != 0 {
		t.Errorf("still remembered: %v", x.SeamLeft)
	}
}

// TestHoldPause covers P14 and the bounds of F9.
func TestHoldPause(t *testing.T) {
	for n, want := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 3200 * ms, 3200 * ms} {
		if got := forward.HoldPause(77, n); got != jittered(want, 77, uint32(n)) {
			t.Errorf("after try %d: %v, want %v with jitter", n, got, want)
		}
	}
	if got := forward.HoldPause(77, 1<<30); got < 2560*ms || got > 3840*ms {
		t.Errorf("after very many tries: %v", got)
	}
	lowest, highest := time.Hour, time.Duration(0)
	for session := range uint64(5000) {
		got := forward.HoldPause(session, 0)
		if got != forward.HoldPause(session, 0) {
			t.Fatalf("session %d: the pause is not the same again", session)
		}
		lowest, highest = min(lowest, got), max(highest, got)
	}
	if lowest < 80*ms || highest > 120*ms {
		t.Errorf("pauses from %v to %v; 80 to 120 ms are allowed", lowest, highest)
	}
	if lowest > 82*ms || highest < 118*ms {
		t.Errorf("pauses from %v to %v; they do not spread", lowest, highest)
	}
}
