package fleet

import (
	"slices"
	"time"

	"flotilla/gateway/config"
)

// strikes remembers the block failures of one upstream and decides when a
// block range goes into quarantine (F11). It belongs to the fleet's goroutine.
type strikes struct {
	at     map[uint32][]time.Time
	active []Quarantine
}

func newStrikes() strikes { return strikes{at: map[uint32][]time.Time{}} }

// add counts a failure at block n. It reports whether a quarantine began.
// Failures during an active one are not recorded and do not extend it.
func (s *strikes) add(policy *config.Quarantine, n uint32, now time.Time) bool {
	for _, q := range s.active {
		if q.Covers(n, now) {
			return false
		}
	}
	s.forget(policy.Window, now)
	s.at[n] = append(s.at[n], now)
	if uint32(len(s.at[n])) < policy.Strikes {
		return false
	}
	delete(s.at, n)
	s.active = append(s.active, Quarantine{Block: n, Range: policy.Range, Until: now.Add(policy.TTL)})
	return true
}

// forget drops failures that are older than the window, so that the memory of
// a node that fails everywhere stays bounded by what happens in one window.
func (s *strikes) forget(window time.Duration, now time.Time) {
	for n, times := range s.at {
		times = slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) > window })
		if len(times) == 0 {
			delete(s.at, n)
		} else {
			s.at[n] = times
		}
	}
}

// expire drops quarantines that are over and reports whether any was.
func (s *strikes) expire(now time.Time) bool {
	n := len(s.active)
	s.active = slices.DeleteFunc(s.active, func(q Quarantine) bool { return !now.Before(q.Until) })
	return len(s.active) != n
}
