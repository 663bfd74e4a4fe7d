package evm

import (
	"math/rand/v2"
	"slices"

	"flotilla/gateway/evm/jsonrpc"
)

// want is what a node must have to be asked.
type want struct {
	// height is a block that the node must have reached.
	height uint64
	// lowest is the first block of which it must have the history; bounded is
	// false when that does not matter. State is true for the state at it.
	lowest         uint64
	bounded, state bool
}

// plan is what a call wants, where told is the head that clients have been told
// and tip the highest one that is known. A block that nobody has yet is asked
// of the freshest node, which knows what to say.
func plan(n jsonrpc.Need, told, tip uint64) want {
	w := want{lowest: n.Lowest, bounded: n.Named, state: n.State}
	if n.Head {
		w.height = told
	}
	if n.Named && n.Highest <= max(told, tip) {
		w.height = max(w.height, n.Highest)
	} else if n.Named {
		w.height = max(w.height, told)
	}
	return w
}

// and is what has to be wanted of a node for both.
func (w want) and(o want) want {
	both := want{height: max(w.height, o.height), lowest: w.lowest, bounded: w.bounded || o.bounded, state: w.state || o.state}
	if o.bounded && (!w.bounded || o.lowest < w.lowest) {
		both.lowest = o.lowest
	}
	return both
}

// reached reports whether the node has the head that is wanted.
func (n *Node) reached(w want) bool { return n.head.Load() >= w.height }

// reaches reports whether the node's history goes down to what is wanted.
func (n *Node) reaches(w want) bool {
	if !w.bounded {
		return true
	}
	first := n.blocksFrom.Load()
	if w.state {
		first = max(first, n.statesFrom.Load())
	}
	return w.lowest >= first
}

// Policy chooses among nodes that could answer a call equally well; there is at
// least one. It gets a random number, and must not keep the list.
type Policy func(equals []*NodeView, weights []uint32, random uint64) *NodeView

// leastLoaded takes two nodes at random, by weight, and chooses the one with
// fewer calls in flight per weight. Its cost does not grow with the fleet.
func leastLoaded(equals []*NodeView, weights []uint32, random uint64) *NodeView {
	a := equals[drawn(weights, uint32(random))]
	b := equals[drawn(weights, uint32(random>>32))]
	if a.inFlight.Load()*int64(b.Server.Weight) <= b.inFlight.Load()*int64(a.Server.Weight) {
		return a
	}
	return b
}

// drawn is an index by weight; weights are sums from the first one on.
func drawn(weights []uint32, random uint32) int {
	total := weights[len(weights)-1]
	at := uint32(uint64(random) * uint64(total) >> 32)
	i, found := slices.BinarySearch(weights, at)
	if found {
		// The sum itself belongs to the next one.
		i++
	}
	return i
}

// choose is the node to ask, nil when none is fit that has not been tried. The
// freshest come first; among those the policy decides.
func choose(v *View, w want, tried []*Node, policy Policy) *NodeView {
	if v.Front > 0 && v.Pool[0].reached(w) {
		n := policy(v.Pool[:v.Front], v.weights, rand.Uint64())
		if n.reached(w) && n.reaches(w) && !slices.Contains(tried, n.Node) {
			return n
		}
	}
	for _, n := range v.Pool {
		if n.reached(w) && n.reaches(w) && !slices.Contains(tried, n.Node) {
			return n
		}
	}
	return nil
}
