package policies

import (
	"cmp"
	"math"
	"math/bits"
	"time"
)

// LowestLatency takes the server that answers fastest. Latencies that differ by
// less than about a quarter count as equal, and LeastConnections decides; a
// server that was not measured yet comes last.
type LowestLatency struct{}

// Order is Policy.
func (*LowestLatency) Order(r *Request, servers []*Server, n int) []*Server {
	return arrange(servers, n, func(a, b *Server) int {
		if c := cmp.Or(tier(a, b), cmp.Compare(step(a.Latency), step(b.Latency))); c != 0 {
			return c
		}
		return load(r, a, b)
	})
}

// step is a latency on a scale of four steps to each doubling.
func step(d time.Duration) int {
	if d <= 0 {
		return math.MaxInt
	}
	// Anything below 64 µs is as good as none.
	v := uint64(max(d, 64*time.Microsecond))
	top := bits.Len64(v)
	return top<<2 | int(v>>(top-3)&3)
}
