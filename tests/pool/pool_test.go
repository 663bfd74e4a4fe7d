// Package pool tests the whole product in front of pools of simulated nodes.
//
// Most tests run in a bubble of fake time and memory (testing/synctest): what
// takes the gateway seconds takes the test no time, and no load on the machine
// can make it fail. Those on real sockets are in sockets_test.go.
package pool

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a chain, its nodes and a gateway in front of them, in a bubble.
type world struct {
	t     *testing.T
	ctx   context.Context
	net   *simulator.Network
	chain *simulator.Chain
	nodes []*simulator.Node
	cfg   *config.Listener
}

// gatewayAddress is where the gateway listens in the memory network.
const gatewayAddress = "gateway:17000"

// inBubble runs test with an empty world, and then waits for all of it to end.
func inBubble(t *testing.T, chain simulator.ChainOptions, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{t: t, ctx: ctx, net: simulator.NewNetwork(), chain: simulator.NewChain(chain)}
		w.cfg = listener()
		test(t, w)
		cancel()
	})
}

// listener is a configuration with the defaults of a fleet-router file.
func listener() *config.Listener {
	return &config.Listener{
		Name: "test", Address: gatewayAddress, Topology: config.TopologyPool,
		MaxConnections: 10000, HandshakeTimeout: 10 * time.Second, LivenessTimeout: 4 * time.Second, StallTimeout: time.Minute,
		LiveLagBlocks: 1200, MaxMessage: 256 << 20, MaxClientMessage: 64 << 10,
		Reconnect: time.Second, Monitoring: 5 * time.Second, Status: time.Second,
		ClientBuffer: 16 << 20, SlowClientTimeout: time.Minute,
	}
}

// node starts a node and lists it in the configuration; change may be nil.
func (w *world) node(o simulator.Options, change func(*config.Server)) *simulator.Node {
	w.t.Helper()
	o.Address, o.Listen = fmt.Sprintf("node-%d:8080", len(w.nodes)), w.net.Listen
	n, err := simulator.Start(w.chain, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(n.Close)
	w.nodes = append(w.nodes, n)
	s := &config.Server{Name: o.Address, Endpoint: o.Address, URL: "ws://" + o.Address + "/", Enabled: true, Role: config.Live, Weight: 1}
	if change != nil {
		change(s)
	}
	w.cfg.Servers = append(w.cfg.Servers, s)
	return n
}

func priority(p uint32) func(*config.Server) {
	return func(s *config.Server) { s.Priority = p }
}

// start runs the gateway until the returned function is called, which waits
// for its end.
func (w *world) start() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	up := make(chan struct{})
	go func() {
		done <- gateway.Run(ctx, &config.Config{Listeners: []*config.Listener{w.cfg}, ShutdownGrace: 5 * time.Second}, gateway.Options{
			Logger: slog.New(slog.NewTextHandler(logOutput(), nil)), Network: w.net,
			Ready: func(map[string]net.Addr) { close(up) },
		})
	}()
	<-up
	// The monitors have had their first answers when nothing moves any more.
	synctest.Wait()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the gateway ended with: %v", err)
		}
	}
}

// logOutput shows what the gateway logs with -v.
func logOutput() io.Writer {
	if testing.Verbose() {
		return os.Stderr
	}
	return io.Discard
}

func (w *world) dial(o simulator.ClientOptions) *simulator.Client {
	w.t.Helper()
	o.Dial = w.net.DialContext
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	c, err := simulator.Dial(ctx, "ws://"+gatewayAddress+"/", o)
	if err != nil {
		w.t.Fatalf("dial the gateway: %v", err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// everything asks for all parts of the blocks from start on.
func everything(start, end, credit uint32) ship.BlocksRequest {
	return ship.BlocksRequest{V1: true, Start: start, End: end, MaxInFlight: credit, FetchBlock: true, FetchTraces: true, FetchDeltas: true}
}

func (w *world) ask(c *simulator.Client, q ship.BlocksRequest) {
	w.t.Helper()
	if err := c.Ask(q); err != nil {
		w.t.Fatal(err)
	}
}

// reaches waits until the client has block n, in fake time.
func (w *world) reaches(c *simulator.Client, n uint32) simulator.Report {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Minute)
	defer cancel()
	if err := c.Wait(ctx, func(r simulator.Report) bool { return r.Last.Num >= n }); err != nil {
		end, ended := c.End()
		w.t.Fatalf("the client has not got block %d but %d: %v (ended %v: %v)", n, c.Report().Last.Num, err, ended, end)
	}
	return c.Report()
}

// clean fails the test for anything that a correct endpoint does not send.
func (w *world) clean(c *simulator.Client) {
	w.t.Helper()
	if err := c.Report().Err(); err != nil {
		w.t.Error(err)
	}
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
				a := w.node(simulator.Options{}, priority(0))
				w.node(simulator.Options{}, priority(1))
				defer w.start()()
				c := w.dial(simulator.ClientOptions{AckEvery: 1, CheckPayload: true})
				w.ask(c, everything(2, 500, 5))
				w.reaches(c, 100)
				break_(a)
				w.chain.Advance(20)
				r := w.reaches(c, 120)
				w.clean(c)
				if limit := w.cfg.LivenessTimeout + time.Second; r.LongestSilence > limit {
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
		a := w.node(simulator.Options{}, nil)
		w.cfg.HoldWait = 30 * time.Second
		defer w.start()()
		c := w.dial(simulator.ClientOptions{AckEvery: 1})
		w.ask(c, everything(2, 500, 5))
		w.reaches(c, 50)
		a.Kill()
		// Not a multiple of any pause, so that the return is seen by itself.
		time.Sleep(20*time.Second + 123*time.Millisecond)
		if err := a.Restart(); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		w.chain.Advance(10)
		w.reaches(c, 60)
		w.clean(c)
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
		a := w.node(simulator.Options{}, nil)
		defer w.start()()
		c := w.dial(simulator.ClientOptions{AckEvery: 1})
		w.ask(c, everything(2, 500, 5))
		w.reaches(c, 50)
		a.Kill()
		<-c.Done()
		if end, _ := c.End(); end.Code != 1011 || end.Reason != "no upstream available" {
			t.Errorf("closed with %d %q", end.Code, end.Reason)
		}
	})
}

func TestForkOverAFailover(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100, LIBLag: 20}, func(t *testing.T, w *world) {
		a := w.node(simulator.Options{}, priority(0))
		w.node(simulator.Options{}, priority(1))
		defer w.start()()
		c := w.dial(simulator.ClientOptions{AckEvery: 1})
		w.ask(c, everything(60, 500, 10))
		w.reaches(c, 100)
		// The node that serves stays on the branch that loses, and dies there.
		a.Pin(true)
		if err := w.chain.Fork(92, 105); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		a.Kill()
		r := w.reaches(c, 105)
		w.clean(c)
		if r.Forks != 1 {
			t.Errorf("%d forks were seen, one was due", r.Forks)
		}
		c.Close()
	})
}

func TestShutdownTellsTheClients(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 50}, func(t *testing.T, w *world) {
		w.node(simulator.Options{}, nil)
		stop := w.start()
		c := w.dial(simulator.ClientOptions{AckEvery: 1})
		w.ask(c, everything(2, 500, 5))
		w.reaches(c, 50)
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
		a := w.node(simulator.Options{OneQueue: true}, nil)
		w.cfg.ClientBuffer, w.cfg.SlowClientTimeout = 1<<20, 30*time.Second
		defer w.start()()
		stuck, err := w.net.DialContext(w.ctx, "tcp", gatewayAddress)
		if err != nil {
			t.Fatal(err)
		}
		defer stuck.Close()
		upgradeAndAsk(t, stuck, everything(2, 2000, 2000))
		neighbour := w.dial(simulator.ClientOptions{AckEvery: 1})
		w.ask(neighbour, everything(2, 200, 5))
		if r := w.reaches(neighbour, 199); r.LongestSilence > time.Second {
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
