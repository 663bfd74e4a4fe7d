package pool

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
)

// startReloadable is start with a way to exchange the configuration.
func (w *world) startReloadable(cfg *config.Config) (put func(*config.Config), stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	done, up := make(chan error, 1), make(chan struct{})
	reloads := make(chan gateway.Reload)
	go func() {
		done <- gateway.Run(ctx, cfg, gateway.Options{
			Logger: slog.New(slog.NewTextHandler(logOutput(), nil)), Network: w.net, Reload: reloads,
			Ready: func(map[string]net.Addr) { close(up) },
		})
	}()
	<-up
	synctest.Wait()
	put = func(cfg *config.Config) {
		reloads <- gateway.Reload{Config: cfg, Why: "the test"}
		synctest.Wait()
	}
	return put, func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the gateway ended with: %v", err)
		}
	}
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
		a := w.node(simulator.Options{}, priority(0))
		b := w.node(simulator.Options{}, priority(1))
		put, stop := w.startReloadable(whole(w.cfg))
		defer stop()
		var clients []*simulator.Client
		for range 100 {
			c := w.dial(simulator.ClientOptions{AckEvery: 1})
			w.ask(c, everything(2, 1000, 5))
			clients = append(clients, c)
		}
		for _, c := range clients {
			w.reaches(c, 500)
		}
		put(whole(with(w.cfg, w.cfg.Servers[1])))
		w.chain.Advance(50)
		for _, c := range clients {
			r := w.reaches(c, 550)
			w.clean(c)
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
		a := w.node(simulator.Options{}, priority(0))
		w.node(simulator.Options{}, priority(1))
		put, stop := w.startReloadable(whole(with(w.cfg, w.cfg.Servers[0])))
		defer stop()
		c := w.dial(simulator.ClientOptions{AckEvery: 1})
		w.ask(c, everything(2, 1000, 5))
		w.reaches(c, 100)
		before := a.Counters().Links
		changed := with(w.cfg, w.cfg.Servers...)
		changed.StallTimeout, changed.MaxConnections, changed.LiveLagBlocks = 5*time.Second, 5, 3
		put(whole(changed))
		w.chain.Advance(20)
		w.reaches(c, 120)
		w.clean(c)
		if after := a.Counters().Links; after != before {
			t.Errorf("%d links to the node came up with the reload", after-before)
		}
	})
}

// TestReloadOfPorts moves listeners to other ports: also to each other's, and
// to another address with the same port number.
func TestReloadOfPorts(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		w.node(simulator.Options{}, nil)
		one, two := with(w.cfg, w.cfg.Servers...), with(w.cfg, w.cfg.Servers...)
		one.Name, one.Address = "one", "gateway:1"
		two.Name, two.Address = "two", "gateway:2"
		put, stop := w.startReloadable(whole(one, two))
		defer stop()
		first := w.dialAt("gateway:1")
		w.ask(first, everything(2, 1000, 5))
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
			if conn, err := w.net.DialContext(w.ctx, "tcp", gone); err == nil {
				conn.Close()
				t.Errorf("%s is still open", gone)
			}
		}
		// The session of listener one has come along through all of it.
		w.chain.Advance(5)
		w.reaches(first, 105)
		w.clean(first)
	})
}

func (w *world) dialAt(address string) *simulator.Client {
	w.t.Helper()
	c, err := simulator.Dial(w.ctx, "ws://"+address+"/", simulator.ClientOptions{Dial: w.net.DialContext, AckEvery: 1})
	if err != nil {
		w.t.Fatalf("dial %s: %v", address, err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// TestReloadThatCannotBeAppliedChangesNothing asks for a port that is taken.
func TestReloadThatCannotBeAppliedChangesNothing(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		w.node(simulator.Options{}, nil)
		w.node(simulator.Options{}, nil)
		put, stop := w.startReloadable(whole(with(w.cfg, w.cfg.Servers[0])))
		defer stop()
		taken, err := w.net.Listen("gateway:5")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		c := w.dial(simulator.ClientOptions{AckEvery: 1})
		w.ask(c, everything(2, 1000, 5))
		other := with(w.cfg, w.cfg.Servers[1])
		other.Name, other.Address = "other", "gateway:5"
		put(whole(with(w.cfg, w.cfg.Servers[1]), other))
		w.chain.Advance(5)
		w.reaches(c, 105)
		w.clean(c)
		if open, _ := w.nodes[1].Links(); open != 0 {
			t.Errorf("%d links to a node of the configuration that was refused", open)
		}
	})
}

// TestListenerThatIsRemovedClosesItsClients.
func TestListenerThatIsRemovedClosesItsClients(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		w.node(simulator.Options{}, nil)
		second := with(w.cfg, w.cfg.Servers...)
		second.Name, second.Address = "second", "gateway:2"
		put, stop := w.startReloadable(whole(w.cfg, second))
		defer stop()
		stays, goes := w.dial(simulator.ClientOptions{AckEvery: 1}), w.dialAt("gateway:2")
		put(whole(w.cfg))
		<-goes.Done()
		if end, _ := goes.End(); end.Code != 1001 {
			t.Errorf("closed with %d %q", end.Code, end.Reason)
		}
		w.ask(stays, everything(2, 1000, 5))
		w.reaches(stays, 100)
	})
}
