// Package health decides which nodes of a fleet are fit to serve: those in a
// band below the fleet's tip, with hysteresis on both edges (seed 004 "How
// health works"). It knows neither clocks nor sockets.
package health

import (
	"fmt"
	"time"
)

// Rules are the settings of the band.
type Rules struct {
	// SoftLag is how many blocks behind the tip are still within the band.
	SoftLag uint64
	// HardLag is how many blocks behind evict at once.
	HardLag uint64
	// LagGrace is how long a lag between the two is tolerated.
	LagGrace time.Duration
	// Readmit is how long a node must have been within the band to be admitted.
	Readmit time.Duration
	// MinHealthy is how many nodes a soft lag leaves in the pool.
	MinHealthy int
	// MaxFailures is how many failures in a row evict.
	MaxFailures int
}

// State is what is known about one node. The zero value is a node that nobody
// has asked yet.
type State struct {
	// Healthy is true for a node that may serve.
	Healthy bool
	// Known is true when the last check has told a height.
	Known bool
	// Height is the last one that was told.
	Height uint64
	// Failures counts failed checks and failed calls since the last good check.
	Failures int
	// Err is why the node is not healthy, or the last failure; empty when
	// there is nothing to tell.
	Err string

	// softSince is when the lag left the band, bandSince when it came back to
	// it; both are zero when that is not so.
	softSince, bandSince time.Time
}

// Change is what a step did to a node's place in the pool.
type Change int

// The changes.
const (
	None Change = iota
	Evicted
	Admitted
)

// Reported takes in a height. Tip is the highest one that is known of the
// fleet; an answer is measured against the tip of the moment when it was asked
// for, so that a node is not behind only because another was asked later.
// Healthy is how many nodes of the fleet are. While admit is false nobody is
// admitted.
func (r Rules) Reported(s *State, height, tip uint64, healthy int, admit bool, now time.Time) Change {
	s.Known, s.Height, s.Failures = true, height, 0
	lag := tip - min(tip, height)
	if lag <= r.SoftLag {
		s.softSince = time.Time{}
		if s.bandSince.IsZero() {
			s.bandSince = now
		}
		if s.Healthy {
			s.Err = ""
			return None
		}
		if !admit || now.Sub(s.bandSince) < r.Readmit {
			return None
		}
		s.Healthy, s.Err = true, ""
		return Admitted
	}
	s.bandSince = time.Time{}
	if s.softSince.IsZero() {
		s.softSince = now
	}
	text := fmt.Sprintf("%d blocks behind the tip %d", lag, tip)
	if !s.Healthy {
		s.Err = text
		return None
	}
	late := now.Sub(s.softSince) >= r.LagGrace && healthy > r.MinHealthy
	if lag < r.HardLag && !late {
		return None
	}
	return s.evict(text)
}

// Failed takes in a check that told no height.
func (r Rules) Failed(s *State, err string) Change {
	s.Known = false
	return r.Broke(s, err)
}

// Broke takes in a call of a client that the node did not answer.
func (r Rules) Broke(s *State, err string) Change {
	s.Failures++
	s.Err = err
	// To be in the band is to answer.
	s.bandSince = time.Time{}
	if !s.Healthy || s.Failures < r.MaxFailures {
		return None
	}
	return s.evict(err)
}

// Refuse takes a node out of the pool for good, or until it is reported fit
// again: it is on another chain, say.
func (r Rules) Refuse(s *State, why string) Change {
	s.bandSince = time.Time{}
	s.Err = why
	if !s.Healthy {
		return None
	}
	return s.evict(why)
}

func (s *State) evict(why string) Change {
	s.Healthy, s.Err = false, why
	s.bandSince, s.softSince = time.Time{}, time.Time{}
	return Evicted
}
