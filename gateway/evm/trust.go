package evm

import (
	"fmt"
	"time"

	"flotilla/gateway/evm/health"
)

// chainChecks is how many checks of a node's height come between two questions
// for its chain.
const chainChecks = 60

// checksChain reports whether nodes are asked for their chain. f.mu is held.
func (f *fleet) checksChain() bool { return f.cfg.ChainID != nil || f.cfg.Health.Agree }

// distrusts is why a node is not to be believed, empty when there is no reason.
// Unsure is true while that cannot be told yet: the others have not been asked
// since it told its height. f.mu is held.
func (f *fleet) distrusts(n *Node, height uint64, now time.Time) (why string, unsure bool) {
	if why := f.wrongChain(n); why != "" {
		return why, false
	}
	if !f.cfg.Health.Agree {
		return "", false
	}
	n.claimed = height
	w := health.Witness{Before: n.state.Height, Vouched: n.vouched, Doubted: n.doubted,
		Reference: f.view.Load().External, OthersStand: !f.tipRose.IsZero() && now.Sub(f.tipRose) > f.cfg.Health.LagGrace}
	for _, other := range f.nodes {
		if other != n && other.state.Known && (other.aside == "" || other.doubted) {
			w.Others = append(w.Others, other.claimed)
		}
	}
	limit := max(f.cfg.Health.HardLag, 1)
	if w.Doubtful(height, limit) {
		if n.doubtful.IsZero() {
			n.doubtful = now
		}
		if !n.doubted && n.state.Healthy && now.Sub(n.doubtful) < f.cfg.Health.Interval+f.cfg.Health.Timeout {
			return "", true
		}
		n.doubted, n.vouched = true, false
		return fmt.Sprintf("it reports block %d, which nobody else comes near", height), false
	}
	n.doubted, n.doubtful = false, time.Time{}
	n.vouched = n.vouched || w.Near(height, limit)
	if f.forked(n, height) {
		return "it follows a fork of its own", false
	}
	return "", false
}

// wrongChain is why a node is on another chain, or empty.
func (f *fleet) wrongChain(n *Node) string {
	if !f.checksChain() {
		return ""
	}
	if n.chain == 0 {
		if f.cfg.ChainID == nil {
			return ""
		}
		return "it has not told its chain yet"
	}
	right := n.chain
	if f.cfg.ChainID != nil {
		right = *f.cfg.ChainID
	} else {
		votes := map[uint64]int{}
		for _, other := range f.nodes {
			if other.chain != 0 {
				votes[other.chain]++
			}
		}
		for id, count := range votes {
			if count > votes[right] {
				right = id
			}
		}
	}
	if n.chain == right {
		return ""
	}
	return fmt.Sprintf("it is on the chain %d, not on %d", n.chain, right)
}

// forked reports whether two others have another block than n, and nobody has
// the same.
func (f *fleet) forked(n *Node, height uint64) bool {
	against := 0
	for _, other := range f.nodes {
		if other == n || !other.state.Known || other.aside != "" {
			continue
		}
		same, known := n.history.Compare(&other.history, min(height, other.state.Height))
		if known && same {
			return false
		}
		if known {
			against++
		}
	}
	return against >= 2
}
