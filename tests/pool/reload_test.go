package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// startReloadable is Start with a way to exchange the configuration.
func (w *world) startReloadable(cfg *config.Config) (put func(*config.Config), stop func()) {
	w.T.Helper()
	reloads := make(chan gateway.Reload)
	stop = w.Run(cfg, reloads)
	return func(cfg *config.Config) {
		reloads <- gateway.Reload{Config: cfg, Why: "the test"}
		synctest.Wait()
	}, stop
}

// with is a copy of a listener's configuration with some servers only.
func with(cfg *config.Listener, servers ...*config.Server) *config.Listener {
	c := *cfg
	c.Servers = servers
	return &c
}

func whole(listeners ...*config.Listener) *config.Config {
	return &config.Config{Listeners: listeners, ShutdownGrace: 5 * time.Second}
}

// TestReloadThatRemovesTheServingNode takes the node away from a hundred
// sessions that stream from it: they move, lose nothing, and none is closed.
func TestReloadThatRemovesTheServingNode(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 500, Sizes: simulator.Sizes{Traces: 200}}, func(t *testing.T, w *world) {
		a := w.Node(simulator.Options{}, priority(0))
		b := w.Node(simulator.Options{}, priority(1))
		put, stop := w.startReloadable(whole(w.Config))
		defer stop()
		var clients []*simulator.Client
		for range 100 {
			c := w.Dial(simulator.ClientOptions{AckEvery: 1})
			w.Ask(c, scene.Everything(2, 1000, 5))
			clients = append(clients, c)
		}
		for _, c := range clients {
			w.Reaches(c, 500)
		}
		put(whole(with(w.Config, w.Config.Servers[1])))
		w.Chain.Advance(50)
		for _, c := range clients {
			r := w.Reaches(c, 550)
			w.Clean(c)
			if r.LongestSilence > 2*time.Second {
				t.Errorf("a client got nothing for %v", r.LongestSilence)
			}
		}
		if open, _ := a.Links(); open != 0 {
			t.Errorf("%d links to the removed node are open", open)
		}
		if open, _ := b.Links(); open != 101 {
			t.Errorf("%d links to the other node are open, 100 and the monitor's were due", open)
		}
	})
}

// TestReloadDoesNotTouchTheOthers changes everything that does not concern a
// session: it keeps its link.
func TestReloadDoesNotTouchTheOthers(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		a := w.Node(simulator.Options{}, priority(0))
		w.Node(simulator.Options{}, priority(1))
		put, stop := w.startReloadable(whole(with(w.Config, w.Config.Servers[0])))
		defer stop()
		c := w.Dial(simulator.ClientOptions{AckEvery: 1})
		w.Ask(c, scene.Everything(2, 1000, 5))
		w.Reaches(c, 100)
		before := a.Counters().Links
		changed := with(w.Config, w.Config.Servers...)
		changed.StallTimeout, changed.MaxConnections, changed.LiveLagBlocks = 5*time.Second, 5, 3
		put(whole(changed))
		w.Chain.Advance(20)
		w.Reaches(c, 120)
		w.Clean(c)
		if after := a.Counters().Links; after != before {
			t.Errorf("%d links to the node came up with the reload", after-before)
		}
	})
}

// TestReloadOfPorts moves listeners to other ports: also to each other's, and
// to another address with the same port number.
func TestReloadOfPorts(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		w.Node(simulator.Options{}, nil)
		one, two := with(w.Config, w.Config.Servers...), with(w.Config, w.Config.Servers...)
		one.Name, one.Address = "one", "gateway:1"
		two.Name, two.Address = "two", "gateway:2"
		put, stop := w.startReloadable(whole(one, two))
		defer stop()
		first := w.dialAt("gateway:1")
		w.Ask(first, scene.Everything(2, 1000, 5))
		swapped1, swapped2 := *one, *two
		swapped1.Address, swapped2.Address = "gateway:2", "gateway:1"
		put(whole(&swapped1, &swapped2))
		w.dialAt("gateway:1")
		w.dialAt("gateway:2")
		moved := swapped1
		moved.Address = "gateway:3"
		put(whole(&moved))
		w.dialAt("gateway:3")
		for _, gone := range []string{"gateway:1", "gateway:2"} {
			if conn, err := w.net.DialContext(w.Ctx, "tcp", gone); err == nil {
				conn.Close()
				t.Errorf("%s is still open", gone)
			}
		}
		// The session of listener one has come along through all of it.
		w.Chain.Advance(5)
		w.Reaches(first, 105)
		w.Clean(first)
	})
}

func (w *world) dialAt(address string) *simulator.Client {
	w.T.Helper()
	return w.DialAt(address, simulator.ClientOptions{AckEvery: 1})
}

// TestReloadThatCannotBeAppliedChangesNothing asks for a port that is taken.
func TestReloadThatCannotBeAppliedChangesNothing(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		w.Node(simulator.Options{}, nil)
		w.Node(simulator.Options{}, nil)
		put, stop := w.startReloadable(whole(with(w.Config, w.Config.Servers[0])))
		defer stop()
		taken, err := w.net.Listen("gateway:5")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		c := w.Dial(simulator.ClientOptions{AckEvery: 1})
		w.Ask(c, scene.Everything(2, 1000, 5))
		other := with(w.Config, w.Config.Servers[1])
		other.Name, other.Address = "other", "gateway:5"
		put(whole(with(w.Config, w.Config.Servers[1]), other))
		w.Chain.Advance(5)
		w.Reaches(c, 105)
		w.Clean(c)
		if open, _ := w.Nodes[1].Links(); open != 0 {
			t.Errorf("%d links to a node of the configuration that was refused", open)
		}
	})
}

// TestListenerThatIsRemovedClosesItsClients.
func TestListenerThatIsRemovedClosesItsClients(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		w.Node(simulator.Options{}, nil)
		second := with(w.Config, w.Config.Servers...)
		second.Name, second.Address = "second", "gateway:2"
		put, stop := w.startReloadable(whole(w.Config, second))
		defer stop()
		stays, goes := w.Dial(simulator.ClientOptions{AckEvery: 1}), w.dialAt("gateway:2")
		put(whole(w.Config))
		<-goes.Done()
		if end, _ := goes.End(); end.Code != 1001 {
			t.Errorf("closed with %d %q", end.Code, end.Reason)
		}
		w.Ask(stays, scene.Everything(2, 1000, 5))
		w.Reaches(stays, 100)
	})
}
