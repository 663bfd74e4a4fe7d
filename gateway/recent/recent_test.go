package recent_test

import (
	"testing"
	"time"

	"flotilla/gateway/recent"
)

func TestLatency(t *testing.T) {
	var l recent.Latency
	if l.Value() != 0 {
		t.Error("there is a latency before the first")
	}
	l.Observe(80 * time.Millisecond)
	if got := l.Value(); got != 80*time.Millisecond {
		t.Errorf("the first latency gives %v", got)
	}
	l.Observe(160 * time.Millisecond)
	if got := l.Value(); got != 90*time.Millisecond {
		t.Errorf("the second gives %v, want 90ms", got)
	}
	for range 200 {
		l.Observe(-1)
	}
	if got := l.Value(); got <= 0 || got > time.Millisecond {
		t.Errorf("many of none give %v", got)
	}
}

// Errors forget what is older than a minute, slot by slot.
func TestErrors(t *testing.T) {
	var r recent.Errors
	at := time.Unix(1_700_000_000, 0)
	if got := r.Count(at); got != 0 {
		t.Errorf("%d before the first", got)
	}
	r.Add(at)
	r.Add(at.Add(25 * time.Second))
	r.Add(at.Add(25 * time.Second))
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{25, 3}, {49, 3}, {59, 3}, {60, 2}, {79, 2}, {80, 0}, {3600, 0}} {
		if got := r.Count(at.Add(c.after * time.Second)); got != c.want {
			t.Errorf("%d after %d seconds, want %d", got, c.after, c.want)
		}
	}
}
