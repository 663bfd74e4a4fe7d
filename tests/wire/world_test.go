package wire

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
)

// world is a chain, its nodes and a gateway in front of them, in a bubble, with
// bad cables between them.
type world struct {
	t     *testing.T
	ctx   context.Context
	net   *Network
	chain *simulator.Chain
	nodes []*simulator.Node
	cfg   *config.Listener
	admin *config.Admin
}

const gatewayAddress = "gateway:17000"

// inBubble runs test with an empty world, and then waits for all of it to end.
func inBubble(t *testing.T, seed uint64, chain simulator.ChainOptions, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		test(t, &world{t: t, ctx: ctx, net: New(seed), chain: simulator.NewChain(chain), cfg: listenerConfig()})
	})
}

// listenerConfig has the defaults of a fleet-router file.
func listenerConfig() *config.Listener {
	return &config.Listener{
		Name: "test", Address: gatewayAddress, Topology: config.TopologyPool,
		MaxConnections: 10000, HandshakeTimeout: 10 * time.Second, LivenessTimeout: 4 * time.Second, StallTimeout: time.Minute,
		LiveLagBlocks: 1200, MaxMessage: 256 << 20, MaxClientMessage: 64 << 10,
		Reconnect: time.Second, Monitoring: 5 * time.Second, Status: time.Second,
		ClientBuffer: 16 << 20, SlowClientTimeout: time.Minute,
	}
}

func serverConfig(address string) *config.Server {
	return &config.Server{Name: address, Endpoint: address, URL: "ws://" + address + "/", Enabled: true, Role: config.Live, Weight: 1}
}

// node starts a node and lists it in the configuration.
func (w *world) node(o simulator.Options) (*simulator.Node, *config.Server) {
	w.t.Helper()
	o.Address, o.Listen = fmt.Sprintf("node-%d:8080", len(w.nodes)), w.net.Listen
	n, err := simulator.Start(w.chain, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(n.Close)
	w.nodes = append(w.nodes, n)
	w.cfg.Servers = append(w.cfg.Servers, serverConfig(o.Address))
	return n, w.cfg.Servers[len(w.cfg.Servers)-1]
}

// start runs the gateway until the returned function is called, which waits
// for its end.
func (w *world) start() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	up := make(chan struct{})
	go func() {
		cfg := &config.Config{Listeners: []*config.Listener{w.cfg}, Admin: w.admin, ShutdownGrace: 5 * time.Second}
		done <- gateway.Run(ctx, cfg, gateway.Options{
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

// reaches waits until the client has block n.
func (w *world) reaches(c *simulator.Client, n uint32) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Minute)
	defer cancel()
	if err := c.Wait(ctx, func(r simulator.Report) bool { return r.Last.Num >= n }); err != nil {
		w.t.Fatalf("the client has not got block %d but %d: %v", n, c.Report().Last.Num, err)
	}
}
