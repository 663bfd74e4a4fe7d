package session

import (
	"testing"
	"time"
)

// Looks that nothing calls for are a maxRest apart at most, and many sessions
// share the moment.
func TestRest(t *testing.T) {
	l := NewLooks()
	moments := map[time.Duration]int{}
	for ms := range 1000 {
		now := l.began.Add(time.Hour + time.Duration(ms)*time.Millisecond)
		rest := l.rest(now)
		if wait := rest.Sub(now); wait <= maxRest-slot || wait > maxRest {
			t.Fatalf("after %d ms the session rests for %v", ms, wait)
		}
		moments[l.age(rest)]++
	}
	if len(moments) != int(maxRest/slot) {
		t.Errorf("a thousand sessions are looked at in %d moments of a second", len(moments))
	}
}

// A wish to be looked at is not lost, and not kept twice.
func TestWanted(t *testing.T) {
	l := NewLooks()
	l.wake()
	l.wake()
	<-l.Wanted
	select {
	case <-l.Wanted:
		t.Error("one look is wanted twice")
	default:
	}
}
