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
	if n.Latest() {
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

// leastLoaded takes two of the nodes in front at random, by weight, and chooses
// the one with fewer calls in flight per weight. Its cost does not grow with the
// fleet.
func leastLoaded(v *View, random uint64) *NodeView {
	a := v.Pool[drawn(v.weights, uint32(random))]
	b := v.Pool[drawn(v.weights, uint32(random>>32))]
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

// fits reports whether the node can be asked.
func (n *NodeView) fits(w want, tried []*Node) bool {
	return n.reached(w) && n.reaches(w) && !slices.Contains(tried, n.Node)
}

// firstFit is the freshest node that can be asked, nil when there is none.
func firstFit(v *View, w want, tried []*Node) *NodeView {
	for _, n := range v.Pool {
		if n.fits(w, tried) {
			return n
		}
	}
	return nil
}

// choose is the node to ask without a policy, nil when none is fit that has not
// been tried. The freshest come first, and share the load.
func choose(v *View, w want, tried []*Node) *NodeView {
	if v.Front > 0 && v.Pool[0].reached(w) {
		if n := leastLoaded(v, rand.Uint64()); n.fits(w, tried) {
			return n
		}
	}
	// Not every one of the freshest will do: some have been tried, or have not
	// kept the history. Those that will share the load.
	for at := 0; at < len(v.Pool); {
		first, best, sum := v.Pool[at], (*NodeView)(nil), uint32(0)
		for ; at < len(v.Pool) && equallyFresh(first, v.Pool[at]); at++ {
			if n := v.Pool[at]; n.fits(w, tried) {
				sum += n.Server.Weight
				if rand.Uint32N(sum) < n.Server.Weight {
					best = n
				}
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}
