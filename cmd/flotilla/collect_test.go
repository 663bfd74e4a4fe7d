package main

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"
)

// TestBurst plays looks, one each half second: what was allocated since the one
// before, what is used, and whether it is time to collect.
func TestBurst(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	type look struct {
		allocated, used uint64
		over            bool
	}
	quiet := func(n int) []look { return make([]look, n) }
	for _, c := range []struct {
		name  string
		looks []look
	}{
		{"nothing happens", quiet(50)},
		{"a burst", []look{{50 * mib, 0, false}, {0, 0, true}, {0, 0, false}}},
		{"a burst of several looks", []look{{5 * mib, 0, false}, {5 * mib, 0, false}, {100 * kib, 0, true}, {100 * kib, 0, false}}},
		{"it never ends", slices.Repeat([]look{{5 * mib, 0, false}}, 50)},
		{"a little", []look{{mib, 0, false}, {0, 0, false}, {2 * mib, 0, false}, {0, 0, false}}},
		{"many times a little", []look{{3 * mib, 0, false}, {0, 0, false}, {2 * mib, 0, false}, {0, 0, true}}},
		{"little beside what is used", []look{{50 * mib, 500 * mib, false}, {0, 500 * mib, false}}},
		{"much beside what is used", []look{{70 * mib, 500 * mib, false}, {0, 500 * mib, true}}},
		{"a trickle", slices.Repeat([]look{{500 * kib, 0, false}}, 200)},
		{"not again at once", slices.Concat([]look{{50 * mib, 0, false}, {0, 0, true}, {50 * mib, 0, false}}, quiet(4), []look{{0, 0, true}}, quiet(30))},
	} {
		b, m, now := burst{}, memory{}, time.Now()
		for i, l := range c.looks {
			m.total, m.used = m.total+l.allocated, l.used
			if got := b.over(now.Add(time.Duration(i)*lookForGarbage), m); got != l.over {
				t.Errorf("%s: look %d says %v", c.name, i, got)
			}
		}
	}
}

// TestTidy: what a burst has left goes without anybody asking for it.
func TestTidy(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); tidy(ctx) }()
	defer func() { cancel(); <-ended }()
	// The first burst may come before tidy looks for the first time.
	for range 12 {
		freed := make(chan struct{})
		burst := make([]byte, 64<<20)
		runtime.AddCleanup(&burst[0], func(c chan struct{}) { close(c) }, freed)
		runtime.KeepAlive(burst)
		select {
		case <-freed:
			return
		case <-time.After(5 * time.Second):
		}
	}
	t.Error("what bursts have left is still there")
}
