//go:build nodeos

package nodeos

import (
	"bytes"
	"slices"
	"syscall"
	"testing"

	"flotilla/gateway/ship"
)

// start is a fleet of two relays with the gateway before them, all up. The
// gateway is started first, as it is when a whole machine boots.
func start(t *testing.T, configName string) (*Fleet, *Gateway) {
	t.Helper()
	f := NewFleet(t, 2)
	g := f.StartGateway(t, BuildGateway(t), configName)
	if g.Ready(t) {
		t.Error("the gateway says that it is ready while no relay is up")
	}
	for _, r := range f.Relays {
		r.Launch(t)
	}
	g.WaitUp(t, f.Relays...)
	for _, r := range f.Relays {
		r.WaitBlock(t, 4) // a node asked for a block far above its head begins below it
	}
	if !g.Ready(t) {
		t.Error("the gateway says that it is not ready while both relays are up")
	}
	return f, g
}

// lose takes away the node that serves the client and reads on until the
// gateway says that the client's session has gone over to another node.
func lose(t *testing.T, f *Fleet, g *Gateway, c *Client, take func(*Node)) *Node {
	t.Helper()
	before, victim := g.Failovers(t), g.Serving(t, f.Relays)
	take(victim)
	Eventually(t, startTimeout, "the session is not said to have lost "+victim.Name, func() bool {
		c.More(1)
		return g.Failovers(t) > before
	})
	return victim
}

// pastHead reads on beyond the blocks that are there now, and that may be on
// their way already.
func pastHead(t *testing.T, f *Fleet, c *Client) {
	t.Helper()
	info, err := f.Producer.Info()
	if err != nil {
		t.Fatal(err)
	}
	c.Until(info.Head + 2)
}

func kill(t *testing.T) func(*Node) { return func(n *Node) { n.Kill(t) } }

// sameAsProducer holds all that a client was sent against the one node that is
// never killed.
func sameAsProducer(t *testing.T, f *Fleet, c *Client) {
	t.Helper()
	f.CheckRepeats(t, c.Repeats)
	SameBlocks(t, c.Results, direct(t, f.Producer, c.req.Start, c.last.Num))
}

// comeBack starts a node that was killed and returns when it has caught up and
// the gateway knows it.
func comeBack(t *testing.T, f *Fleet, g *Gateway, n *Node) {
	t.Helper()
	n.Start(t)
	info, err := f.Producer.Info()
	if err != nil {
		t.Fatal(err)
	}
	n.WaitBlock(t, info.Head)
	g.WaitUp(t, n)
}

// A client at the head does not notice that the relay that serves it is
// killed, four times in a row.
func TestRelaysKilledAtTheHead(t *testing.T) {
	f, g := start(t, "config.json")
	f.StartWorkload(t)
	c := Dial(t, g.SHiP)
	c.Ask(Everything(3, NoEnd)) // the first blocks of a relay that was replayed are not the same
	for range 4 {
		pastHead(t, f, c)
		victim := lose(t, f, g, c, kill(t))
		pastHead(t, f, c)
		comeBack(t, f, g, victim)
	}
	pastHead(t, f, c)
	sameAsProducer(t, f, c)
	if large := slices.ContainsFunc(c.Results, func(r Result) bool { return len(r.Message) > 1<<20 }); !large {
		t.Error("no block was larger than 1 MiB")
	}
}

// A client that has not read for a while, so that large blocks fill everything
// between it and the relay, loses the relay in the middle of one.
func TestRelayKilledWhileCatchingUp(t *testing.T) {
	f, g := start(t, "config.json")
	f.StartWorkload(t)
	f.Producer.WaitBlock(t, 44)
	for _, r := range f.Relays {
		r.WaitBlock(t, 44)
	}
	c := Dial(t, g.SHiP)
	q := Everything(3, NoEnd)
	q.MaxInFlight = 1000
	c.Ask(q)
	c.More(1)
	for range 2 {
		victim := lose(t, f, g, c, kill(t))
		c.More(10)
		comeBack(t, f, g, victim)
	}
	pastHead(t, f, c)
	sameAsProducer(t, f, c)
}

// A relay that hangs keeps its connections, so only its silence tells.
func TestRelayHangs(t *testing.T) {
	f, g := start(t, "flotilla.hcl")
	c := Dial(t, g.SHiP)
	c.Ask(Everything(2, NoEnd))
	c.Until(10)
	victim := lose(t, f, g, c, func(n *Node) { n.Signal(t, syscall.SIGSTOP) })
	pastHead(t, f, c)
	victim.Signal(t, syscall.SIGCONT)
	g.WaitUp(t, victim)
	pastHead(t, f, c)
	sameAsProducer(t, f, c)
}

// The only relay that is left when another one is killed is some blocks behind
// what the client has. The client gets none of them again.
func TestRelayTakesOverFromBehind(t *testing.T) {
	f, g := start(t, "config.json")
	c := Dial(t, g.SHiP)
	c.Ask(Everything(2, NoEnd))
	c.Until(10)
	for range 3 {
		behind := f.Relays[0]
		if g.Serving(t, f.Relays) == behind {
			behind = f.Relays[1]
		}
		behind.Signal(t, syscall.SIGSTOP)
		pastHead(t, f, c)
		c.More(3)
		victim := lose(t, f, g, c, func(n *Node) {
			n.Kill(t)
			behind.Signal(t, syscall.SIGCONT)
		})
		pastHead(t, f, c)
		comeBack(t, f, g, victim)
	}
	sameAsProducer(t, f, c)
}

// What a client is told and sent while nothing is wrong is what a relay alone
// would tell and send.
func TestHealthyFleet(t *testing.T) {
	f, g := start(t, "flotilla.hcl")
	f.Producer.WaitBlock(t, 12)
	for _, r := range f.Relays {
		r.WaitBlock(t, 12)
	}
	relay := f.Relays[0]

	t.Run("ABI", func(t *testing.T) {
		if !bytes.Equal(Dial(t, g.SHiP).ABI, Dial(t, relay.SHiP).ABI) {
			t.Error("the ABI is not the relay's")
		}
	})
	t.Run("status", func(t *testing.T) {
		node, client := Dial(t, relay.SHiP), Dial(t, g.SHiP)
		before := node.Status()
		var got ship.Status
		Eventually(t, silence, "the head of the fleet is not told", func() bool {
			got = client.Status()
			return got.Head.Num >= before.Head.Num
		})
		var after ship.Status
		Eventually(t, silence, "the gateway's head is above the relay's", func() bool {
			after = node.Status()
			return after.Head.Num >= got.Head.Num
		})
		want := ship.Status{
			Head: got.Head, LIB: got.LIB, // they move, see below
			Trace:      ship.Range{Begin: before.Trace.Begin, End: got.Head.Num + 1},
			ChainState: ship.Range{Begin: before.ChainState.Begin, End: got.Head.Num + 1},
			HasChainID: true, ChainID: before.ChainID,
		}
		if got != want {
			t.Errorf("status %+v, want %+v", got, want)
		}
		if got.LIB.Num < before.LIB.Num || got.LIB.Num > after.LIB.Num {
			t.Errorf("LIB %d, but the relay's was %d before and %d after", got.LIB.Num, before.LIB.Num, after.LIB.Num)
		}
	})
	t.Run("range", func(t *testing.T) {
		c := Dial(t, g.SHiP)
		for _, q := range []ship.BlocksRequest{
			Everything(1, 9),
			Everything(5, 8),
			{Start: 2, End: 10, MaxInFlight: 1},
			{Start: 3, End: 10, MaxInFlight: 3, FetchTraces: true},
			{Start: 1, End: 10, MaxInFlight: 1000, FetchDeltas: true},
		} {
			c.Ask(q)
			c.Until(q.End - 1)
			node := Dial(t, relay.SHiP)
			node.Ask(q)
			node.Until(q.End - 1)
			SameBlocks(t, c.Results, node.Results)
		}
	})
	t.Run("irreversible only", func(t *testing.T) {
		info, err := f.Producer.Info()
		if err != nil {
			t.Fatal(err)
		}
		q := Everything(2, NoEnd)
		q.Irreversible = true
		c := Dial(t, g.SHiP)
		c.Ask(q)
		c.Until(info.Head + 4) // past what was there when it asked
		SameBlocks(t, c.Results, direct(t, relay, 2, info.Head+4))
	})
	t.Run("reconnect", func(t *testing.T) {
		c := Dial(t, g.SHiP)
		c.Ask(Everything(2, NoEnd))
		c.Until(10)
		got := c.Results
		for range 3 {
			c.Close()
			// A node takes a start above the block after its head back to that block, so
			// none may be behind what the client has.
			for _, r := range f.Relays {
				r.WaitBlock(t, got[len(got)-1].This.Num)
			}
			q := Everything(got[len(got)-1].This.Num+1, NoEnd)
			for _, r := range got[len(got)-3:] {
				q.Have = append(q.Have, r.This)
			}
			c = Dial(t, g.SHiP)
			c.Ask(q)
			c.Until(q.Start + 3)
			got = append(got, c.Results...)
			f.CheckRepeats(t, c.Repeats)
		}
		SameBlocks(t, got, direct(t, relay, 2, c.last.Num))
	})
}
