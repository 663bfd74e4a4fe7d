package fleet

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

// places are the endpoints by index; a removed one has a minus.
func (w *world) places() string {
	var list []string
	for _, u := range w.View().Upstreams {
		name := strings.TrimSuffix(u.Server.Endpoint, ":8080")
		if u.Removed {
			name = "-" + name
		}
		list = append(list, name)
	}
	return strings.Join(list, " ")
}

func (w *world) put(change func(*config.Listener)) { w.Update(w.changed(change)) }

func (w *world) serve(list ...*config.Server) {
	w.put(func(c *config.Listener) { c.Servers = list })
}

// TestUpdatePlaces: an index means one endpoint for ever.
func TestUpdatePlaces(t *testing.T) {
	off := func(name string) *config.Server {
		s := server(name)
		s.Enabled = false
		return s
	}
	api := func(name string) *config.Server {
		s := server(name)
		s.Endpoint, s.URL = "", ""
		return s
	}
	for name, tt := range map[string]struct {
		next [][]*config.Server
		want string
	}{
		"the same":             {[][]*config.Server{servers("a", "b")}, "a b"},
		"added":                {[][]*config.Server{servers("a", "b", "c")}, "a b c"},
		"added in front":       {[][]*config.Server{servers("c", "a", "b")}, "a b c"},
		"reordered":            {[][]*config.Server{servers("b", "a")}, "a b"},
		"removed":              {[][]*config.Server{servers("b")}, "-a b"},
		"all removed":          {[][]*config.Server{nil}, "-a -b"},
		"exchanged":            {[][]*config.Server{servers("c", "d")}, "-a -b c d"},
		"removed and back":     {[][]*config.Server{servers("b"), servers("a", "b")}, "a b"},
		"removed twice":        {[][]*config.Server{servers("b"), servers("b"), servers("b", "a")}, "a b"},
		"added, removed, back": {[][]*config.Server{servers("a", "b", "c"), servers("a", "b"), servers("c", "a", "b", "d")}, "a b c d"},
		"respelled":            {[][]*config.Server{{server("a"), server("b.:8080")}}, "a -b b."},
		"respelled and back":   {[][]*config.Server{{server("a"), server("b.:8080")}, servers("a", "b")}, "a b -b."},
		"disabled":             {[][]*config.Server{{off("a"), server("b")}}, "-a b"},
		"disabled and enabled": {[][]*config.Server{{off("a"), server("b")}, servers("a", "b")}, "a b"},
		"without SHiP":         {[][]*config.Server{{server("a"), server("b"), api("c")}}, "a b"},
		"disabled beside it":   {[][]*config.Server{{off("a"), server("a"), server("b")}}, "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			w := silent(t, nil, "a", "b")
			first := w.View()
			for _, list := range tt.next {
				w.serve(list...)
			}
			if got := w.places(); got != tt.want {
				t.Errorf("the upstreams are %q, %q was due", got, tt.want)
			}
			for i := range first.Upstreams {
				if w.up(i).Live != first.Upstreams[i].Live {
					t.Errorf("the counters of upstream %d were exchanged", i)
				}
			}
			if got := w.View().Generation; got <= first.Generation {
				t.Errorf("generation %d after %d", got, first.Generation)
			}
		})
	}
}

// TestUpdateKeepsWhatItDoesNotChange: state, counters and slots of a server
// that stays, and the counters of one that goes and comes back.
func TestUpdateKeepsWhatItDoesNotChange(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		a := l.node("a", simulator.Options{})
		b := l.node("b", simulator.Options{})
		w := l.watch(listener(servers("a", "b")...))
		for i := range 2 {
			w.Reserve(func() int { return i })
			w.up(i).Live.Blocks.Add(10)
			w.up(i).Live.LinksTotal.Inc(Initial)
		}
		w.SetDisabled(0, true)
		w.Stats.Accepted.Add(3)

		renamed := server("a")
		renamed.Name, renamed.Priority, renamed.Weight = "alpha", 5, 7
		w.serve(renamed)
		u, gone := w.up(0), w.up(1)
		if u.Server != renamed || !u.Online || !u.Disabled || u.Head.Num != 100 || u.ABI == nil || a.Counters().Links != 1 {
			t.Errorf("the server that stayed: %+v, %d connections", u, a.Counters().Links)
		}
		if !gone.Removed || gone.Online || gone.Known || gone.ABI != nil || gone.ChainID != nil || gone.Routable() {
			t.Errorf("the server that went: %+v", gone)
		}
		if gone.Live.Links() != 1 || gone.Server.Endpoint != "b:8080" {
			t.Errorf("the server that went has %d links, and is %s", gone.Live.Links(), gone.Server.Endpoint)
		}
		synctest.Wait()
		if open, _ := b.Links(); open != 0 {
			t.Errorf("%d connections to the server that went", open)
		}
		// Its last links end while it is away.
		w.Release(1)
		w.Reached(1)
		w.MarkOffline(1, "gone")
		w.SetDisabled(1, true)

		w.serve(renamed, server("b"))
		synctest.Wait()
		back := w.up(1)
		if !back.Online || back.Removed || back.Disabled || back.Live != gone.Live {
			t.Errorf("the server that is back: %+v", back)
		}
		if back.Live.Links() != 0 || back.Live.Blocks.Load() != 10 || w.Stats.Accepted.Load() != 3 {
			t.Errorf("counters: %d links, %d blocks, %d clients", back.Live.Links(), back.Live.Blocks.Load(), w.Stats.Accepted.Load())
		}
		// The monitor names its server as the configuration does now.
		a.DropLinks()
		synctest.Wait()
		if w.log.count("cannot be watched", "server=alpha") != 1 || w.log.count("cannot be watched", "server=a ") != 0 {
			t.Error("a log line has the old name of a server")
		}
	})
}

// TestUpdateStartsAndEndsMonitors for a server that comes and goes quickly.
func TestUpdateStartsAndEndsMonitors(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.node("a", simulator.Options{})
		l.node("b", simulator.Options{})
		w := l.watch(listener(servers("b")...))
		for range 50 {
			w.serve(servers("a", "b")...)
			w.serve(servers("b")...)
		}
		w.serve(servers("a", "b")...)
		after(5 * time.Second)
		w.online("b", "a")
		if open, _ := n.Links(); open != 1 {
			t.Errorf("%d connections are open", open)
		}
		w.serve(servers("b")...)
		synctest.Wait()
		if open, _ := n.Links(); open != 0 {
			t.Errorf("%d connections are open to a server that was removed", open)
		}
	})
}

// TestUpdateOfTheChain takes offline what does not fit, at once; the next
// status of a node decides anew.
func TestUpdateOfTheChain(t *testing.T) {
	for name, tt := range map[string]struct {
		first, next func(*config.Listener)
		now, then   []string // online after the update, and after one more status of each
	}{
		"the same":           {pin(1), pin(1), []string{"a", "old"}, []string{"a", "old"}},
		"another":            {pin(1), pin(2), []string{"old"}, []string{"b", "old"}},
		"pinned to it":       {nil, pin(1), []string{"a", "old"}, []string{"a", "old"}},
		"pinned to another":  {nil, pin(2), []string{"old"}, []string{"b", "old"}},
		"required":           {pin(1), require(1), []string{"a"}, []string{"a"}},
		"not required now":   {require(1), pin(1), []string{"a"}, []string{"a", "old"}},
		"not pinned anymore": {pin(2), func(c *config.Listener) { c.ChainID = nil }, []string{"b", "old"}, []string{"b", "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := silent(t, tt.first, "a", "b", "old")
			report := func() {
				w.says(0, on(1))
				w.says(1, on(2))
				w.says(2, on(0))
			}
			report()
			w.put(func(c *config.Listener) { c.ChainID, c.RequireChainID = nil, false; tt.next(c) })
			w.online(tt.now...)
			report()
			w.online(tt.then...)
			if pinned := w.Config().ChainID; pinned != nil && *w.View().ChainID != ship.ID(*pinned) {
				t.Errorf("the chain of the view is %v", w.View().ChainID)
			}
		})
	}
}

func TestUpdateShowsInTheView(t *testing.T) {
	w := silent(t, nil, "a")
	w.put(func(c *config.Listener) { c.LiveLagBlocks, c.ChainID = 77, &[32]byte{9} })
	if v := w.View(); v.Lag != 77 || v.ChainID == nil || *v.ChainID != (ship.ID{9}) {
		t.Errorf("the view has lag %d and chain %v", v.Lag, v.ChainID)
	}
}

// TestUpdateOfThePollPeriod counts from the next request on.
func TestUpdateOfThePollPeriod(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.plays("a", func(_ int, c *script) { c.greets(springABI); c.answers(0) })
		w := l.watch(listener(server("a")))
		after(time.Second)
		w.put(func(c *config.Listener) { c.Status = 500 * time.Millisecond })
		after(2 * time.Second)
		var got []time.Duration
		for _, p := range n.asked() {
			got = append(got, p.at)
		}
		const ms = time.Millisecond
		if want := []time.Duration{0, 2000 * ms, 2500 * ms, 3000 * ms}; !slices.Equal(got, want) {
			t.Errorf("requests came at %v, %v was due", got, want)
		}
		if n.linksSoFar() != 1 {
			t.Errorf("%d connections", n.linksSoFar())
		}
	})
}

// TestUpdateWhileSessionsWork does everything at the same time that sessions,
// the admin port and reloads do, for the race detector and the invariants.
func TestUpdateWhileSessionsWork(t *testing.T) {
	w := silent(t, func(c *config.Listener) {
		c.Quarantine = &config.Quarantine{Strikes: 1, Window: time.Hour, TTL: time.Millisecond, Range: 5}
		c.Servers[0].MaxSessions = 3
	}, "a", "b", "c")
	done := make(chan struct{})
	var all sync.WaitGroup
	during := func(f func(n uint32)) {
		all.Go(func() {
			for n := uint32(1); !closed(done); n++ {
				f(n)
			}
		})
	}
	for i := range 3 {
		during(func(n uint32) { w.tells(i, 1000+n, 900+n) })
		during(func(n uint32) {
			v := w.View()
			head, lib := pos(1000+n), pos(900+n)
			w.Observe(v, i, &head, &lib)
			w.Reached(i)
		})
		during(func(n uint32) {
			w.Strike(i, n%50)
			w.Suspect(i, n%50)
			w.MarkOffline(i, "test")
			w.SetDisabled(i, n%2 == 0)
		})
	}
	for range 2 {
		during(func(uint32) {
			if i := w.Reserve(w.leastLoaded); i >= 0 {
				u := w.up(i)
				if u.Server.MaxSessions > 0 && u.Live.Links() > 3 {
					t.Errorf("%d links to %s", u.Live.Links(), u.Server.Name)
				}
				w.Release(i)
			}
		})
	}
	during(func(n uint32) {
		changed, v := w.Changed(), w.View()
		for i := range v.Upstreams {
			v.Eligible(i, n, Need{Traces: true}, time.Now())
			v.Lagging(i, n, n)
		}
		v.Ranges(Trace, n)
		if v.Online() == len(v.Upstreams)+1 {
			t.Error("more are online than there are")
		}
		if w.View().Generation > v.Generation && !closed(changed) {
			// The channel is closed a moment after the view is there.
			<-changed
		}
		w.HeadAge()
	})
	lists := [][]*config.Server{servers("a", "b", "c"), servers("b", "c"), servers("c", "a", "d"), servers("b", "e"), nil}
	for _, list := range lists {
		for _, s := range list {
			if s.Name == "a" {
				s.MaxSessions = 3
			}
		}
	}
	before := w.View()
	for n := range 40 {
		w.put(func(c *config.Listener) {
			c.Servers = lists[n%len(lists)]
			if c.Quarantine = nil; n%3 > 0 {
				c.Quarantine = &config.Quarantine{Strikes: 1, Window: time.Hour, TTL: time.Millisecond, Range: 5}
			}
		})
		v := w.View()
		if v.Generation <= before.Generation || len(v.Upstreams) < len(before.Upstreams) {
			t.Fatalf("generation %d with %d upstreams after %d with %d", v.Generation, len(v.Upstreams), before.Generation, len(before.Upstreams))
		}
		for i := range before.Upstreams {
			if v.Upstreams[i].Live != before.Upstreams[i].Live || v.Upstreams[i].Server.Endpoint != before.Upstreams[i].Server.Endpoint {
				t.Fatalf("upstream %d has become another", i)
			}
			if v.Upstreams[i].Removed && v.Upstreams[i].Online {
				t.Fatalf("upstream %d is online and removed", i)
			}
		}
		before = v
	}
	close(done)
	all.Wait()
	if got := w.places(); got != "-a -b -c -d -e" {
		t.Errorf("the upstreams are %q", got)
	}
	for i := range w.View().Upstreams {
		if got := w.up(i).Live.Links(); got != 0 {
			t.Errorf("%d slots of upstream %d are taken", got, i)
		}
	}
}
