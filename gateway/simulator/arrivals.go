package simulator

import "time"

// arrivals are the times at which the blocks of a request came.
type arrivals struct {
	first uint32
	since time.Time
	at    []time.Duration // negative for a block that did not come
}

// maxArrivals keeps a block number from nowhere from costing memory.
const maxArrivals = 1 << 24

func (a *arrivals) note(n uint32, now time.Time) {
	if n < a.first || n-a.first >= maxArrivals {
		return
	}
	for uint32(len(a.at)) <= n-a.first {
		a.at = append(a.at, -1)
	}
	if at := &a.at[n-a.first]; *at < 0 {
		*at = now.Sub(a.since)
	}
}

func (a *arrivals) between(n uint32) (d time.Duration, ok bool) {
	i := int64(n) - int64(a.first)
	if i < 1 || i >= int64(len(a.at)) || a.at[i] < 0 || a.at[i-1] < 0 {
		return 0, false
	}
	return a.at[i] - a.at[i-1], true
}
