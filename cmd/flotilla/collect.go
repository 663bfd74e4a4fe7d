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
	// lookForGarbage is how often it is looked whether a burst has left any.
	lookForGarbage = 500 * time.Millisecond
	// quietBytes is how much may be allocated between two looks of a process that
	// is at rest.
	quietBytes = 512 << 10
	// littleGarbage is not worth a collection, nor is an eighth of what is used.
	littleGarbage = 4 << 20
)

// memory is the figures of the heap that tell when to collect, in bytes.
type memory struct {
	// objects is what is allocated, garbage included; used what the last
	// collection has left; total what was ever allocated.
	objects, used, total uint64
}

// litter reports whether a burst is over, before which the total was as given,
// and has left garbage that is worth collecting.
func (m memory) litter(before uint64) bool {
	return m.total-before < quietBytes && m.objects > m.used+max(littleGarbage, m.used/8)
}

func readMemory(s []metrics.Sample) memory {
	metrics.Read(s)
	return memory{objects: s[0].Value.Uint64(), used: s[1].Value.Uint64(), total: s[2].Value.Uint64()}
}

// tidy gives memory back to the system after a burst, until ctx ends: thousands
// of clients that connect, or blocks of megabytes, leave garbage and buffers that
// a process at rest, which allocates nothing, would keep. It leaves everything to
// the collector where the environment sets that up (GOGC, GOMEMLIMIT).
func tidy(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	ticker := time.NewTicker(lookForGarbage)
	defer ticker.Stop()
	before := readMemory(samples).total
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m := readMemory(samples)
		if m.litter(before) {
			// Twice: the first leaves what is in pools.
			runtime.GC()
			debug.FreeOSMemory()
		}
		before = m.total
	}
}
