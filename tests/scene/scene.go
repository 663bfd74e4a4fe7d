// Package scene sets a whole product up for a test: a simulated chain, its
// nodes, and a gateway in front of them, in a bubble of fake time and memory
// (testing/synctest). What takes the gateway seconds takes the test no time,
// and no load on the machine can make it fail.
package scene

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

// World is what a test plays in. All of it belongs to the test's bubble.
type World struct {
	T     *testing.T
	Ctx   context.Context
	Net   gateway.Network
	Chain *simulator.Chain
	Nodes []*simulator.Node
	// Config is the gateway's one listener; Admin its admin port, nil for none.
	Config *config.Listener
	Admin  *config.Admin
}

// Address is where the gateway listens.
const Address = "gateway:17000"

// InBubble runs test with an empty world, and then waits for all of it to end.
// network is called inside the bubble.
func InBubble(t *testing.T, chain simulator.ChainOptions, network func() gateway.Network, test func(t *testing.T, w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		test(t, &World{T: t, Ctx: ctx, Net: network(), Chain: simulator.NewChain(chain), Config: Listener()})
	})
}

// Listener is a configuration with the defaults of a fleet-router file.
func Listener() *config.Listener {
	return &config.Listener{
		Name: "test", Address: Address, Topology: config.TopologyPool,
		MaxConnections: 10000, HandshakeTimeout: 10 * time.Second, LivenessTimeout: 4 * time.Second, StallTimeout: time.Minute,
		LiveLagBlocks: 1200, MaxMessage: 256 << 20, MaxClientMessage: 64 << 10,
		Reconnect: time.Second, Monitoring: 5 * time.Second, Status: time.Second,
		ClientBuffer: 16 << 20, SlowClientTimeout: time.Minute,
	}
}

// Server is the entry of a node in the configuration.
func Server(address string) *config.Server {
	return &config.Server{Name: address, Endpoint: address, URL: "ws://" + address + "/", Enabled: true, Role: config.Live, Weight: 1}
}

// Node starts a node and lists it in the configuration; change may be nil.
func (w *World) Node(o simulator.Options, change func(*config.Server)) *simulator.Node {
	w.T.Helper()
	o.Address, o.Listen = fmt.Sprintf("node-%d:8080", len(w.Nodes)), w.Net.Listen
	n, err := simulator.Start(w.Chain, o)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(n.Close)
	w.Nodes = append(w.Nodes, n)
	s := Server(o.Address)
	if change != nil {
		change(s)
	}
	w.Config.Servers = append(w.Config.Servers, s)
	return n
}

// Start runs the gateway until the returned function is called, which waits
// for its end.
func (w *World) Start() (stop func()) {
	w.T.Helper()
	return w.Run(&config.Config{Listeners: []*config.Listener{w.Config}, Admin: w.Admin, ShutdownGrace: 5 * time.Second}, nil)
}

// Run is Start for a whole configuration, which reloads may exchange.
func (w *World) Run(cfg *config.Config, reloads <-chan gateway.Reload) (stop func()) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(w.Ctx)
	done, up := make(chan error, 1), make(chan struct{})
	go func() {
		done <- gateway.Run(ctx, cfg, gateway.Options{
			Logger: slog.New(slog.NewTextHandler(LogOutput(), nil)), Network: w.Net, Reload: reloads,
			Ready: func(map[string]net.Addr) { close(up) },
		})
	}()
	<-up
	// The monitors have had their first answers when nothing moves any more.
	synctest.Wait()
	return func() {
		w.T.Helper()
		cancel()
		if err := <-done; err != nil {
			w.T.Errorf("the gateway ended with: %v", err)
		}
	}
}

// LogOutput shows what the gateway logs with -v.
func LogOutput() io.Writer {
	if testing.Verbose() {
		return os.Stderr
	}
	return io.Discard
}

// Dial connects a client to the gateway.
func (w *World) Dial(o simulator.ClientOptions) *simulator.Client {
	w.T.Helper()
	return w.DialAt(Address, o)
}

// DialAt connects a client to one of several ports.
func (w *World) DialAt(address string, o simulator.ClientOptions) *simulator.Client {
	w.T.Helper()
	o.Dial = w.Net.DialContext
	ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
	defer cancel()
	c, err := simulator.Dial(ctx, "ws://"+address+"/", o)
	if err != nil {
		w.T.Fatalf("dial the gateway at %s: %v", address, err)
	}
	w.T.Cleanup(c.Close)
	return c
}

// Everything asks for all parts of the blocks from start on.
func Everything(start, end, credit uint32) ship.BlocksRequest {
	return ship.BlocksRequest{V1: true, Start: start, End: end, MaxInFlight: credit, FetchBlock: true, FetchTraces: true, FetchDeltas: true}
}

// Ask has the client make a request.
func (w *World) Ask(c *simulator.Client, q ship.BlocksRequest) {
	w.T.Helper()
	if err := c.Ask(q); err != nil {
		w.T.Fatal(err)
	}
}

// Reaches waits until the client has block n.
func (w *World) Reaches(c *simulator.Client, n uint32) simulator.Report {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.Ctx, 10*time.Minute)
	defer cancel()
	if err := c.Wait(ctx, func(r simulator.Report) bool { return r.Last.Num >= n }); err != nil {
		end, ended := c.End()
		w.T.Fatalf("the client has not got block %d but %d: %v (ended %v: %v)", n, c.Report().Last.Num, err, ended, end)
	}
	return c.Report()
}

// Clean fails the test for anything that a correct endpoint does not send.
func (w *World) Clean(c *simulator.Client) {
	w.T.Helper()
	if err := c.Report().Err(); err != nil {
		w.T.Error(err)
	}
}
