package policies

import (
	"cmp"
	"math"
	"math/bits"
	"sync/atomic"
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

// Latency is an exponentially weighted moving average of latencies. Its zero
// value has seen none. It is safe for concurrent use.
type Latency struct{ nanos atomic.Int64 }

// latencyShare is how much of the average a new latency is: one part in so many.
const latencyShare = 8

// Observe takes a latency into the average.
func (l *Latency) Observe(d time.Duration) {
	// Zero means unknown.
	d = max(d, 1)
	for {
		old := l.nanos.Load()
		fresh := int64(d)
		if old != 0 {
			fresh = max(1, old+(fresh-old)/latencyShare)
		}
		if l.nanos.CompareAndSwap(old, fresh) {
			return
		}
	}
}

// Value is the average, 0 when nothing was observed.
func (l *Latency) Value() time.Duration { return time.Duration(l.nanos.Load()) }
