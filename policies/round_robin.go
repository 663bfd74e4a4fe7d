package policies

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// RoundRobin takes the servers in turn; one of weight 3 has three turns.
type RoundRobin struct {
	turn atomic.Uint64
}

// Order is Policy.
func (p *RoundRobin) Order(r *Request, servers []*Server, n int) []*Server {
	// The servers of the best tier, in the order of their IDs, are in front.
	arrange(servers, len(servers), byPlace)
	tied := 1
	turns := uint64(servers[0].Weight)
	for ; tied < len(servers) && tier(servers[0], servers[tied]) == 0; tied++ {
		turns += uint64(servers[tied].Weight)
	}
	turn := p.turn.Load()
	if !r.Dry {
		turn = p.turn.Add(1) - 1
	}
	turn %= turns
	next := 0
	for ; turn >= uint64(servers[next].Weight); next++ {
		turn -= uint64(servers[next].Weight)
	}
	rotate(servers[:tied], next)
	return servers
}

// rotate moves the first k to the end.
func rotate(list []*Server, k int) {
	slices.Reverse(list[:k])
	slices.Reverse(list[k:])
	slices.Reverse(list)
}

func byPlace(a, b *Server) int { return cmp.Or(tier(a, b), cmp.Compare(a.ID, b.ID)) }
