//go:build nodeos

package nodeos

import (
	"testing"

	"flotilla/gateway/ship"
)

// What the other tests take for granted: that the strict client is content
// with a node alone, and that the nodes of a fleet send the same bytes, also
// one that was killed and has rebuilt its state.
func TestNodesAgree(t *testing.T) {
	f := NewFleet(t, 1)
	relay := f.Relays[0]
	relay.Start(t)
	w := f.StartWorkload(t)
	f.Producer.WaitBlock(t, 12)

	c := Dial(t, relay.SHiP)
	c.Ask(Everything(2, NoEnd))
	c.Until(14)
	SameBlocks(t, c.Results, direct(t, f.Producer, 2, 14))

	f.CheckRepeats(t, c.Repeats)

	relay.Kill(t)
	relay.Start(t)
	relay.WaitBlock(t, 18)
	// A node that was replayed has the first state in its block 2, the others in block 1.
	SameBlocks(t, direct(t, relay, 3, 18), direct(t, f.Producer, 3, 18))
	if w.Pushed() == 0 {
		t.Error("the blocks were empty")
	}
}

// direct is what one node serves for the blocks first to last.
func direct(t testing.TB, n *Node, first, last uint32) []Result {
	t.Helper()
	return directly(t, n, Everything(first, last+1))
}

// directly is what one node serves for a request that ends. A node that is
// catching a client up tells its head; when it applies several blocks meanwhile,
// it tells of each of them in turn as the head, so its head may go back.
func directly(t testing.TB, n *Node, q ship.BlocksRequest) []Result {
	t.Helper()
	c := Dial(t, n.SHiP)
	defer c.Close()
	c.falls = true
	c.Ask(q)
	c.Until(q.End - 1)
	return c.Results
}
