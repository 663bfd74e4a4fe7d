//go:build geth

package geth

import (
	"strings"
	"testing"
)

// ethers and viem read, subscribe and send while each node is killed in turn,
// and one is held back: no call fails, the head never goes back, every head and
// every log comes once, and every transaction gets into a block.
func TestLibraries(t *testing.T) {
	f := NewFleet(t, 3)
	g := f.StartGateway(t)
	clients := []*Client{StartClient(t, "ethers", g), StartClient(t, "viem", g)}
	all := func(kind string, more int) {
		t.Helper()
		for _, c := range clients {
			c.WaitMore(t, kind, more)
		}
	}
	all("head", 2)
	all("sent", 1)
	for _, n := range f.Nodes {
		n.Kill(t)
		g.WaitHealthy(t, n, false)
		all("head", 3)
		n.Start(t)
		g.WaitHealthy(t, n, true)
		// One may have waited in the pool of the node that was killed.
		all("sent", 1)
	}
	held := f.Nodes[1]
	held.Hold()
	g.WaitHealthy(t, held, false)
	all("head", 2)
	held.Release()
	g.WaitHealthy(t, held, true)
	all("sent", 1)

	head := f.Head()
	for _, c := range clients {
		Eventually(t, startTimeout, c.Library+" does not get to the head", func() bool {
			heads := c.Events("head")
			return heads[len(heads)-1].Number >= head
		})
		c.Stop(t)
		checkHeads(t, f, c)
		checkLogs(t, c)
	}
	if moves := g.Metric(t, "flotilla_evm_websocket_moves_total"); moves < float64(len(clients)) {
		t.Errorf("subscriptions moved %v times, though every node was killed", moves)
	}
	if got := g.Metric(t, "flotilla_evm_websockets_total"); got != float64(len(clients)) {
		t.Errorf("%d clients have opened %v WebSockets", len(clients), got)
	}
	if len(clients[1].Events("refilter")) == 0 {
		t.Error("no filter was lost, though every node was killed")
	}
}

// checkHeads looks at the heads that a client was told.
func checkHeads(t *testing.T, f *Fleet, c *Client) {
	t.Helper()
	heads := c.Events("head")
	for i, e := range heads {
		if want := heads[0].Number + uint64(i); e.Number != want {
			t.Fatalf("%s was told of head %d in the place of %d", c.Library, e.Number, want)
		}
		if e.Hash != "" && e.Hash != f.Hash(e.Number) {
			t.Errorf("%s was told that head %d is %s, not %s", c.Library, e.Number, e.Hash, f.Hash(e.Number))
		}
	}
	reads, last := c.Events("read"), uint64(0)
	for _, e := range reads {
		if e.Number < last {
			t.Errorf("%s read head %d after %d", c.Library, e.Number, last)
		}
		last = e.Number
	}
	t.Logf("%s: %d heads, %d reads, %d transactions, %d filters lost", c.Library, len(heads), len(reads), len(c.Events("sent")), len(c.Events("refilter")))
}

// checkLogs looks at the logs that a client was told of: those of its own
// transactions, and of the other client's.
func checkLogs(t *testing.T, c *Client) {
	t.Helper()
	seen := map[string]int{}
	for _, e := range c.Events("log") {
		seen[strings.ToLower(e.TX)]++
	}
	for tx, times := range seen {
		if times != 1 {
			t.Errorf("%s was told %d times of the log of %s", c.Library, times, tx)
		}
	}
	for _, e := range c.Events("sent") {
		if seen[strings.ToLower(e.TX)] != 1 {
			t.Errorf("%s was not told of the log of its transaction %s", c.Library, e.TX)
		}
	}
	if end := c.Events("end"); len(end) != 1 || end[0].Logs < uint64(len(seen)) {
		t.Errorf("%s ended with %v, and has been told of %d logs", c.Library, end, len(seen))
	}
}
