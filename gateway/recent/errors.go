package recent

import (
	"sync"
	"sync/atomic"
	"time"
)

// Errors counts what went wrong in the last minute, to the nearest ten seconds.
// Its zero value has counted nothing. It is safe for concurrent use.
type Errors struct {
	// last is when the last one was counted, in nanoseconds; 0 is never.
	last   atomic.Int64
	mu     sync.Mutex
	slots  [errorSlots]int
	newest int64
}

const (
	errorSlots = 6
	errorSlot  = 10 * time.Second
)

// Add counts one.
func (r *Errors) Add(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	r.slots[r.newest%errorSlots]++
	r.last.Store(now.UnixNano())
}

// Count is how many were counted in the minute before now.
func (r *Errors) Count(now time.Time) (n int) {
	// Mostly nothing was: whoever picks a server asks this of each.
	if last := r.last.Load(); last == 0 || now.UnixNano()-last > int64(errorSlots*errorSlot) {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	for _, c := range r.slots {
		n += c
	}
	return n
}

// forget empties the slots that have passed since the newest one.
func (r *Errors) forget(now time.Time) {
	slot := now.UnixNano() / int64(errorSlot)
	if slot-r.newest >= errorSlots {
		r.slots, r.newest = [errorSlots]int{}, slot
	}
	for r.newest < slot {
		r.newest++
		r.slots[r.newest%errorSlots] = 0
	}
}
