package fleet

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
)

func policy() *config.Quarantine {
	return &config.Quarantine{Strikes: 2, Window: 300 * time.Second, TTL: 600 * time.Second, Range: 1}
}

// TestQuarantineRules is F11, in times and blocks.
func TestQuarantineRules(t *testing.T) {
	const s = time.Second
	type failure struct {
		at    time.Duration
		block uint32
	}
	for name, tt := range map[string]struct {
		change   func(*config.Quarantine)
		failures []failure
		at       time.Duration // when it is looked at, since the start
		held     []uint32      // blocks that are quarantined then
		free     []uint32      // blocks that are not
	}{
		"one is none":             {nil, []failure{{0, 7}}, s, nil, []uint32{7}},
		"two are":                 {nil, []failure{{0, 7}, {s, 7}}, s, []uint32{7}, []uint32{6, 8}},
		"at the end of a window":  {nil, []failure{{0, 7}, {300 * s, 7}}, 300 * s, []uint32{7}, nil},
		"beyond a window":         {nil, []failure{{0, 7}, {301 * s, 7}}, 301 * s, nil, []uint32{7}},
		"the window moves along":  {nil, []failure{{0, 7}, {301 * s, 7}, {302 * s, 7}}, 302 * s, []uint32{7}, nil},
		"other blocks":            {nil, []failure{{0, 7}, {s, 8}, {2 * s, 9}}, 2 * s, nil, []uint32{7, 8, 9}},
		"two blocks at a time":    {nil, []failure{{0, 7}, {0, 9}, {s, 9}, {s, 7}}, s, []uint32{7, 9}, []uint32{8}},
		"three, of three":         {func(q *config.Quarantine) { q.Strikes = 3 }, []failure{{0, 7}, {0, 7}, {s, 7}}, s, []uint32{7}, nil},
		"two, of three":           {func(q *config.Quarantine) { q.Strikes = 3 }, []failure{{0, 7}, {0, 7}}, s, nil, []uint32{7}},
		"one, of one":             {func(q *config.Quarantine) { q.Strikes = 1 }, []failure{{0, 7}}, 0, []uint32{7}, nil},
		"just before its end":     {nil, []failure{{0, 7}, {0, 7}}, 600*s - 1, []uint32{7}, nil},
		"its end":                 {nil, []failure{{0, 7}, {0, 7}}, 600 * s, nil, []uint32{7}},
		"failures in it are none": {nil, []failure{{0, 7}, {0, 7}, {500 * s, 7}, {550 * s, 7}}, 600 * s, nil, []uint32{7}},
		"nor count afterwards":    {nil, []failure{{0, 7}, {0, 7}, {590 * s, 7}, {601 * s, 7}}, 601 * s, nil, []uint32{7}},
		"again after its end":     {nil, []failure{{0, 7}, {0, 7}, {601 * s, 7}, {602 * s, 7}}, 602 * s, []uint32{7}, nil},
		"a range":                 {func(q *config.Quarantine) { q.Range = 10 }, []failure{{0, 7}, {0, 7}}, 0, []uint32{7, 8, 16}, []uint32{6, 17, 0, math.MaxUint32}},
		"failures in the range":   {func(q *config.Quarantine) { q.Range = 10 }, []failure{{0, 7}, {0, 7}, {s, 16}, {s, 16}}, s, []uint32{16}, []uint32{17}},
		"a range that overlaps":   {func(q *config.Quarantine) { q.Range = 10 }, []failure{{0, 7}, {0, 7}, {s, 5}, {s, 5}}, 600 * s, []uint32{5, 14}, []uint32{4, 15}},
		"the largest block":       {nil, []failure{{0, math.MaxUint32}, {0, math.MaxUint32}}, 0, []uint32{math.MaxUint32}, []uint32{math.MaxUint32 - 1, 0}},
		"a range beyond all":      {func(q *config.Quarantine) { q.Range = math.MaxUint32 }, []failure{{0, 7}, {0, 7}}, 0, []uint32{7, math.MaxUint32}, []uint32{6, 0}},
		"the whole range":         {func(q *config.Quarantine) { q.Range = math.MaxUint32 }, []failure{{0, 0}, {0, 0}}, 0, []uint32{0, math.MaxUint32 - 1}, []uint32{math.MaxUint32}},
		"the end of a range":      {func(q *config.Quarantine) { q.Range = 2 }, []failure{{0, math.MaxUint32 - 1}, {0, math.MaxUint32 - 1}}, 0, []uint32{math.MaxUint32}, []uint32{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			q := policy()
			if tt.change != nil {
				tt.change(q)
			}
			start := time.Unix(1_700_000_000, 0)
			marks := newStrikes()
			for _, f := range tt.failures {
				marks.add(q, f.block, start.Add(f.at))
			}
			u := Upstream{Quarantines: marks.active}
			for _, n := range tt.held {
				if !u.Quarantined(n, start.Add(tt.at)) {
					t.Errorf("block %d is not quarantined", n)
				}
			}
			for _, n := range tt.free {
				if u.Quarantined(n, start.Add(tt.at)) {
					t.Errorf("block %d is quarantined", n)
				}
			}
		})
	}
}

// TestQuarantineMemory: a node that fails at every block leaves no more behind
// than what happened in one window.
func TestQuarantineMemory(t *testing.T) {
	marks, q, now := newStrikes(), policy(), time.Unix(1_700_000_000, 0)
	for n := range uint32(2000) {
		marks.add(q, n, now.Add(time.Duration(n)*time.Second))
	}
	if got := len(marks.at); got > 301 {
		t.Errorf("%d blocks are remembered", got)
	}
}

// TestQuarantineInTheView: that one begins and that one ends shows in views; the
// node stays online, and only the block is affected.
func TestQuarantineInTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := silent(t, func(c *config.Listener) { c.Quarantine, c.Monitoring = policy(), 5*time.Second }, "a", "b")
		w.tells(0, 100, 90)
		w.tells(1, 100, 90)
		synctest.Wait()
		changed := w.Changed()
		w.Strike(0, 50)
		if closed(changed) {
			t.Error("a failure that counts for nothing yet made a view")
		}
		w.Strike(0, 50)
		if !closed(changed) {
			t.Error("a quarantine made no view")
		}
		w.online("a", "b")
		v, need := w.View(), Need{Traces: true}
		if v.Eligible(0, 50, need, time.Now()) || !v.Covers(0, 50, need) || !v.Eligible(1, 50, need, time.Now()) || !v.Eligible(0, 51, need, time.Now()) {
			t.Error("the wrong node or block is quarantined")
		}
		if got := w.log.count("WARN", "failed again and again", "server=a", "block=50"); got != 1 {
			t.Errorf("%d warnings, one was due", got)
		}
		// Whoever holds an old view sees the end of it by the time alone.
		after(600*time.Second - time.Millisecond)
		if !v.Upstreams[0].Quarantined(50, time.Now()) || len(w.up(0).Quarantines) != 1 {
			t.Error("the quarantine is over before its time")
		}
		changed = w.Changed()
		after(time.Millisecond)
		if v.Upstreams[0].Quarantined(50, time.Now()) {
			t.Error("the quarantine is not over in time")
		}
		after(5 * time.Second)
		if !closed(changed) || len(w.up(0).Quarantines) != 0 {
			t.Error("the end of the quarantine made no view")
		}
		if len(v.Upstreams[0].Quarantines) != 1 {
			t.Error("a view was changed")
		}
	})
}

// TestSuspectCountsButIsNoFailure is F7 and F11; without a quarantine a strike
// only counts.
func TestSuspectCountsButIsNoFailure(t *testing.T) {
	for name, tt := range map[string]struct {
		policy   *config.Quarantine
		play     func(w *world)
		failures uint64
		active   int
	}{
		"two strikes":          {policy(), func(w *world) { w.Strike(0, 5); w.Strike(0, 5) }, 2, 1},
		"two suspicions":       {policy(), func(w *world) { w.Suspect(0, 5); w.Suspect(0, 5) }, 0, 1},
		"one of each":          {policy(), func(w *world) { w.Suspect(0, 5); w.Strike(0, 5) }, 1, 1},
		"strikes in it count":  {policy(), func(w *world) { w.Strike(0, 5); w.Strike(0, 5); w.Strike(0, 5) }, 3, 1},
		"of another node":      {policy(), func(w *world) { w.Strike(0, 5); w.Strike(1, 5) }, 1, 0},
		"strikes, turned off":  {nil, func(w *world) { w.Strike(0, 5); w.Strike(0, 5) }, 2, 0},
		"suspects, turned off": {nil, func(w *world) { w.Suspect(0, 5); w.Suspect(0, 5) }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := silent(t, func(c *config.Listener) { c.Quarantine = tt.policy }, "a", "b")
			tt.play(w)
			if got := w.up(0).Live.BlockFailures.Load(); got != tt.failures {
				t.Errorf("%d block failures, %d were due", got, tt.failures)
			}
			if got := len(w.up(0).Quarantines); got != tt.active {
				t.Errorf("%d quarantines, %d were due", got, tt.active)
			}
		})
	}
}

// TestQuarantineAndUpdate: the numbers in force count, and turning it off ends
// what there is.
func TestQuarantineAndUpdate(t *testing.T) {
	w := silent(t, func(c *config.Listener) { c.Quarantine = policy() }, "a")
	w.Strike(0, 5)
	w.Update(w.changed(func(c *config.Listener) {
		c.Quarantine = &config.Quarantine{Strikes: 3, Window: time.Minute, TTL: time.Minute, Range: 10}
	}))
	w.Strike(0, 5)
	if got := len(w.up(0).Quarantines); got != 0 {
		t.Errorf("%d quarantines after two strikes of three", got)
	}
	w.Strike(0, 5)
	if got := w.up(0).Quarantines; len(got) != 1 || got[0].Block != 5 || got[0].Range != 10 {
		t.Errorf("quarantines: %+v", got)
	}
	w.Strike(0, 500)
	w.Update(w.changed(func(c *config.Listener) { c.Quarantine = nil }))
	if got := len(w.up(0).Quarantines); got != 0 {
		t.Errorf("%d quarantines after they were turned off", got)
	}
	w.Update(w.changed(func(c *config.Listener) { c.Quarantine = policy() }))
	w.Strike(0, 500)
	if got := len(w.up(0).Quarantines); got != 0 {
		t.Error("a strike from before counts")
	}
	if got := w.up(0).Live.BlockFailures.Load(); got != 5 {
		t.Errorf("%d block failures, 5 were due", got)
	}
}

// TestStrikeOfARemovedServer comes from a session that has not moved yet. It
// counts as a failure and for nothing else, also when the server is back.
func TestStrikeOfARemovedServer(t *testing.T) {
	w := silent(t, func(c *config.Listener) { c.Quarantine = policy() }, "a", "b")
	w.Update(w.changed(func(c *config.Listener) { c.Servers = servers("b") }))
	w.Strike(0, 5)
	w.Strike(0, 5)
	w.Suspect(0, 5)
	if u := w.up(0); u.Live.BlockFailures.Load() != 2 || len(u.Quarantines) != 0 {
		t.Errorf("%d block failures, quarantines: %v", u.Live.BlockFailures.Load(), u.Quarantines)
	}
	w.Update(w.changed(func(c *config.Listener) { c.Servers = servers("a", "b") }))
	w.Strike(0, 5)
	if got := len(w.up(0).Quarantines); got != 0 {
		t.Errorf("%d quarantines after one strike", got)
	}
	w.Strike(0, 5)
	if got := len(w.up(0).Quarantines); got != 1 {
		t.Errorf("%d quarantines after two strikes", got)
	}
}
