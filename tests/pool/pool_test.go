// Package pool tests the whole product in front of pools of simulated nodes.
//
// Most tests run in a bubble of fake time and memory (testing/synctest): what
// takes the gateway seconds takes the test no time, and no load on the machine
// can make it fail. Those on real sockets are in sockets_test.go.
package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a scene on the simulator's network.
type world struct {
	*scene.World
	net *simulator.Network
}

func inBubble(t *testing.T, chain simulator.ChainOptions, test func(t *testing.T, w *world)) {
	t.Helper()
	w := &world{}
	network := func() gateway.Network {
		w.net = simulator.NewNetwork()
		return w.net
	}
	scene.InBubble(t, chain, network, func(t *testing.T, inner *scene.World) {
		w.World = inner
		test(t, w)
	})
}

func priority(p uint32) func(*config.Server) {
	return func(s *config.Server) { s.Priority = p }
}

func TestStreamGoesOnWhenItsNodeDies(t *testing.T) {
	for name, break_ := range map[string]func(*simulator.Node){
		"killed":         (*simulator.Node).Kill,
		"links dropped":  (*simulator.Node).DropLinks,
		"closed cleanly": (*simulator.Node).CloseCleanly,
		"frozen":         (*simulator.Node).Freeze,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
				a := w.Node(simulator.Options{}, priority(0))
				w.Node(simulator.Options{}, priority(1))
				defer w.Start()()
				c := w.Dial(simulator.ClientOptions{AckEvery: 1, CheckPayload: true})
				w.Ask(c, scene.Everything(2, 500, 5))
				w.Reaches(c, 100)
				break_(a)
				w.Chain.Advance(20)
				r := w.Reaches(c, 120)
				w.Clean(c)
				if limit := w.Config.LivenessTimeout + time.Second; r.LongestSilence > limit {
					t.Errorf("the client got nothing for %v, at most %v was due", r.LongestSilence, limit)
				}
				a.Thaw()
				c.Close()
			})
		})
	}
}

func TestEveryNodeDownForAMomentHoldsTheClient(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 50}, func(t *testing.T, w *world) {
		a := w.Node(simulator.Options{}, nil)
		w.Config.HoldWait = 30 * time.Second
		defer w.Start()()
		c := w.Dial(simulator.ClientOptions{AckEvery: 1})
		w.Ask(c, scene.Everything(2, 500, 5))
		w.Reaches(c, 50)
		a.Kill()
		// Not a multiple of any pause, so that the return is seen by itself.
		time.Sleep(20*time.Second + 123*time.Millisecond)
		if err := a.Restart(); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		w.Chain.Advance(10)
		w.Reaches(c, 60)
		w.Clean(c)
		// The next try comes within 3.2 s and a fifth, or when the monitor sees
		// the node, whatever is first.
		if took := time.Since(back); took > 4*time.Second {
			t.Errorf("the client waited for %v after the node was back", took)
		}
		c.Close()
	})
}

func TestNoHoldClosesAsFleetRouterDoes(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 50}, func(t *testing.T, w *world) {
		a := w.Node(simulator.Options{}, nil)
		defer w.Start()()
		c := w.Dial(simulator.ClientOptions{AckEvery: 1})
		w.Ask(c, scene.Everything(2, 500, 5))
		w.Reaches(c, 50)
		a.Kill()
		<-c.Done()
		if end, _ := c.End(); end.Code != 1011 || end.Reason != "no upstream available" {
			t.Errorf("closed with %d %q", end.Code, end.Reason)
		}
	})
}

func TestForkOverAFailover(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100, LIBLag: 20}, func(t *testing.T, w *world) {
		a := w.Node(simulator.Options{}, priority(0))
		w.Node(simulator.Options{}, priority(1))
		defer w.Start()()
		c := w.Dial(simulator.ClientOptions{AckEvery: 1})
		w.Ask(c, scene.Everything(60, 500, 10))
		w.Reaches(c, 100)
		// The node that serves stays on the branch that loses, and dies there.
		a.Pin(true)
		if err := w.Chain.Fork(92, 105); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		a.Kill()
		r := w.Reaches(c, 105)
		w.Clean(c)
		if r.Forks != 1 {
			t.Errorf("%d forks were seen, one was due", r.Forks)
		}
		c.Close()
	})
}

func TestShutdownTellsTheClients(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 50}, func(t *testing.T, w *world) {
		w.Node(simulator.Options{}, nil)
		stop := w.Start()
		c := w.Dial(simulator.ClientOptions{AckEvery: 1})
		w.Ask(c, scene.Everything(2, 500, 5))
		w.Reaches(c, 50)
		began := time.Now()
		stop()
		<-c.Done()
		if end, _ := c.End(); end.Code != 1001 || end.Reason != "server shutting down" {
			t.Errorf("closed with %d %q", end.Code, end.Reason)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the shutdown took %v", took)
		}
	})
}

func TestClientThatDoesNotReadCostsNoNodeAnything(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 2000, Sizes: simulator.Sizes{Traces: 64 << 10}}, func(t *testing.T, w *world) {
		// This node stops for everybody when one of its clients does not read.
		a := w.Node(simulator.Options{OneQueue: true}, nil)
		w.Config.ClientBuffer, w.Config.SlowClientTimeout = 1<<20, 30*time.Second
		defer w.Start()()
		stuck, err := w.net.DialContext(w.Ctx, "tcp", scene.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer stuck.Close()
		upgradeAndAsk(t, stuck, scene.Everything(2, 2000, 2000))
		neighbour := w.Dial(simulator.ClientOptions{AckEvery: 1})
		w.Ask(neighbour, scene.Everything(2, 200, 5))
		if r := w.Reaches(neighbour, 199); r.LongestSilence > time.Second {
			t.Errorf("the neighbour got nothing for %v", r.LongestSilence)
		}
		if open, streaming := a.Links(); streaming > 1 {
			t.Logf("links: %d open, %d streaming", open, streaming)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if open, _ := a.Links(); open > 2 {
			t.Errorf("%d links are open; the monitor's and the neighbour's were due", open)
		}
		neighbour.Close()
	})
}
