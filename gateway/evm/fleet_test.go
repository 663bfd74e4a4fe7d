package evm

import (
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"flotilla/gateway/config"
)

// Whatever a node still tells after it has left the fleet, it stays out of the
// pool.
func TestNodeThatLeftStaysOut(t *testing.T) {
	server := func(name string) *config.EVMServer {
		return &config.EVMServer{Name: name, Endpoint: "http://" + name + ":8545", Enabled: true, Weight: 1}
	}
	before := &config.EVM{Name: "test", Servers: []*config.EVMServer{server("a"), server("b")}}
	f, err := newFleet(before, &net.Dialer{}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	leaving, now := f.nodes[0], time.Now()
	for _, n := range slices.Clone(f.nodes) {
		f.reported(n, 100, "0x1", time.Millisecond, 100, now)
	}
	if pool := f.view.Load().Pool; len(pool) != 2 {
		t.Fatalf("%d nodes are in the pool", len(pool))
	}
	after := &config.EVM{Name: "test", Servers: before.Servers[1:]}
	nodes, err := f.makeNodes(after)
	if err != nil {
		t.Fatal(err)
	}
	f.update(after, nodes)
	for name, late := range map[string]func(){
		"a height":        func() { f.reported(leaving, 101, "0x2", time.Millisecond, 100, now) },
		"a failure":       func() { f.failed(leaving, net.ErrClosed, now) },
		"a failed call":   func() { f.broke(leaving, net.ErrClosed) },
		"an announcement": func() { f.heard(leaving, 102, "0x3", now) },
		"what it is":      func() { f.identified(leaving, "Geth/v1") },
	} {
		late()
		if v := f.view.Load(); len(v.Pool) != 1 || v.Pool[0].Server.Name != "b" || v.Tip != 100 {
			t.Errorf("after %s the pool has %d nodes, and the tip is %d", name, len(v.Pool), v.Tip)
		}
	}
}
