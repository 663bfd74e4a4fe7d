package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

// replicas is how many archives have each archived range.
const replicas = 2

// simFleet are simulated nodes of one chain.
type simFleet struct {
	chain *simulator.Chain
	nodes []*simNode
	// ranges are the archived blocks, in order and without a hole; the live
	// nodes have what follows.
	ranges []ship.Range
}

// simNode is one node of a fleet.
type simNode struct {
	*simulator.Node
	name string
	// blocks are those of an archive, empty for a live node.
	blocks ship.Range
}

// startFleet starts live nodes and the archives of some ranges, or nothing.
// address is that of the node with a number; the live nodes come first.
func startFleet(chain *simulator.Chain, live int, ranges []ship.Range, address func(i int) string) (*simFleet, error) {
	f := &simFleet{chain: chain, ranges: ranges}
	add := func(name string, blocks ship.Range, o simulator.Options) error {
		o.Address = address(len(f.nodes))
		n, err := simulator.Start(chain, o)
		if err != nil {
			f.close()
			return err
		}
		f.nodes = append(f.nodes, &simNode{Node: n, name: name, blocks: blocks})
		return nil
	}
	var o simulator.Options
	if len(ranges) > 0 {
		o.Snapshot = ranges[len(ranges)-1].End - 1
	}
	for i := range live {
		if err := add(fmt.Sprintf("node-%d", i+1), ship.Range{}, o); err != nil {
			return nil, err
		}
	}
	for i, r := range ranges {
		for k := range replicas {
			if err := add(fmt.Sprintf("archive-%d%c", i+1, 'a'+k), r, simulator.Options{First: r.Begin, End: r.End}); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func (f *simFleet) close() {
	for _, n := range f.nodes {
		n.Close()
	}
}

// splitBlocks divides blocks into n ranges of about the same length.
func splitBlocks(blocks ship.Range, n int) (ranges []ship.Range) {
	for i := range n {
		at := func(i int) uint32 {
			return blocks.Begin + uint32(uint64(blocks.End-blocks.Begin)*uint64(i)/uint64(n))
		}
		ranges = append(ranges, ship.Range{Begin: at(i), End: at(i + 1)})
	}
	return ranges
}

// legs are the blocks that each kind of node serves to a client that reads on:
// each archived range, and what follows.
func (f *simFleet) legs() []ship.Range {
	last := ship.Range{Begin: 1, End: math.MaxUint32}
	if n := len(f.ranges); n > 0 {
		last.Begin = f.ranges[n-1].End
	}
	return append(slices.Clone(f.ranges), last)
}

// holders are the nodes of the leg that begins with this block.
func (f *simFleet) holders(begin uint32) (nodes []*simNode) {
	for _, n := range f.nodes {
		if n.blocks.Begin == begin || n.blocks.Empty() && begin == f.legs()[len(f.ranges)].Begin {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// text is a configuration for the fleet.
func (f *simFleet) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, `admin { address = "127.0.0.1:9090" }

listener "ship" "sim" {
  address            = "127.0.0.1:17000"
  chain_id           = "%s"
  upstream_reconnect = "200ms"
  upstream_status    = "1s"
`, f.chain.ID())
	for _, n := range f.nodes {
		if n.blocks.Empty() {
			fmt.Fprintf(&b, "\n  server %q {\n    endpoint = %q\n  }\n", n.name, n.Addr())
			continue
		}
		fmt.Fprintf(&b, `
  server %q {
    endpoint     = %q
    role         = "frozen"
    range        = { begin = %d, end = %d }
    max_sessions = 32
  }
`, n.name, n.Addr(), n.blocks.Begin, n.blocks.End)
	}
	b.WriteString("}\n")
	return b.String()
}

// forkDepth is how many blocks a fork replaces.
const forkDepth = 3

// forkEvery makes a fork each time until ctx ends; 0 is never.
func (f *simFleet) forkEvery(ctx context.Context, every time.Duration) {
	for every > 0 && pause(ctx, every) {
		lag := f.chain.Head().Num - f.chain.LIB().Num
		// An error means that the chain is too short for it, which passes.
		_, _ = f.chain.Reorg(min(forkDepth, lag))
	}
}

// kill kills one node after the other until ctx ends, and restarts each after
// some time, or when ctx ends. next waits until it is time for a turn and picks
// its node; it returns nil when ctx ends. tell gets each node that is killed,
// and that is back.
func (f *simFleet) kill(ctx context.Context, down time.Duration, next func(turn int) *simNode, tell func(n *simNode, killed bool)) error {
	for turn := 0; ; turn++ {
		n := next(turn)
		if n == nil {
			return nil
		}
		n.Kill()
		tell(n, true)
		pause(ctx, down)
		if err := n.Restart(); err != nil {
			return err
		}
		tell(n, false)
	}
}

// tale is what is told of a node.
func tale(n *simNode, killed bool) string {
	if killed {
		return n.name + " is killed"
	}
	return n.name + " is back"
}

// pause waits; it returns false as soon as ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
