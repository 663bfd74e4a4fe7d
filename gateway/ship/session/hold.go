package session

import (
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship/frame"
	"flotilla/stages/forward"
)

// hold is the time that a session spends without anybody to serve its block.
type hold struct {
	active bool
	since  time.Time
	// tries counts the pauses that have run out; the next one does at retry.
	tries int
	retry time.Time
	// desperate: the next plan may use upstreams that are offline; last: after
	// that the client is closed.
	desperate, last bool
}

// waitRecheck is how often a session that waits plans again although nothing
// has changed (P17).
const waitRecheck = 5 * time.Second

// enterHold begins or goes on with a hold. It reports false when there is to be
// one more try at once, or when the client was closed because the time is over
// (P14, P15).
func (s *Session) enterHold(h *hold, p pipeline.Plan) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.active {
		h.active, h.since = true, time.Now()
		h.retry = h.since.Add(forward.HoldPause(s.x.Session, 0))
	}
	if !s.leg.held || s.leg.block != s.x.Cursor {
		s.leg.held, s.leg.block = true, s.x.Cursor
		s.Fleet.Stats.Holds.Inc(p.Why)
		s.log().Warn("nobody can serve a block now; the client is held", "block", s.x.Cursor, "why", p.Why, "bounded", p.Bounded)
	}
	s.move(fleet.Holding)
	if !p.Bounded || time.Since(h.since) < s.Fleet.Config().Stitching.GapWait {
		h.desperate = false
		return true
	}
	if !h.last {
		h.last, h.desperate = true, true
		return false
	}
	s.Fleet.Stats.HoldCloses.Inc(p.Why)
	if !s.closed {
		s.log().Error("nobody could serve a block for too long; the client is closed", "block", s.x.Cursor, "why", p.Why)
	}
	reason := blockText(s.x.Cursor) + " unavailable on all upstreams"
	if p.Why == fleet.HoldAtCapacity || p.Why == fleet.HoldBusy {
		reason = "upstream capacity exhausted for " + blockText(s.x.Cursor)
	}
	s.closeLocked(frame.CloseUnexpected, reason)
	return false
}

// await waits until the plan may come out otherwise: the fleet has changed, a
// slot is free, an exclusion or quarantine is over, the client wants something,
// or it is time for another try.
func (s *Session) await(h *hold, p pipeline.Plan, changed, freed <-chan struct{}) {
	var limit <-chan time.Time
	if p.Do == pipeline.Rest {
		// Nothing in the fleet matters to a client that wants nothing.
		changed, freed = nil, nil
	} else {
		at := time.Now().Add(waitRecheck)
		if h.active {
			at = h.retry
			if p.Bounded {
				at = earlier(at, h.since.Add(s.Fleet.Config().Stitching.GapWait))
			}
		}
		if !p.Again.IsZero() {
			at = earlier(at, p.Again)
		}
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-changed:
	case <-freed:
	case <-s.wake:
	case <-s.ended.Done():
	case <-limit:
		if now := time.Now(); h.active && !now.Before(h.retry) {
			h.tries++
			h.retry = now.Add(forward.HoldPause(s.x.Session, h.tries))
			h.desperate = true
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
