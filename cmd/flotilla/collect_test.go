package main

import (
	"context"
	"runtime"
	"testing"
	"time"
)

func TestLitter(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name   string
		m      memory
		before uint64
		want   bool
	}{
		{"nothing has happened", memory{10 * mib, 10 * mib, 50 * mib}, 50 * mib, false},
		{"a burst goes on", memory{100 * mib, 10 * mib, 200 * mib}, 150 * mib, false},
		{"a burst is over", memory{100 * mib, 10 * mib, 200 * mib}, 200 * mib, true},
		{"over but for a little", memory{100 * mib, 10 * mib, 200*mib + quietBytes - 1}, 200 * mib, true},
		{"it has left little", memory{14 * mib, 10 * mib, 200 * mib}, 200 * mib, false},
		{"little beside what is used", memory{110 * mib, 100 * mib, 200 * mib}, 200 * mib, false},
		{"an eighth of what is used, and more", memory{113 * mib, 100 * mib, 200 * mib}, 200 * mib, true},
		{"a collection that the look has missed", memory{10 * mib, 12 * mib, 200 * mib}, 200 * mib, false},
	} {
		if got := c.m.litter(c.before); got != c.want {
			t.Errorf("%s: %v", c.name, got)
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
	freed := make(chan struct{})
	burst := make([]byte, 64<<20)
	runtime.AddCleanup(&burst[0], func(c chan struct{}) { close(c) }, freed)
	runtime.KeepAlive(burst)
	burst = nil
	select {
	case <-freed:
	case <-time.After(time.Minute):
		t.Error("a minute later it is still there")
	}
	cancel()
	<-ended
}
