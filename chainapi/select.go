package chainapi

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// purpose is what candidates are put in order for.
type purpose int

const (
	// forBlock is one tier of an irreversible block.
	forBlock purpose = iota
	// forReversible is the nodes that have a block which can still change.
	forReversible
	// forState is nodes that are equally good for a state call.
	forState
	// byHead is nodes of which the one that is furthest is best.
	byHead
)

// chunk is how many neighbouring blocks prefer the same node, whose page cache
// they keep warm.
const chunk = 4096

// rank is a candidate with what it is sorted by, read once: slots and heads
// change meanwhile.
type rank struct {
	*API
	full     bool
	inFlight uint64
	head     uint32
	hash     uint64
}

// order puts the candidates of one tier in the order in which they are asked,
// and returns those that are. The listener's policy decides, where it has one
// and the purpose leaves it a choice. Block is the one asked for; turn counts the
// requests of that purpose, so that equals take turns.
func order(why purpose, tier []*API, block uint32, turn uint64, ask *asker) []*API {
	if len(tier) < 2 {
		return tier
	}
	if ask != nil && why != byHead {
		return ask.order(tier)
	}
	var space [8]rank
	ranks := space[:0]
	for _, a := range tier {
		r := rank{API: a, inFlight: uint64(a.link.slots.used()), full: a.link.slots.full(), head: a.head()}
		if why == forBlock {
			r.hash = affinity(a.Server.APIEndpoint, block/chunk)
		}
		ranks = append(ranks, r)
	}
	// Stable: in the end the order of the configuration decides.
	slices.SortStableFunc(ranks, func(x, y rank) int { return compare(why, &x, &y) })
	if why == forState {
		takeTurns(ranks, turn)
	}
	for i := range ranks {
		tier[i] = ranks[i].API
	}
	return tier
}

func compare(why purpose, x, y *rank) int {
	switch why {
	case forBlock:
		return cmp.Or(freeFirst(x, y), cmp.Compare(x.Priority, y.Priority), byLoad(x, y), cmp.Compare(x.hash, y.hash))
	case forReversible:
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(y.head, x.head), byLoad(x, y))
	case forState:
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), byLoad(x, y))
	default:
		return cmp.Or(cmp.Compare(y.head, x.head), cmp.Compare(x.Priority, y.Priority))
	}
}

func freeFirst(x, y *rank) int {
	switch {
	case x.full == y.full:
		return 0
	case y.full:
		return -1
	}
	return 1
}

// byLoad compares the requests in flight per unit of weight.
func byLoad(x, y *rank) int {
	return cmp.Compare(x.inFlight*uint64(y.Weight), y.inFlight*uint64(x.Weight))
}

// takeTurns rotates the equals at the front.
func takeTurns(ranks []rank, turn uint64) {
	n := 1
	for n < len(ranks) && compare(forState, &ranks[0], &ranks[n]) == 0 {
		n++
	}
	slices.Reverse(ranks[:n])
	k := n - int(turn%uint64(n))
	slices.Reverse(ranks[:k])
	slices.Reverse(ranks[k:n])
}

// affinity is a number that a node has for a chunk; the lowest comes first.
func affinity(node string, chunk uint32) uint64 {
	h := fnv.New64a()
	h.Write([]byte{byte(chunk), byte(chunk >> 8), byte(chunk >> 16), byte(chunk >> 24)})
	h.Write([]byte(node))
	// FNV alone hardly mixes its high bits, which decide here.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
