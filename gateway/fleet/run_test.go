package fleet

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/simulator"
)

// TestRunEndsWhateverIsUnderWay: it returns when its monitors have, and
// everybody who waited for it goes on.
func TestRunEndsWhateverIsUnderWay(t *testing.T) {
	for range 8 {
		w := silent(t, func(c *config.Listener) { c.Quarantine = policy() }, "a", "b")
		var callers sync.WaitGroup
		stop := make(chan struct{})
		for i, call := range []func(){
			func() { w.MarkOffline(0, "test") },
			func() { w.Strike(0, 7) },
			func() { w.Suspect(1, 7) },
			func() { w.tells(0, 100, 90) },
			func() { w.SetDisabled(1, true); w.SetDisabled(1, false) },
			func() { w.serve(servers("a")...); w.serve(servers("a", "b", "c")...) },
		} {
			for range 1 + i%2 {
				callers.Go(func() {
					for !closed(stop) {
						call()
					}
				})
			}
		}
		for w.View().Generation < 50 {
			<-w.Changed()
		}
		w.stop()
		before := w.View()
		close(stop)
		callers.Wait()
		// After the end nothing waits, and nothing happens.
		w.MarkOffline(0, "test")
		w.serve(servers("z")...)
		if w.View() != before {
			t.Error("a fleet that has ended made a view")
		}
	}
}

// TestRunThatIsOverBeforeItBegins leaves nobody waiting.
func TestRunThatIsOverBeforeItBegins(t *testing.T) {
	f := New(listener(servers("a")...), &dial.Dialer{Connect: nowhere}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.Run(ctx)
	f.MarkOffline(0, "test")
	if !closed(f.Settled()) {
		t.Error("nobody will ever find out anything")
	}
}

// TestRunEndsEachMonitor wherever it is.
func TestRunEndsEachMonitor(t *testing.T) {
	for name, prepare := range map[string]func(n *simulator.Node){
		"connected": func(*simulator.Node) {},
		"frozen":    func(n *simulator.Node) { n.Freeze(); after(3 * time.Second) },
		"hanging":   func(n *simulator.Node) { n.Hang(true); n.DropLinks(); after(3 * time.Second) },
		"pausing":   func(n *simulator.Node) { n.Kill(); after(20 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				n := l.node("a", simulator.Options{})
				w := l.watch(listener(server("a")))
				prepare(n)
				began := time.Now()
				w.stop()
				if took := time.Since(began); took > 0 {
					t.Errorf("the end took %v", took)
				}
				n.Thaw()
				n.Hang(false)
				after(time.Minute)
				if open, _ := n.Links(); open != 0 {
					t.Errorf("%d connections are open", open)
				}
			})
		})
	}
}

// TestChangedLosesNoWakeUp: whoever takes the channel before the view, as it
// says, sees the newest view in the end.
func TestChangedLosesNoWakeUp(t *testing.T) {
	const views = 3000
	w := silent(t, nil, "a")
	last := w.View().Generation + views
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for seen := uint64(0); seen < last; {
				changed := w.Changed()
				v := w.View()
				if v.Generation < seen {
					t.Errorf("generation %d after %d", v.Generation, seen)
					return
				}
				if seen = v.Generation; seen == last {
					return
				}
				<-changed
			}
		})
	}
	for n := range views {
		w.SetDisabled(0, n%2 == 0)
	}
	all.Wait()
}

// TestChangedIsQuiet while nothing changes (M17).
func TestChangedIsQuiet(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.node("a", simulator.Options{})
		w := l.watch(listener(server("a")))
		changed := w.Changed()
		// Polls that bring nothing new; the node is stale only later.
		after(50 * time.Second)
		if closed(changed) {
			t.Error("a view was made though nothing was new")
		}
		w.Reserve(func() int { return 0 })
		if closed(changed) {
			t.Error("a slot made a view")
		}
		l.chain.Advance(1)
		after(2 * time.Second)
		if !closed(changed) {
			t.Error("a new head made no view")
		}
	})
}

// TestSettled: closed when each server of the fleet has answered or failed to
// for the first time, those included that a reload has added meanwhile.
func TestSettled(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		for _, name := range []string{"a", "b", "c"} {
			l.node(name, simulator.Options{}).Hang(true)
		}
		cfg := func(names ...string) *config.Listener { return listener(servers(names...)...) }
		for name, tt := range map[string]struct {
			first []string
			play  func(w *world)
			want  time.Duration // 10 s is the limit of a connect
		}{
			"no servers":                    {nil, func(*world) {}, 0},
			"all fail at once":              {[]string{"x", "y"}, func(*world) {}, 0},
			"one hangs":                     {[]string{"x", "a"}, func(*world) {}, 10 * time.Second},
			"it is removed":                 {[]string{"x", "a"}, func(w *world) { after(time.Second); w.Update(cfg("x")) }, time.Second},
			"all are exchanged":             {[]string{"a"}, func(w *world) { after(time.Second); w.Update(cfg("b")) }, 11 * time.Second},
			"one is removed and comes back": {[]string{"a"}, func(w *world) { w.Update(cfg()); after(0); w.Update(cfg("a")) }, 0},
			"one is added that fails":       {[]string{"a"}, func(w *world) { after(time.Second); w.Update(cfg("a", "x")) }, 10 * time.Second},
			"one is added that hangs":       {[]string{"a"}, func(w *world) { after(time.Second); w.Update(cfg("a", "b")) }, 11 * time.Second},
			"added later, it is settled":    {[]string{"x"}, func(w *world) { after(time.Second); w.Update(cfg("x", "a")) }, 0},
		} {
			began := time.Now()
			w := l.watch(cfg(tt.first...))
			var settled sync.WaitGroup
			var at time.Duration
			settled.Go(func() {
				<-w.Settled()
				at = time.Since(began)
			})
			tt.play(w)
			settled.Wait()
			after(time.Minute) // and never a second time
			w.stop()
			if at != tt.want {
				t.Errorf("%s: settled after %v, %v was due", name, at, tt.want)
			}
		}
	})
}

// TestOpenTakesTheLimitInForce, which a reload may have changed.
func TestOpenTakesTheLimitInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := silent(t, nil, "a")
		w.put(func(c *config.Listener) { c.HandshakeTimeout = 3 * time.Second })
		began := time.Now()
		_, err := w.Open(t.Context(), "ws://a:8080/")
		var failed *dial.Error
		if took := time.Since(began); !errors.As(err, &failed) || failed.Reason != dial.Unreachable || took != 3*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// TestSilentNetworkIsSilent guards the tests that are built on it: a fleet in
// it learns nothing by itself.
func TestSilentNetworkIsSilent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var conn net.Conn
	var err error
	var dialing sync.WaitGroup
	dialing.Go(func() { conn, err = nowhere(ctx, "tcp", "a:1") })
	cancel()
	dialing.Wait()
	if conn != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("connected: %v, %v", conn, err)
	}
}

// TestRouting counts what decides where requests may go; a head that moves on is
// a new view all the same.
func TestRouting(t *testing.T) {
	w := silent(t, nil, "a", "b")
	for _, c := range []struct {
		name   string
		happen func()
		counts bool
	}{
		{"a node comes up", func() { w.tells(0, 100, 90) }, true},
		{"its head moves on", func() { w.tells(0, 101, 90) }, false},
		{"its LIB moves on", func() { w.tells(0, 101, 91) }, false},
		{"another comes up", func() { w.tells(1, 101, 91) }, true},
		{"it is disabled", func() { w.SetDisabled(1, true) }, true},
		{"it is lost", func() { w.loses(1) }, true},
		{"it goes stale", func() { w.stale(0, true) }, true},
		{"a reload", func() { w.serve(servers("a")...) }, true},
	} {
		before := w.View()
		c.happen()
		if v := w.View(); v.Generation == before.Generation || (v.Routing != before.Routing) != c.counts {
			t.Errorf("%s: generation %d to %d, routing %d to %d", c.name, before.Generation, v.Generation, before.Routing, v.Routing)
		}
	}
}
