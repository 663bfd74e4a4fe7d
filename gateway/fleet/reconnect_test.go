package fleet

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
)

var errRefused = errors.New("refused")

// down is a lab in which no connect succeeds.
func down(l *lab) {
	refuse := func() error { return errRefused }
	l.refuse.Store(&refuse)
}

// TestReconnectPauses is M3: doubled up to five times, at most 30 seconds.
func TestReconnectPauses(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		base time.Duration
		want []time.Duration
	}{
		"a second":                   {time.Second, []time.Duration{1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms, 16000 * ms, 30000 * ms, 30000 * ms}},
		"short: five times":          {100 * ms, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 3200 * ms}},
		"just below the cap":         {900 * ms, []time.Duration{900 * ms, 1800 * ms, 3600 * ms, 7200 * ms, 14400 * ms, 28800 * ms, 28800 * ms}},
		"between":                    {20 * time.Second, []time.Duration{20 * time.Second, 30 * time.Second, 30 * time.Second}},
		"longer than the cap":        {40 * time.Second, []time.Duration{40 * time.Second, 40 * time.Second}},
		"longer than can be doubled": {200 * 365 * 24 * time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				down(l)
				cfg := listener(server("a"))
				cfg.Reconnect = tt.base
				w := l.watch(cfg)
				if !closed(w.Settled()) {
					t.Error("a refused connect does not count as an answer")
				}
				var all time.Duration
				for _, p := range tt.want {
					all += p
				}
				after(all)
				if got := l.dials.gaps(); !slices.Equal(got, tt.want) {
					t.Errorf("pauses of %v, %v was due", got, tt.want)
				}
			})
		})
	}
}

// TestReconnectPauseStartsAnew after a connect that succeeds, however short the
// connection was.
func TestReconnectPauseStartsAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.node("a", simulator.Options{})
		down(l)
		w := l.watch(listener(server("a")))
		after(7 * time.Second) // dialed at 0, 1, 3 and 7 seconds
		l.refuse.Store(nil)
		after(8 * time.Second)
		w.online("a")
		down(l)
		n.DropLinks()
		after(7 * time.Second)
		want := []time.Duration{1, 2, 4, 8, 1, 1, 2}
		for i := range want {
			want[i] *= time.Second
		}
		// The fifth is the pause after a connection, the sixth after a connect.
		if got := l.dials.gaps(); len(got) < 6 || !slices.Equal(got[:4], want[:4]) || !slices.Equal(got[4:], want[4:4+len(got)-4]) {
			t.Errorf("pauses of %v, %v was due", got, want)
		}
	})
}

// TestReconnectIsWokenBySessions: one that reached the node cuts the pause to
// the plain one, counted from the failure (M3, F17).
func TestReconnectIsWokenBySessions(t *testing.T) {
	for name, tt := range map[string]struct {
		reached []time.Duration // after the fifth failure, whose pause is 16 s
		want    time.Duration
	}{
		"never":               {nil, 16 * time.Second},
		"late":                {[]time.Duration{5 * time.Second}, 5 * time.Second},
		"within the pause":    {[]time.Duration{300 * time.Millisecond}, time.Second},
		"again and again":     {[]time.Duration{300 * time.Millisecond, 600 * time.Millisecond, 900 * time.Millisecond}, time.Second},
		"exactly at its end":  {[]time.Duration{time.Second}, time.Second},
		"at once":             {[]time.Duration{0}, time.Second},
		"while it connects":   {[]time.Duration{-time.Millisecond}, time.Second},
		"before it had ended": {[]time.Duration{15999 * time.Millisecond}, 15999 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				down(l)
				w := l.watch(listener(server("a")))
				fifth := 15 * time.Second // 1 + 2 + 4 + 8
				if len(tt.reached) > 0 && tt.reached[0] < 0 {
					// During the connect: it takes a moment, and fails then.
					refuse := func() error {
						if l.dials.count() == 5 {
							w.Reached(0)
						}
						return errRefused
					}
					l.refuse.Store(&refuse)
					tt.reached = nil
				}
				after(fifth)
				var at time.Duration
				for _, r := range tt.reached {
					after(r - at)
					at = r
					w.Reached(0)
				}
				after(20 * time.Second)
				if got := l.dials.gaps(); len(got) < 5 || got[4] != tt.want {
					t.Errorf("pauses of %v, the fifth was due to be %v", got, tt.want)
				}
			})
		})
	}
}

// TestReachedNeverWaits, neither for a monitor that is connected nor for one
// that was told already.
func TestReachedNeverWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.node("a", simulator.Options{})
		w := l.watch(listener(server("a")))
		for range 100 {
			w.Reached(0)
		}
		after(10 * time.Second)
		if got := n.Counters().Links; got != 1 {
			t.Errorf("%d connections", got)
		}
		// What was told long ago does not shorten the plain pause.
		n.DropLinks()
		after(time.Second - time.Millisecond)
		w.online()
		after(time.Millisecond)
		w.online("a")
	})
}

// TestReconnectTakesANewInterval from the next attempt on.
func TestReconnectTakesANewInterval(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		down(l)
		w := l.watch(listener(server("a")))
		after(time.Second) // the second pause, of two seconds, has begun
		w.Update(w.changed(func(c *config.Listener) { c.Reconnect = 100 * time.Millisecond }))
		after(2*time.Second + 700*time.Millisecond)
		want := []time.Duration{time.Second, 2 * time.Second, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}
		if got := l.dials.gaps(); !slices.Equal(got, want) {
			t.Errorf("pauses of %v, %v was due", got, want)
		}
	})
}

// TestSessionsTakeNodesOffline: MarkOffline counts until the next status says
// otherwise, and never for archives (F5).
func TestSessionsTakeNodesOffline(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.node("a", simulator.Options{})
		l.node("b", simulator.Options{})
		archive := server("b")
		archive.Role = config.Frozen
		w := l.watch(listener(server("a"), archive))
		w.MarkOffline(0, "it does not answer")
		w.MarkOffline(1, "it does not answer")
		w.online("b")
		before := w.View()
		w.MarkOffline(0, "it does not answer")
		if w.View() != before {
			t.Error("the same again made a new view")
		}
		if got := w.log.count("a session found an upstream dead"); got != 1 {
			t.Errorf("%d warnings, one was due", got)
		}
		after(w.Config().Status)
		w.online("a", "b")
	})
}

func TestHeadAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := silent(t, nil, "a")
		synctest.Wait()
		for _, step := range []struct {
			wait time.Duration
			then func()
			want time.Duration
		}{
			{3 * time.Second, func() {}, 3 * time.Second},
			{time.Second, func() { w.tells(0, 100, 90) }, 0},
			{2 * time.Second, func() { w.tells(0, 100, 95) }, 2 * time.Second},
			{time.Second, func() { w.streams(0, fork(100, 1), pos(95)) }, 3 * time.Second},
			{time.Second, func() { w.streams(0, pos(101), pos(95)) }, 0},
			{time.Second, func() { w.tells(0, 50, 40) }, time.Second},
			{time.Second, func() { w.tells(0, 51, 41) }, 0},
		} {
			after(step.wait)
			step.then()
			if got := w.HeadAge(); got != step.want {
				t.Errorf("the head is %v old, %v was due", got, step.want)
			}
		}
	})
}
