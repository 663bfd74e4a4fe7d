// Package recent remembers how a node did lately: how long it took to answer,
// and what went wrong. The nodes of every protocol have it, for policies.
package recent

import (
	"sync/atomic"
	"time"
)

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
