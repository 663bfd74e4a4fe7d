package evm

import (
	"cmp"
	"slices"
)

// View is what is known of a fleet at one moment. It is never changed.
type View struct {
	// Nodes are all nodes, in configuration order.
	Nodes []*NodeView
	// Pool are the healthy ones, the freshest first and the fastest first among
	// those that are equally fresh. Nodes whose last check failed come last.
	Pool []*NodeView
	// Front is how many at the head of Pool are equally fresh and of the best
	// priority; 0 only for an empty pool.
	Front int
	// weights are the sums of the weights of those, from the first one on.
	weights []uint32
	// Tip is the highest height that was told; TipKnown is false before.
	Tip      uint64
	TipKnown bool
	// External is the height that the reference told last, nil before.
	External *uint64
	// Lagging is true while the tip is far behind External.
	Lagging bool
}

// fresher orders the pool.
func fresher(a, b *NodeView) int {
	return cmp.Or(
		boolean(b.State.Known, a.State.Known),
		cmp.Compare(b.State.Height, a.State.Height),
		cmp.Compare(a.Server.Priority, b.Server.Priority),
		cmp.Compare(a.RTT, b.RTT),
	)
}

func boolean(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// equallyFresh reports whether load may be spread over both.
func equallyFresh(a, b *NodeView) bool {
	return a.State.Known == b.State.Known && a.State.Height == b.State.Height && a.Server.Priority == b.Server.Priority
}

// find is the view of a node, nil when it is in the fleet no more.
func (v *View) find(n *Node) *NodeView {
	for _, x := range v.Nodes {
		if x.Node == n {
			return x
		}
	}
	return nil
}

// with is the view after one node has changed.
func (v *View) with(n *Node) *View {
	next := *v
	fresh := n.view()
	next.Nodes = slices.Clone(v.Nodes)
	for i, x := range next.Nodes {
		if x.Node == n {
			next.Nodes[i] = fresh
		}
	}
	next.Pool = make([]*NodeView, 0, len(v.Pool)+1)
	for _, x := range v.Pool {
		if x.Node != n {
			next.Pool = append(next.Pool, x)
		}
	}
	if fresh.State.Healthy {
		i, _ := slices.BinarySearchFunc(next.Pool, fresh, fresher)
		next.Pool = slices.Insert(next.Pool, i, fresh)
	}
	next.count()
	return &next
}

// rebuilt is the view of another set of nodes.
func (v *View) rebuilt(nodes []*Node) *View {
	next := *v
	next.Nodes, next.Pool = nil, nil
	for _, n := range nodes {
		x := n.view()
		next.Nodes = append(next.Nodes, x)
		if x.State.Healthy {
			next.Pool = append(next.Pool, x)
		}
	}
	slices.SortStableFunc(next.Pool, fresher)
	next.count()
	return &next
}

// retip sets the tip anew, after a height was told: one absurd height must not
// stay. A node that is in the pool counts with the last height that it told.
func (v *View) retip() {
	v.Tip, v.TipKnown = 0, true
	for _, x := range v.Nodes {
		if x.Aside == "" && (x.State.Known || x.State.Healthy) {
			v.Tip = max(v.Tip, x.State.Height)
		}
	}
}

func (v *View) count() {
	v.Front, v.weights = 0, nil
	sum := uint32(0)
	for v.Front < len(v.Pool) && equallyFresh(v.Pool[0], v.Pool[v.Front]) {
		sum += v.Pool[v.Front].Server.Weight
		v.weights = append(v.weights, sum)
		v.Front++
	}
}

func (n *Node) view() *NodeView {
	return &NodeView{Node: n, Server: n.server.Load(), State: n.state, RTT: n.rtt, Aside: n.aside, Checked: n.checked, Version: n.version}
}
