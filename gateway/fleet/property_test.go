package fleet

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"

	"pgregory.net/rapid"
)

// model is what a fleet has to know, kept in the simplest way.
type model struct {
	*world
	rt    *rapid.T
	nodes []modelNode // by index, for ever
	head  uint32      // of the tip
	floor uint32      // the highest LIB told
	last  *View
	copy  View // what last was when it was published
}

type modelNode struct {
	endpoint                         string
	live                             *Live
	removed, online, stale, disabled bool
	head, lib                        uint32 // told since it came online or was set back
	polled                           uint32 // head that was told when it last reported
}

var pool = []string{"a", "b", "c", "d", "e"}

// index draws one of the upstreams; ok is false while there is none.
func (m *model) index() (i int, ok bool) {
	if len(m.nodes) == 0 {
		return 0, false
	}
	return rapid.IntRange(0, len(m.nodes)-1).Draw(m.rt, "upstream"), true
}

func (m *model) pair() (head, lib uint32) {
	head = rapid.Uint32Range(1, 40).Draw(m.rt, "head")
	return head, rapid.Uint32Range(0, 45).Draw(m.rt, "lib")
}

// update puts a part of the pool in force, in any order, with other numbers.
func (m *model) update() {
	names := rapid.Permutation(pool).Draw(m.rt, "order")[:rapid.IntRange(0, len(pool)).Draw(m.rt, "servers")]
	list := servers(names...)
	for _, s := range list {
		s.Enabled = rapid.IntRange(0, 5).Draw(m.rt, "enabled") > 0
		s.MaxSessions = rapid.IntRange(0, 3).Draw(m.rt, "max_sessions")
	}
	m.put(func(c *config.Listener) {
		c.Servers = list
		c.LiveLagBlocks = rapid.Uint32Range(0, 3).Draw(m.rt, "lag")
		if c.Quarantine = nil; rapid.Bool().Draw(m.rt, "quarantine") {
			c.Quarantine = policy()
		}
	})
	used := map[string]bool{}
	for _, s := range list {
		used[s.Endpoint] = s.Enabled
	}
	for i := range m.nodes {
		n := &m.nodes[i]
		switch on := used[n.endpoint]; {
		case on && n.removed:
			*n = modelNode{endpoint: n.endpoint, live: n.live}
		case !on && !n.removed:
			*n = modelNode{endpoint: n.endpoint, live: n.live, removed: true}
		}
		delete(used, n.endpoint)
	}
	for _, s := range list {
		if used[s.Endpoint] {
			m.nodes = append(m.nodes, modelNode{endpoint: s.Endpoint})
		}
	}
}

func (m *model) status() {
	i, ok := m.index()
	if !ok {
		return
	}
	head, lib := m.pair()
	if rapid.IntRange(0, 9).Draw(m.rt, "empty") == 0 {
		head = 0
	}
	s := status(head, lib)
	m.says(i, s)
	n := &m.nodes[i]
	if head == 0 || n.removed {
		return
	}
	if !n.online || head < n.polled {
		n.head, n.lib = 0, 0
	}
	n.online = true
	n.head, n.lib = max(n.head, head), max(n.lib, min(lib, head))
	n.polled = n.head
}

func (m *model) observe() {
	i, ok := m.index()
	if !ok {
		return
	}
	head, lib := m.pair()
	m.streams(i, pos(head), pos(lib))
	n := &m.nodes[i]
	n.head, n.lib = max(n.head, head), max(n.lib, min(lib, head))
}

func (m *model) goOffline() {
	i, ok := m.index()
	if !ok {
		return
	}
	m.MarkOffline(i, "test")
	m.nodes[i].online = false
}

func (m *model) disable() {
	i, ok := m.index()
	if !ok {
		return
	}
	on := rapid.Bool().Draw(m.rt, "disabled")
	m.SetDisabled(i, on)
	m.nodes[i].disabled = on
}

func (m *model) turnStale() {
	i, ok := m.index()
	if !ok || m.nodes[i].removed {
		return
	}
	on := rapid.Bool().Draw(m.rt, "stale")
	m.world.stale(i, on)
	m.nodes[i].stale = on
}

func (m *model) strike() {
	if i, ok := m.index(); ok {
		m.Strike(i, rapid.Uint32Range(1, 3).Draw(m.rt, "block"))
	}
}

func (m *model) interval() { m.do(func(o *owner) { o.dirty = true }) }

// anchor is M10.
func (m *model) anchor(i int) bool {
	could := func(n modelNode) bool { return n.online && !n.disabled && !n.removed }
	n := m.nodes[i]
	return could(n) && (!n.stale || !slices.ContainsFunc(m.nodes, func(n modelNode) bool { return could(n) && !n.stale }))
}

// check compares the fleet with the model, after every step.
func (m *model) check(rt *rapid.T) {
	v := m.View()
	if v != m.last {
		if v.Generation <= m.last.Generation {
			rt.Fatalf("generation %d after %d", v.Generation, m.last.Generation)
		}
		if !reflect.DeepEqual(m.last.Upstreams, m.copy.Upstreams) {
			rt.Fatalf("a view was changed after it was published")
		}
		m.last, m.copy = v, snapshot(v)
	}
	if len(v.Upstreams) != len(m.nodes) {
		rt.Fatalf("%d upstreams, %d were due", len(v.Upstreams), len(m.nodes))
	}
	head, lib := uint32(0), uint32(0)
	for i := range v.Upstreams {
		u, n := &v.Upstreams[i], &m.nodes[i]
		if n.live == nil {
			n.live = u.Live
		}
		if u.Live != n.live || u.Server.Endpoint != n.endpoint {
			rt.Fatalf("upstream %d is %s, with its counters: %v; %s was due", i, u.Server.Endpoint, u.Live == n.live, n.endpoint)
		}
		got := modelNode{removed: u.Removed, online: u.Online, stale: u.Stale, disabled: u.Disabled}
		if want := (modelNode{removed: n.removed, online: n.online, stale: n.stale, disabled: n.disabled}); got != want {
			rt.Fatalf("upstream %d is %+v, %+v was due", i, got, want)
		}
		if u.Removed && (u.Online || u.Known || u.Routable() || len(u.Quarantines) > 0 || u.ChainID != nil) {
			rt.Fatalf("a removed upstream is %+v", u)
		}
		if u.Online && (!u.Known || u.Head.Num == 0) {
			rt.Fatalf("an online upstream is %+v", u)
		}
		if m.Config().Quarantine == nil && len(u.Quarantines) > 0 {
			rt.Fatalf("quarantines are off, and there is %+v", u.Quarantines)
		}
		if v.anchored(i) != m.anchor(i) {
			rt.Fatalf("upstream %d is an anchor: %v", i, v.anchored(i))
		}
		if m.anchor(i) {
			head, lib = max(head, n.head), max(lib, n.lib)
		}
	}
	if head > 0 {
		m.head, m.floor = head, max(m.floor, lib)
	}
	m.checkTip(rt)
}

// checkTip: the head is that of the anchors now, and LIB the highest that there
// ever was, unless the head is below it.
func (m *model) checkTip(rt *rapid.T) {
	h, l, known := m.Tip()
	if h.Num != m.head || known != (h.Num > 0 && l.Num > 0) {
		rt.Fatalf("the head is %d (known: %v), %d was due", h.Num, known, m.head)
	}
	if want := min(m.floor, m.head); l.Num != want {
		rt.Fatalf("LIB is %d with head %d, %d was due", l.Num, h.Num, want)
	}
	if s := m.View().Ranges(Trace, h.Num); len(s) > 1 || len(s) == 1 && s[0].End != h.Num+1 {
		rt.Fatalf("segments of a pool at %d: %v", h.Num, s)
	}
}

// snapshot is a deep copy of what a view may not change.
func snapshot(v *View) View {
	c := *v
	c.Upstreams = slices.Clone(v.Upstreams)
	for i := range c.Upstreams {
		c.Upstreams[i].Quarantines = slices.Clone(v.Upstreams[i].Quarantines)
		if id := v.Upstreams[i].ChainID; id != nil {
			c.Upstreams[i].ChainID = &ship.ID{}
			*c.Upstreams[i].ChainID = *id
		}
	}
	return c
}

// TestViewInvariants drives a fleet with random reloads, statuses, results and
// losses, and compares it with the model after each of them.
func TestViewInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		first := pool[:rapid.IntRange(0, 3).Draw(rt, "first")]
		w := silent(t, func(c *config.Listener) { c.Quarantine = policy() }, first...)
		defer w.stop()
		m := &model{world: w, rt: rt, last: w.View(), copy: snapshot(w.View())}
		for _, name := range first {
			m.nodes = append(m.nodes, modelNode{endpoint: fmt.Sprintf("%s:8080", name)})
		}
		step := func(f func()) func(*rapid.T) {
			return func(rt *rapid.T) { m.rt = rt; f() }
		}
		rt.Repeat(map[string]func(*rapid.T){
			"update": step(m.update), "status": step(m.status), "status again": step(m.status), "observe": step(m.observe),
			"offline": step(m.goOffline), "disable": step(m.disable), "stale": step(m.turnStale), "strike": step(m.strike),
			"view": step(m.interval), "": m.check,
		})
	})
}

// TestQuarantineInvariants: however failures come, no quarantine is longer than
// its time, none overlaps itself, and what is remembered stays in the window.
func TestQuarantineInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := &config.Quarantine{
			Strikes: rapid.Uint32Range(1, 4).Draw(rt, "strikes"), Range: rapid.Uint32Range(1, 1<<32-1).Draw(rt, "range"),
			Window: time.Duration(rapid.IntRange(1, 20).Draw(rt, "window")) * time.Second,
			TTL:    time.Duration(rapid.IntRange(1, 20).Draw(rt, "ttl")) * time.Second,
		}
		marks, now := newStrikes(), time.Unix(1_700_000_000, 0)
		block := rapid.OneOf(rapid.Uint32Range(0, 5), rapid.Uint32Range(1<<32-3, 1<<32-1))
		for range rapid.IntRange(1, 60).Draw(rt, "failures") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(rt, "pause")) * time.Second)
			n := block.Draw(rt, "block")
			u := Upstream{Quarantines: slices.Clone(marks.active)}
			held := u.Quarantined(n, now)
			began := marks.add(q, n, now)
			u.Quarantines = marks.active
			if held && began || !held && began != u.Quarantined(n, now) {
				rt.Fatalf("block %d was quarantined: %v, one began: %v, it is: %v", n, held, began, u.Quarantined(n, now))
			}
			for _, a := range marks.active {
				if a.Until.Sub(now) > q.TTL {
					rt.Fatalf("quarantined for %v", a.Until.Sub(now))
				}
			}
			for b, times := range marks.at {
				if uint32(len(times)) >= q.Strikes || len(times) == 0 {
					rt.Fatalf("%d failures of block %d are remembered", len(times), b)
				}
			}
			if rapid.Bool().Draw(rt, "expire") {
				before := len(marks.active)
				if marks.expire(now) != (len(marks.active) != before) {
					rt.Fatal("expire does not tell what it did")
				}
				if slices.ContainsFunc(marks.active, func(a Quarantine) bool { return !now.Before(a.Until) }) {
					rt.Fatal("a quarantine that is over was kept")
				}
			}
		}
	})
}
