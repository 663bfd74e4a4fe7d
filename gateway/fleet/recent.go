package fleet

import (
	"sync"
	"sync/atomic"
	"time"
)

// Recent counts what happened in the last minute, to the nearest ten seconds.
// Its zero value has counted nothing. It is safe for concurrent use.
type Recent struct {
	// last is when the last one was counted, in nanoseconds; 0 is never.
	last   atomic.Int64
	mu     sync.Mutex
	slots  [recentSlots]int
	newest int64
}

const (
	recentSlots = 6
	recentSlot  = 10 * time.Second
)

// Add counts one.
func (r *Recent) Add(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	r.slots[r.newest%recentSlots]++
	r.last.Store(now.UnixNano())
}

// Recent is how many were counted in the minute before now.
func (r *Recent) Recent(now time.Time) (n int) {
	// Mostly nothing was: whoever picks a server asks this of each.
	if last := r.last.Load(); last == 0 || now.UnixNano()-last > int64(recentSlots*recentSlot) {
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
func (r *Recent) forget(now time.Time) {
	slot := now.UnixNano() / int64(recentSlot)
	if slot-r.newest >= recentSlots {
		r.slots, r.newest = [recentSlots]int{}, slot
	}
	for r.newest < slot {
		r.newest++
		r.slots[r.newest%recentSlots] = 0
	}
}
