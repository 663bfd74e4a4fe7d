package session

import (
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship/frame"
	"flotilla/stages/plan"
)

// lingering is how long the link to an archive is kept for the client's next
// request, or for the fleet to move on (P11, P12).
const lingering = 30 * time.Second

// leg is what a session in front of a range-split fleet remembers of the part
// of the stream that it is in. The session's lock guards it.
type leg struct {
	// ended: the client has all of the leg before, which was on upstream from,
	// and the next one has not begun. since is when its last result came, or
	// when the wait or hold after it was over.
	ended bool
	from  int
	since time.Time
	// timed: a leg has begun on another upstream, and its first result has not
	// come.
	timed bool
	// linger is until when a free link is kept; zero for as long as it lasts.
	linger time.Time
	// predialed is the end of the leg that a link was dialed ahead for.
	predialed uint32
	// moves counts how often in a row the session has left an archive for its
	// lack of a block log; the next time is not before nextMove (P20).
	moves    int
	nextMove time.Time
	// block is the hold that was counted last, when held.
	held  bool
	block uint32
}

// stitch keeps the session on the upstreams that its request leads it to, one
// leg after another, until it ends.
func (s *Session) stitch() {
	defer s.racers.Wait()
	defer s.dropStandby()
	defer s.releaseRetained()
	if !s.welcome() {
		return
	}
	for {
		l := s.nextLeg()
		if l == nil {
			return
		}
		end := s.relay(l)
		pause, again := s.lost(l, end)
		s.partLater(l)
		if !again || !s.rest(pause) {
			return
		}
	}
}

// welcome sends the client the fleet's ABI, as soon as there is one and anybody
// is there to serve it (S2). It reports false when the session is over.
func (s *Session) welcome() bool {
	timer := time.NewTimer(s.Fleet.Config().ConnectTimeout())
	defer timer.Stop()
	for {
		changed := s.Fleet.Changed()
		if v := s.Fleet.View(); v.ABI != nil && v.Online() > 0 {
			s.mu.Lock()
			s.greet(v.ABI)
			s.move(fleet.Idle)
			s.look()
			s.mu.Unlock()
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			s.log().Error("no ABI is known, or no upstream is online; the client is closed")
			s.Close(frame.CloseUnexpected, "No upstream server available")
			return false
		case <-s.ended.Done():
			return false
		}
	}
}

// planLeg has the stages plan the next leg, and puts what the session does
// about it into Exchange.Plan and Pick. The caller holds the lock.
func (s *Session) planLeg(desperate bool) {
	s.refresh()
	s.x.Cause, s.x.Desperate = pipeline.Replace, desperate
	step := s.Pipeline.Up(&s.x)
	switch {
	case step.Do == pipeline.CloseClient:
		s.closeLocked(int(step.Code), step.Reason)
		s.x.Plan, s.x.Pick = pipeline.Plan{Do: pipeline.Rest}, pipeline.None
	case s.x.Plan.Do == pipeline.Serve && s.x.Pick == pipeline.None:
		// A policy wants none of the candidates.
		s.x.Plan = pipeline.Plan{Do: pipeline.Hold, Why: fleet.HoldOffline, Bounded: true}
	}
}

// nextLeg waits until there is a leg to serve and somebody to serve it, and
// returns the link that it has begun on. It returns nil when the session is
// over.
func (s *Session) nextLeg() *link {
	var h hold
	for s.ended.Err() == nil && s.drained() {
		changed, freed := s.Fleet.Changed(), s.Fleet.SlotFreed()
		s.mu.Lock()
		s.planLeg(h.desperate)
		p, pick := s.x.Plan, s.x.Pick
		if p.Do != pipeline.Serve {
			s.releaseRetainedLocked()
		}
		s.mu.Unlock()
		switch p.Do {
		case pipeline.Serve:
			if l := s.reach(pick, &h); l != nil {
				return l
			}
			continue
		case pipeline.Gap:
			s.gap()
			continue
		case pipeline.Rest:
			s.dropStandby()
			h = hold{}
			s.setPhase(fleet.Idle)
		case pipeline.Wait:
			h = hold{}
			s.setPhase(fleet.Waiting)
		case pipeline.Hold:
			if !s.enterHold(&h, p) {
				continue
			}
		}
		s.await(&h, p, changed, freed)
	}
	return nil
}

// reach gets a link to the upstream that was picked, or to another one if that
// is quicker, and begins the leg on it: on the link that stands by, or on a new
// one. It returns nil when there is none yet, or the request has changed.
func (s *Session) reach(pick int, h *hold) *link {
	if l := s.takeStandby(pick); l != nil {
		if s.beginLeg(l, h) {
			return l
		}
		return nil
	}
	l, again := s.race(func(bool) int { return s.pickLeg(h.desperate) })
	h.desperate = false
	switch {
	case l == nil:
		return nil
	case again:
		s.discard(l)
		return nil
	case s.beginLeg(l, h):
		return l
	}
	return nil
}

// pickLeg plans the next leg and takes a slot on the upstream for it. The slot
// of the link before goes on when it is the same upstream.
func (s *Session) pickLeg(desperate bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return pipeline.None
	}
	kept := pipeline.None
	i := s.Fleet.Reserve(func() int {
		s.planLeg(desperate)
		if s.x.Plan.Do != pipeline.Serve {
			return pipeline.None
		}
		if s.x.Pick == s.x.Retained {
			kept = s.x.Pick
			return pipeline.None
		}
		return s.x.Pick
	})
	if kept != pipeline.None {
		i, s.x.Retained = kept, pipeline.None
	}
	if i != pipeline.None {
		s.x.Current = i
		s.move(fleet.Dialing)
	}
	return i
}

// beginLeg makes a link the session's and sends the request of the leg, as the
// newest view allows it (P19). It reports false, and closes the link, when that
// is not to be.
func (s *Session) beginLeg(l *link, h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	end, ok := plan.Leg(&s.x, l.upstream)
	if s.closed || !ok || !s.suitsClient(l) || !s.askedRight(l, end) {
		s.x.Current = pipeline.None
		s.discard(l)
		return false
	}
	s.releaseRetainedLocked()
	if h.active {
		s.leg.since = s.x.Now
	}
	s.takeLink(l)
	s.leg.linger = time.Time{}
	s.enter(l)
	if l.asked != nil {
		s.joinAhead(l)
	} else {
		s.x.LegEnd = end
		s.sendRequest(s.seam)
	}
	s.entered()
	s.look()
	return true
}

// suitsClient reports whether the client can read what the upstream sends: it
// has the ABI that the client got, or that does not matter (P21).
func (s *Session) suitsClient(l *link) bool {
	st := s.x.View.Stitching
	if l.ABI.Fingerprint == s.abi || st == nil || st.ABIMismatch != "exclude" {
		return true
	}
	s.x.Exclude(l.upstream, pipeline.Exclusion{Until: s.x.Now.Add(avoidOtherABI)})
	s.log().Warn("an upstream has another ABI than the client and is avoided", "server", s.x.View.Upstreams[l.upstream].Server.Name,
		"fingerprint", l.ABI.Fingerprint, "client_has", s.abi)
	return false
}

// avoidOtherABI is how long a session avoids an upstream with another ABI (3.4).
const avoidOtherABI = 300 * time.Second

// ask sends the request of a leg that ends at end on the link that the session
// has.
func (s *Session) ask(l *link, end uint32) {
	s.enter(l)
	s.x.LegEnd = end
	s.sendRequest(s.seam)
	s.entered()
}

// enter notes that a leg begins on a link: whether that is a handoff.
func (s *Session) enter(l *link) {
	if s.leg.ended && l.upstream != s.leg.from {
		s.Fleet.Stats.Handoffs.Add(1)
		s.tally.handoffs++
		s.leg.timed = true
		s.log().Debug("a stream is handed over", "block", s.x.Cursor, "from", s.x.View.Upstreams[s.leg.from].Server.Name,
			"to", s.x.View.Upstreams[l.upstream].Server.Name)
	}
	s.leg.ended, s.leg.held = false, false
}

// entered notes that the request of a leg is on its way.
func (s *Session) entered() {
	s.purpose, s.seam = fleet.Failover, true
	s.move(fleet.Streaming)
}

// advance looks, after results have come on the link, whether the leg is over
// or will be soon.
func (s *Session) advance(l *link) {
	link := &s.x.Link
	switch {
	case l.left != notLeft || !link.Requested || !link.Exact:
	case link.Cursor >= link.End && s.x.Finished() && l.short:
		l.leave(leftLeg)
	case link.Cursor >= link.End && s.x.Finished():
		s.keep(l, fleet.Idle)
	case link.Cursor >= link.End:
		s.leg.ended, s.leg.from, s.leg.since = true, l.upstream, s.x.Now
		s.purpose, s.seam = fleet.Handoff, true
		s.resume(l)
	case link.End < s.x.Want.End && link.End-link.Cursor <= s.predialBlocks():
		if s.leg.predialed != link.End {
			s.leg.predialed = link.End
			s.predial()
		}
		s.askAhead()
	}
}

// resume plans on while the session has a link on which nothing is to come: the
// next leg begins on the same link, or the link is kept for later, or given up.
func (s *Session) resume(l *link) {
	s.planLeg(false)
	switch {
	case s.closed:
	case s.x.Plan.Do == pipeline.Serve && s.x.Pick == l.upstream && s.x.Link.Free() && !l.short:
		s.ask(l, s.x.LegEnd)
	case s.x.Plan.Do == pipeline.Rest:
		s.keep(l, fleet.Idle)
	case s.x.Plan.Do == pipeline.Wait && s.x.Link.Free() && !l.short:
		s.keep(l, fleet.Waiting)
		s.leg.since = s.x.Now
	default:
		l.leave(leftLeg)
	}
}

// keep leaves the link as it is: that of an archive for a while, that of a live
// node for as long as it lasts.
func (s *Session) keep(l *link, phase fleet.SessionState) {
	s.move(phase)
	if s.x.Link.Frozen && s.leg.linger.IsZero() {
		s.leg.linger = s.x.Now.Add(lingering)
		s.look()
	}
}

// restart takes in a new request of the client.
func (s *Session) restart() {
	linger := s.leg.linger
	s.leg = leg{linger: linger}
	if !s.x.Empty() {
		s.leg.linger = time.Time{}
	}
	s.purpose, s.seam = fleet.Initial, false
	if s.standby != nil && s.standby.asked != nil {
		s.dropStandbyLocked() // it was asked for what the client wanted before
	}
	switch {
	case s.link != nil && s.link.left != notLeft:
		// What comes next is planned with the new request.
	case s.link != nil && s.x.Relink == pipeline.Redial:
		s.link.leave(leftLeg)
	case s.link != nil:
		s.resume(s.link)
	default:
		if s.cancelDial != nil && !s.dialServes() {
			s.cancelDial()
		}
		s.nudge()
	}
}

// dialServes reports whether the upstream that is being dialed can serve what
// the client wants now (P18).
func (s *Session) dialServes() bool {
	if s.x.Current == pipeline.None {
		return true
	}
	_, ok := plan.Leg(&s.x, s.x.Current)
	return ok
}

// gap closes a client that wants a block which nobody has (P2).
func (s *Session) gap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.log().Error("no upstream has a block, while others have blocks below and above it; the client is closed", "block", s.x.Cursor)
	}
	s.closeLocked(frame.CloseUnexpected, blockText(s.x.Cursor)+" unavailable on all upstreams")
}

// tickLeg looks, now and then and with every view, whether a leg that could not
// be served can be now, and whether what is kept for later is still wanted.
func (s *Session) tickLeg(now time.Time, next *time.Time) {
	s.tickStandby(now, next)
	l := s.link
	switch {
	case l == nil:
		if s.cancelDial != nil && !s.dialServes() {
			s.cancelDial()
		}
	case l.left != notLeft:
	case !s.leg.linger.IsZero() && !now.Before(s.leg.linger):
		l.leave(leftLeg)
	case s.leg.ended:
		s.resume(l)
	case s.lacksBlocks(l) && s.blocksElsewhere(l):
		l.fail(fleet.EndNoBlockLog)
	case s.lacksBlocks(l):
		s.shorten(l)
	}
	sooner(next, s.leg.linger)
}
