package fleet

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"

	"github.com/gorilla/websocket"
)

func TestMonitorLearnsANode(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.node("a", simulator.Options{})
		w := l.watch(listener(server("a")))
		want := n.Status()
		u := w.up(0)
		if !u.Online || !u.Known || !u.StatusV1 || u.Stale {
			t.Errorf("the node is %+v", u)
		}
		if u.Head != want.Head || u.LIB != want.LIB || u.Trace != want.Trace || u.ChainState != want.ChainState || u.Finality != want.Finality {
			t.Errorf("known of the node: %+v, it says %+v", u, want)
		}
		if u.ChainID == nil || *u.ChainID != l.chain.ID() || w.View().ChainID == nil || *w.View().ChainID != l.chain.ID() {
			t.Errorf("the chain ids are %v and %v", u.ChainID, w.View().ChainID)
		}
		if u.ABI == nil || string(u.ABI.Text) != string(n.ABI()) {
			t.Errorf("the ABI is %v", u.ABI)
		}
		if !closed(w.Settled()) || w.View().Online() != 1 {
			t.Errorf("settled: %v, online: %d", closed(w.Settled()), w.View().Online())
		}
		l.chain.Advance(7)
		after(w.Config().Status)
		if got := w.up(0).Head.Num; got != 107 {
			t.Errorf("the head is %d after a poll", got)
		}
		w.tipIs(107, 95)
	})
}

// TestMonitorPace measures when requests come: Status after the last was sent,
// whatever the answer takes, and never two at a time.
func TestMonitorPace(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		late time.Duration
		want []time.Duration
	}{
		"at once":                      {0, []time.Duration{0, 2000 * ms, 4000 * ms, 6000 * ms}},
		"slow":                         {1900 * ms, []time.Duration{0, 2000 * ms, 4000 * ms, 6000 * ms}},
		"late, so the next is put off": {3000 * ms, []time.Duration{0, 3000 * ms, 6000 * ms}},
		"just not too late":            {3999 * ms, []time.Duration{0, 3999 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				n := l.plays("a", func(_ int, c *script) {
					c.greets(springABI)
					c.answers(tt.late)
				})
				w := l.watch(listener(server("a")))
				after(7 * time.Second)
				w.online("a")
				var got []time.Duration
				for _, p := range n.asked() {
					got = append(got, p.at)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("requests came at %v, %v was due", got, tt.want)
				}
				if n.linksSoFar() != 1 {
					t.Errorf("%d connections", n.linksSoFar())
				}
			})
		})
	}
}

// TestMonitorForgivesOneLateReply, but not one that is late by a second period:
// the node is offline then, and asked again on another connection.
func TestMonitorForgivesOneLateReply(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.node("a", simulator.Options{})
		w := l.watch(listener(server("a")))
		n.Mute(true)
		// The request that is not answered is sent two seconds on.
		after(2*time.Second + 1999*time.Millisecond)
		if w.up(0).Late {
			t.Error("late before its time")
		}
		changed := w.Changed()
		after(time.Millisecond)
		if !w.up(0).Late || !closed(changed) {
			t.Error("that the reply is late shows in no view")
		}
		after(1999 * time.Millisecond)
		w.online("a")
		n.Mute(false)
		after(0)
		if w.online("a"); w.up(0).Late {
			t.Error("late after the reply")
		}
		if got := n.Counters(); got.StatusRequests != 3 || got.Links != 1 {
			t.Fatalf("the late reply was followed by: %+v", got)
		}

		n.Mute(true)
		after(2*time.Second + 3999*time.Millisecond)
		w.online("a")
		after(time.Millisecond)
		w.online()
		if u := w.up(0); u.Late || !u.Known || u.Head.Num != 100 || u.Trace.Empty() || u.ABI == nil || u.ChainID != nil {
			t.Errorf("known of a node that is offline: %+v", u)
		}
		n.Mute(false)
		after(999 * time.Millisecond)
		if got := n.Counters().Links; got != 1 {
			t.Errorf("%d connections before the pause was over", got)
		}
		after(time.Millisecond)
		w.online("a")
		if got := n.Counters().Links; got != 2 {
			t.Errorf("%d connections", got)
		}
		if w.up(0).ChainID == nil {
			t.Error("the chain id is not known again")
		}
	})
}

// TestMonitorWithoutABI: no ABI, or a bad one, is a connection that came up, so
// the pause does not grow.
func TestMonitorWithoutABI(t *testing.T) {
	for name, tt := range map[string]struct {
		play func(c *script)
		// gap is between two connects.
		gap time.Duration
	}{
		"no text first":  {func(c *script) { c.sends(websocket.BinaryMessage, []byte(springABI)); c.hears() }, time.Second},
		"no JSON":        {func(c *script) { c.greets("hello"); c.hears() }, time.Second},
		"a NUL":          {func(c *script) { c.greets(springABI + "\x00"); c.hears() }, time.Second},
		"other version":  {func(c *script) { c.greets(`{"version":"eosio::abi/9.0"}`); c.hears() }, time.Second},
		"a Close":        {func(c *script) { c.sends(websocket.CloseMessage, nil); c.hears() }, time.Second},
		"the end":        {func(*script) {}, time.Second},
		"nothing at all": {func(c *script) { c.hears() }, 11 * time.Second},
		"pings for ever": {func(c *script) {
			for c.pause(time.Second) {
				if c.WriteMessage(websocket.PingMessage, nil) != nil {
					return
				}
			}
		}, 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				l.plays("a", func(_ int, c *script) { tt.play(c) })
				w := l.watch(listener(server("a")))
				after(10 * time.Second)
				if !closed(w.Settled()) {
					t.Error("that the node has failed does not count as an answer")
				}
				after(45 * time.Second)
				w.online()
				if got, want := l.dials.gaps(), slices.Repeat([]time.Duration{tt.gap}, int(55*time.Second/tt.gap)); !slices.Equal(got, want) {
					t.Errorf("pauses of %v, %v was due", got, want)
				}
				if u := w.up(0); u.ABI != nil || u.Known {
					t.Errorf("known of the node: %+v", u)
				}
			})
		})
	}
}

// TestMonitorEnds: whatever ends a connection takes the node offline at once,
// and the next one comes after the plain pause.
func TestMonitorEnds(t *testing.T) {
	for name, end := range map[string]func(c *script){
		"a Close frame":      func(c *script) { c.sends(websocket.CloseMessage, websocket.FormatCloseMessage(1001, "bye")); c.hears() },
		"the end of stream":  func(*script) {},
		"no WebSocket frame": func(c *script) { _, _ = c.NetConn().Write([]byte{0xff, 0xff, 0xff}); c.hears() },
		"too large":          func(c *script) { c.sends(websocket.BinaryMessage, make([]byte, 1<<20+1)); c.hears() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				l.plays("a", func(n int, c *script) {
					c.greets(springABI)
					if n > 1 {
						c.answers(0)
						return
					}
					c.asked()
					c.reports(status(100, 90))
					if c.pause(500 * time.Millisecond) {
						end(c)
					}
				})
				w := l.watch(listener(server("a")))
				w.online("a")
				after(500 * time.Millisecond)
				w.online()
				if u := w.up(0); u.Head.Num != 100 || u.ABI == nil || u.ChainID != nil {
					t.Errorf("known of the node: %+v", u)
				}
				w.tipIs(100, 90)
				after(time.Second - time.Millisecond)
				w.online()
				after(time.Millisecond)
				w.online("a")
			})
		})
	}
}

// TestMonitorIgnores what is no readable status: it neither changes anything
// nor counts as the reply (M4).
func TestMonitorIgnores(t *testing.T) {
	v1, v0 := status(500, 490), status(500, 490)
	v0.V1 = false
	whole1, whole0 := ship.AppendStatus(nil, &v1), ship.AppendStatus(nil, &v0)
	for name, tt := range map[string]struct {
		kind    int
		message []byte
	}{
		"half a chain id":       {websocket.BinaryMessage, whole0[:100]},
		"a v1 without its end":  {websocket.BinaryMessage, whole1[:128]},
		"a v0 without its end":  {websocket.BinaryMessage, whole0[:88]},
		"an empty message":      {websocket.BinaryMessage, nil},
		"another variant":       {websocket.BinaryMessage, append([]byte{7}, whole1[1:]...)},
		"a block result":        {websocket.BinaryMessage, append([]byte{1}, whole1[1:]...)},
		"a status in a text":    {websocket.TextMessage, []byte("\x00status")},
		"a pong nobody awaited": {websocket.PongMessage, []byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				l.plays("a", func(n int, c *script) {
					c.greets(springABI)
					c.asked()
					c.sends(tt.kind, tt.message)
					if n == 1 {
						c.reports(status(100, 90))
					}
					c.asked()
					c.sends(tt.kind, tt.message)
					c.hears()
				})
				w := l.watch(listener(server("a")))
				w.online("a")
				if got := w.up(0).Head.Num; got != 100 {
					t.Errorf("the head is %d", got)
				}
				before := w.View().Generation
				// The second request, at two seconds, is overdue after two more.
				after(4*time.Second - time.Millisecond)
				if got := w.View().Generation; got != before {
					t.Errorf("%d views were made of nothing", got-before)
				}
				after(time.Millisecond)
				if w.online("a"); !w.up(0).Late {
					t.Error("it counts as a reply")
				}
				after(2 * time.Second)
				w.online()
			})
		})
	}
}

// TestMonitorHeadZero is a reply that changes nothing (M4).
func TestMonitorHeadZero(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		heads := []uint32{0, 0, 0, 100, 0, 0, 0, 101}
		n := l.plays("a", func(_ int, c *script) {
			c.greets(springABI)
			for _, h := range heads {
				if _, ok := c.asked(); !ok {
					return
				}
				c.reports(status(h, min(h, 90)))
			}
			c.hears()
		})
		w := l.watch(listener(server("a")))
		after(5 * time.Second)
		w.online()
		if u := w.up(0); u.Known || u.StatusV1 {
			t.Errorf("known of a node that has no block: %+v", u)
		}
		if !closed(w.Settled()) {
			t.Error("a node without a block has answered, too")
		}
		after(time.Second)
		w.online("a")
		before := w.View()
		after(7 * time.Second)
		if w.View() != before {
			t.Error("a status with head 0 changed the view")
		}
		after(time.Second)
		if got := w.up(0).Head.Num; got != 101 || n.linksSoFar() != 1 {
			t.Errorf("the head is %d, after %d connections", got, n.linksSoFar())
		}
	})
}

// TestMonitorHeadZeroIsNotLate: a node that has nothing to tell has answered.
func TestMonitorHeadZeroIsNotLate(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.plays("a", func(_ int, c *script) {
			c.greets(springABI)
			c.asked()
			c.reports(status(100, 90))
			c.asked()
			if c.pause(3 * time.Second) {
				c.reports(status(0, 0))
			}
			c.hears()
		})
		w := l.watch(listener(server("a")))
		after(4 * time.Second)
		if !w.up(0).Late {
			t.Error("the second reply is not late")
		}
		after(time.Second)
		if u := w.up(0); u.Late || !u.Online || u.Head.Num != 100 {
			t.Errorf("known of the node: %+v", u)
		}
	})
}

// TestMonitorVersions is M2: what is asked for on each connection. A node is
// held to be older only for as long as its ABI is the same.
func TestMonitorVersions(t *testing.T) {
	silent := func(c *script) { c.asked() }
	mute := func(c *script) { c.hears() }
	answers := func(c *script) { c.answers(0) }
	once := func(c *script) {
		c.asked()
		c.reports(status(100, 90))
		c.pause(100 * time.Millisecond)
	}
	v0 := func(c *script) {
		for range 2 {
			c.asked()
			s := status(100, 90)
			s.V1 = false
			c.reports(s)
		}
		c.pause(100 * time.Millisecond)
	}
	type link struct {
		abi  string
		play func(*script)
	}
	for name, tt := range map[string]struct {
		links []link
		want  string // what was asked for: a version, with | between connections
		v1    bool   // whether the node is known to answer v1 in the end
	}{
		"Spring":                             {[]link{{springABI, answers}}, "1111", true},
		"an ABI without v1":                  {[]link{{oldABI, answers}}, "0000", false},
		"an ABI that tells nothing":          {[]link{{bareABI, answers}}, "1111", true},
		"a v0 reply":                         {[]link{{bareABI, v0}, {bareABI, answers}}, "10|1111", true},
		"two silent connections":             {[]link{{bareABI, silent}, {bareABI, silent}, {bareABI, answers}}, "1|1|0000", false},
		"two connections that time out":      {[]link{{bareABI, mute}, {bareABI, mute}, {bareABI, answers}}, "1|1|0000", false},
		"one silent connection":              {[]link{{bareABI, silent}, {bareABI, answers}}, "1|1111", true},
		"silent twice, but not in a row":     {[]link{{bareABI, silent}, {bareABI, once}, {bareABI, silent}, {bareABI, answers}}, "1|1|1|1111", true},
		"an upgrade after silence":           {[]link{{bareABI, silent}, {bareABI, silent}, {bareABI, once}, {springABI, answers}}, "1|1|0|1111", true},
		"an upgrade of an ABI without v1":    {[]link{{oldABI, once}, {springABI, answers}}, "0|1111", true},
		"a downgrade":                        {[]link{{springABI, once}, {oldABI, answers}}, "1|0000", false},
		"silence under an ABI that lists v1": {[]link{{springABI, silent}, {springABI, silent}, {springABI, answers}}, "1|1|0000", false},
		"a bad ABI does not count":           {[]link{{"x", mute}, {"x", mute}, {bareABI, answers}}, "1111", true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				n := l.plays("a", func(n int, c *script) {
					at := tt.links[min(n, len(tt.links))-1]
					c.greets(at.abi)
					at.play(c)
				})
				w := l.watch(listener(server("a")))
				// Until the last connection has asked four times.
				for range 60 {
					if asked := n.asked(); len(asked) > 3 && asked[len(asked)-4].link == asked[len(asked)-1].link {
						break
					}
					after(time.Second)
				}
				got, link := "", 0
				for _, p := range n.asked() {
					if link != 0 && p.link != link {
						got += "|"
					}
					link = p.link
					got += map[bool]string{true: "1", false: "0"}[p.v1]
				}
				if got != tt.want {
					t.Errorf("asked for %s, %s was due", got, tt.want)
				}
				if u := w.up(0); !u.Online || u.StatusV1 != tt.v1 {
					t.Errorf("online: %v, answers v1: %v", u.Online, u.StatusV1)
				}
			})
		})
	}
}

// TestMonitorOfAnOldNode: no finality log, and all else as usual.
func TestMonitorOfAnOldNode(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.node("a", simulator.Options{V0Only: true, NoChainID: true})
		w := l.watch(listener(server("a")))
		after(10 * time.Second)
		u := w.up(0)
		if !u.Online || u.StatusV1 || u.ChainID != nil || u.Finality != (ship.Range{}) || u.Trace.End != 101 {
			t.Errorf("known of the node: %+v", u)
		}
		if got := n.Counters(); got.Links != 1 || got.StatusRequests != 6 {
			t.Errorf("the node has seen %+v", got)
		}
	})
}

func TestMonitorAnswersPings(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		pongs := make(chan string, 1)
		l.plays("a", func(_ int, c *script) {
			c.SetPongHandler(func(data string) error { pongs <- data; return nil })
			c.greets(springABI)
			c.sends(websocket.PingMessage, []byte("are you there"))
			c.answers(0)
		})
		l.watch(listener(server("a")))
		select {
		case got := <-pongs:
			if got != "are you there" {
				t.Errorf("answered with %q", got)
			}
		default:
			t.Error("a ping was not answered")
		}
	})
}

// TestMonitorIsStoppedByRemoval wherever it is: its connection is closed, and
// nothing is dialed any more.
func TestMonitorIsStoppedByRemoval(t *testing.T) {
	for name, prepare := range map[string]func(n *simulator.Node){
		"connected":             func(*simulator.Node) {},
		"waiting for a reply":   func(n *simulator.Node) { n.Mute(true); after(3 * time.Second) },
		"pausing":               func(n *simulator.Node) { n.Kill(); after(10 * time.Second) },
		"in a handshake":        func(n *simulator.Node) { n.Hang(true); n.DropLinks(); after(3 * time.Second) },
		"waiting for a frozen":  func(n *simulator.Node) { n.Freeze(); after(3 * time.Second) },
		"between two of frozen": func(n *simulator.Node) { n.Freeze(); after(6500 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				n := l.node("a", simulator.Options{})
				l.node("b", simulator.Options{})
				w := l.watch(listener(servers("a", "b")...))
				prepare(n)
				w.Update(w.changed(func(c *config.Listener) { c.Servers = servers("b") }))
				synctest.Wait()
				n.Thaw()
				n.Hang(false)
				_ = n.Restart()
				before := l.dials.count()
				after(time.Minute)
				if open, _ := n.Links(); open != 0 {
					t.Errorf("%d connections to a server that was removed", open)
				}
				if got := l.dials.count() - before; got != 0 {
					t.Errorf("%d connects to a server that was removed", got)
				}
				w.online("b")
			})
		})
	}
}

// TestMonitorThatWasStoppedSaysNothing: what it had under way when its server
// was removed must not hit the monitor that came after it.
func TestMonitorThatWasStoppedSaysNothing(t *testing.T) {
	w := silent(t, nil, "a")
	old := &monitor{f: w.Fleet, live: w.up(0).Live}
	ctx, stop := context.WithCancel(t.Context())
	w.do(func(o *owner) { o.private[0].stop = stop })
	w.Update(w.changed(func(c *config.Listener) { c.Servers = nil }))
	w.Update(w.changed(func(c *config.Listener) { c.Servers = servers("a") }))
	w.tells(0, 100, 90)
	old.tell(ctx, func(o *owner) { o.offline(0) })
	w.online("a")
}
