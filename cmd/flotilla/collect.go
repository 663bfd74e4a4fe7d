package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// lookForGarbage is how often it is looked whether a burst is over.
	lookForGarbage = 500 * time.Millisecond
	// quietBytes is how much may be allocated between two looks of a process that
	// is at rest.
	quietBytes = 512 << 10
	// littleBytes is what is not worth a collection, nor is an eighth of what is
	// used.
	littleBytes = 4 << 20
	// tidyAgain is how far apart collections are at least.
	tidyAgain = 3 * time.Second
)

// memory is the figures that tell of a burst, in bytes: what the last collection
// has left, and what was ever allocated.
type memory struct{ used, total uint64 }

// burst is what was allocated since the last time that it was tidied up.
type burst struct {
	// before is the total at the last look, tidied that when it was tidied up, at
	// the moment at.
	before, tidied uint64
	at             time.Time
	// busy: a look has seen more than a process at rest allocates.
	busy bool
}

// over reports, for each look, whether a burst has come to an end that may have
// left garbage worth collecting. What was allocated counts: what was in use at the
// last collection may be garbage by now.
func (b *burst) over(now time.Time, m memory) bool {
	quiet := m.total-b.before < quietBytes
	b.before = m.total
	b.busy = b.busy || !quiet
	if !b.busy || !quiet || now.Sub(b.at) < tidyAgain || m.total-b.tidied < max(littleBytes, m.used/8) {
		return false
	}
	b.busy, b.tidied, b.at = false, m.total, now
	return true
}

// tidy gives memory back to the system after a burst, until ctx ends: thousands
// of clients that connect, or blocks of megabytes, leave garbage and buffers that
// a process at rest, which allocates nothing, would keep. It leaves everything to
// the collector where the environment sets that up (GOGC, GOMEMLIMIT).
func tidy(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	ticker := time.NewTicker(lookForGarbage)
	defer ticker.Stop()
	metrics.Read(samples)
	b := burst{before: samples[1].Value.Uint64(), tidied: samples[1].Value.Uint64()}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			metrics.Read(samples)
			if b.over(now, memory{used: samples[0].Value.Uint64(), total: samples[1].Value.Uint64()}) {
				// Twice: the first leaves what is in pools.
				runtime.GC()
				debug.FreeOSMemory()
			}
		}
	}
}
