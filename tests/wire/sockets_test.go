package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// patience bounds every wait for something that has to happen on real sockets.
const patience = time.Minute

// socketWorld is two nodes on loopback, each behind a proxy that can be
// poisoned, and a gateway that prefers the first.
type socketWorld struct {
	t       *testing.T
	chain   *simulator.Chain
	nodes   [2]*simulator.Node
	proxies [2]*toxiproxy.Proxy
	address string
}

// attributes are the settings of a toxic.
type attributes map[string]int

func newSocketWorld(t *testing.T) *socketWorld {
	t.Helper()
	w := &socketWorld{t: t, chain: simulator.NewChain(simulator.ChainOptions{Head: 300, Sizes: simulator.Sizes{Block: 100, Traces: 1500, Deltas: 500}})}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	cfg := scene.Listener()
	cfg.Address, cfg.HoldWait, cfg.LivenessTimeout = "127.0.0.1:0", time.Minute, time.Second
	for i := range w.nodes {
		n, err := simulator.Start(w.chain, simulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Close)
		p := toxiproxy.NewProxy(server, n.Addr(), "127.0.0.1:0", n.Addr())
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		w.nodes[i], w.proxies[i] = n, p
		s := scene.Server(p.Listen)
		s.Priority = uint32(i)
		cfg.Servers = append(cfg.Servers, s)
	}
	w.run(cfg)
	return w
}

func (w *socketWorld) run(cfg *config.Listener) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	up, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- gateway.Run(ctx, &config.Config{Listeners: []*config.Listener{cfg}, ShutdownGrace: 5 * time.Second}, gateway.Options{
			Logger: slog.New(slog.NewTextHandler(scene.LogOutput(), nil)),
			Ready:  func(a map[string]net.Addr) { up <- a[cfg.Name].String() },
		})
	}()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the gateway ended with: %v", err)
		}
	})
	select {
	case w.address = <-up:
	case err := <-done:
		done <- nil
		w.t.Fatalf("the gateway does not start: %v", err)
	}
}

// poison adds a toxic to what comes from a node.
func (w *socketWorld) poison(node int, kind string, a attributes) {
	w.t.Helper()
	text, err := json.Marshal(map[string]any{"type": kind, "stream": "downstream", "attributes": a})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.proxies[node].Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
		w.t.Fatal(err)
	}
}

// stream asks for all blocks that there will be.
func (w *socketWorld) stream() *simulator.Client {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	c, err := simulator.Dial(ctx, "ws://"+w.address+"/", simulator.ClientOptions{AckEvery: 1, CheckPayload: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	if err := c.Ask(scene.Everything(2, 1<<31, 20)); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// reaches waits until the client has block n, and judges what it got.
func (w *socketWorld) reaches(c *simulator.Client, n uint32) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := c.Wait(ctx, func(r simulator.Report) bool { return r.Last.Num >= n }); err != nil {
		w.t.Fatalf("the client has not got block %d but %d: %v", n, c.Report().Last.Num, err)
	}
	if r := c.Report(); r.Err() != nil || r.Blocks != uint64(n-1) {
		w.t.Errorf("%d blocks came, %d were due; %v", r.Blocks, n-1, r.Err())
	}
}

// TestToxicSockets puts real sockets between the gateway and its nodes that are
// slow, narrow or cut into pieces: the stream is whole all the same.
func TestToxicSockets(t *testing.T) {
	for name, a := range map[string]attributes{
		"latency":   {"latency": 20, "jitter": 15},
		"bandwidth": {"rate": 500},
		"slicer":    {"average_size": 30, "size_variation": 29, "delay": 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSocketWorld(t)
			w.poison(0, name, a)
			w.poison(1, name, a)
			c := w.stream()
			w.reaches(c, 300)
			w.chain.Advance(10)
			w.reaches(c, 310)
		})
	}
}

// TestStreamLeavesABrokenSocket breaks the link of the node that serves, in
// the middle of a stream.
func TestStreamLeavesABrokenSocket(t *testing.T) {
	for _, kind := range []string{"reset_peer", "timeout"} {
		t.Run(kind, func(t *testing.T) {
			w := newSocketWorld(t)
			c := w.stream()
			w.reaches(c, 300)
			w.poison(0, kind, attributes{"timeout": 0})
			w.chain.Advance(50)
			w.reaches(c, 350)
			if _, streaming := w.nodes[1].Links(); streaming == 0 {
				t.Error("no link streams from the second node")
			}
		})
	}
}
