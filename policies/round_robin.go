package policies

import (
	"cmp"
	"sync/atomic"
)

// RoundRobin takes the servers in turn; one of weight 3 has three turns.
type RoundRobin struct {
	turn atomic.Uint64
}

// Order is Policy.
func (p *RoundRobin) Order(r *Request, servers []*Server, n int) []*Server {
	first := arrange(servers, 1, byPlace)[0]
	var turns uint64
	for _, s := range servers {
		if tier(first, s) == 0 {
			turns += uint64(s.Weight)
		}
	}
	turn := p.turn.Load()
	if !r.Dry {
		turn = p.turn.Add(1) - 1
	}
	// Whose turn it is: the servers of the tier in the order of their IDs.
	turn %= turns
	next := first
	for {
		if turn < uint64(next.Weight) {
			break
		}
		turn -= uint64(next.Weight)
		next = following(servers, next)
	}
	return arrange(servers, n, func(a, b *Server) int {
		// The one whose turn it is, those behind it, and from the first one on.
		return cmp.Or(tier(a, b), compareBool(b.ID >= next.ID, a.ID >= next.ID), cmp.Compare(a.ID, b.ID))
	})
}

// following is the server of the same tier with the next higher ID.
func following(servers []*Server, s *Server) (next *Server) {
	for _, c := range servers {
		if tier(c, s) == 0 && c.ID > s.ID && (next == nil || c.ID < next.ID) {
			next = c
		}
	}
	return next
}

func byPlace(a, b *Server) int { return cmp.Or(tier(a, b), cmp.Compare(a.ID, b.ID)) }

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
