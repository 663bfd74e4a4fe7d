package session

import (
	"fmt"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
	"flotilla/stages/forward"
)

// unknownBlame is how long after a message of an unknown variant the end of
// the link is taken as the answer to it (1.5).
const unknownBlame = 5 * time.Second

// serve keeps the session on an upstream until it ends.
func (s *Session) serve() {
	defer s.releaseRetained()
	defer s.racers.Wait()
	s.settle()
	for {
		l := s.connect()
		if l == nil {
			return
		}
		end := s.relay(l)
		// Nothing can be judged on it any more: the next round has its own.
		pause, again := s.lost(l, end)
		l.Reader.Release()
		l.Node.Close()
		if !again || !s.rest(pause) {
			return
		}
	}
}

// settle lets a client that comes right at the start wait until the nodes have
// been asked for the first time, instead of being told that there are none.
func (s *Session) settle() {
	select {
	case <-s.Fleet.Settled():
		return
	default:
	}
	timer := time.NewTimer(s.Fleet.Config().ConnectTimeout())
	defer timer.Stop()
	select {
	case <-s.Fleet.Settled():
	case <-timer.C:
	case <-s.ended.Done():
	}
}

func blockText(n uint32) string { return fmt.Sprintf("block %d", n) }

// releaseRetained gives back the slot of the link before, which is kept until
// the next one is up.
func (s *Session) releaseRetained() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseRetainedLocked()
}

func (s *Session) releaseRetainedLocked() {
	i := s.x.Retained
	if i == pipeline.None {
		return
	}
	s.x.Retained = pipeline.None
	if p := s.parting; p != nil && p.upstream == i {
		// Whoever gets the slot next is not to be refused by the node.
		s.racers.Go(func() { <-p.done; s.Fleet.Release(i) })
		return
	}
	s.Fleet.Release(i)
}

// rest waits before the next link. It reports false when the session is over.
func (s *Session) rest(pause time.Duration) bool {
	if pause <= 0 {
		return s.ended.Err() == nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ended.Done():
		return false
	}
}

// connect finds an upstream and brings a link up, holding the client for as
// long as the configuration says when none can be had. It returns nil when the
// session is over.
func (s *Session) connect() *link {
	var hold time.Time
	for tries := 0; ; {
		if s.ended.Err() != nil || !s.drained() {
			return nil
		}
		changed := s.Fleet.Changed()
		l, again := s.race(s.pickPool)
		switch {
		case l != nil && again:
			s.discard(l)
			continue
		case l != nil:
			if s.linkUp(l) {
				return l
			}
			return nil
		case again:
			continue
		}
		// Nobody, or three failures in a row: hold, or give up.
		if hold.IsZero() {
			hold = s.beginHold()
		}
		left := time.Until(hold)
		if left <= 0 {
			s.giveUp()
			return nil
		}
		s.setPhase(fleet.Holding)
		if !s.holdOn(min(left, forward.HoldPause(s.x.Session, tries)), changed) {
			return nil
		}
		tries++
	}
}

// beginHold returns until when the client may be held.
func (s *Session) beginHold() time.Time {
	limit := s.Fleet.Config().HoldWait
	if limit > 0 {
		s.Fleet.Stats.Holds.Inc(fleet.HoldOffline)
		s.log().Warn("no upstream can be had; the client is held", "for", limit)
	}
	return time.Now().Add(limit)
}

// holdOn waits for a change of the fleet or the next try.
func (s *Session) holdOn(pause time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-timer.C:
		return true
	case <-s.ended.Done():
		return false
	}
}

func (s *Session) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Fleet.Config().HoldWait > 0 {
		s.Fleet.Stats.HoldCloses.Inc(fleet.HoldOffline)
	}
	reason := "no upstream available"
	if s.abi == "" {
		reason = "No upstream server available"
	}
	if !s.closed {
		s.log().Error("no upstream can be had; the client is closed")
	}
	s.closeLocked(frame.CloseUnexpected, reason)
}

// drained waits until the client has taken half of what is kept for it, if
// that is more than it may be. It reports false when the session is over.
func (s *Session) drained() bool {
	for s.out.Queued() > s.Fleet.Config().ClientBuffer/2 {
		// Until then it costs no node anything.
		s.releaseRetained()
		select {
		case <-s.wake:
		case <-s.ended.Done():
			return false
		}
	}
	return true
}

func (s *Session) setPhase(to fleet.SessionState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.move(to)
}

// pickPool is pick. The only slot of a node may be the one that the ended link
// holds: with nobody else, it is given up first.
func (s *Session) pickPool(first bool) int {
	i := s.pick()
	if i == pipeline.None && first && s.hasRetained() {
		s.releaseRetained()
		i = s.pick()
	}
	return i
}

func (s *Session) hasRetained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.x.Retained != pipeline.None
}

// pick runs the stages for another upstream and takes a slot on it.
func (s *Session) pick() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return pipeline.None
	}
	s.move(fleet.Dialing)
	was := s.x.Current
	i := s.Fleet.Reserve(func() int {
		s.refresh()
		s.x.Current = was
		if s.redialable() {
			s.x.Current = s.redial
			return s.redial
		}
		s.x.Cause = pipeline.Replace
		if s.abi == "" {
			s.x.Cause = pipeline.Connect
		}
		if step := s.Pipeline.Up(&s.x); step.Do != pipeline.Next {
			s.x.Pick = pipeline.None
		}
		s.x.Current = s.x.Pick
		return s.x.Pick
	})
	if s.x.Current != s.redial {
		s.warnUncovered()
	}
	return i
}

// warnUncovered tells that the upstream that was picked lacks the block as well
// as all others do.
func (s *Session) warnUncovered() {
	for _, c := range s.x.Candidates {
		if c.Index == s.x.Pick && c.Rank >= 2 {
			s.log().Warn("no upstream covers the block; the best of the others is asked", "block", s.x.Block(),
				"server", s.x.View.Upstreams[c.Index].Server.Name)
		}
	}
}

// redialable reports whether a request that only wants a fresh link can have
// it on the same upstream: nothing but coverage moves a request (S9).
func (s *Session) redialable() bool {
	if s.redial == pipeline.None || s.x.Excluded(s.redial, s.x.Now) {
		return false
	}
	u := &s.x.View.Upstreams[s.redial]
	return u.Online && u.Routable()
}

// linkUp makes a dialed link the session's: the client gets its ABI with the
// first, and the upstream what waits for it (F18). It reports false when the
// session has ended meanwhile.
func (s *Session) linkUp(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseRetainedLocked()
	if s.closed {
		s.discard(l)
		return false
	}
	s.refresh()
	s.takeLink(l)
	switch server := s.x.View.Upstreams[l.upstream].Server; {
	case s.abi == "":
		s.greet(l.ABI)
	case s.abi != l.ABI.Fingerprint:
		s.log().Warn("an upstream has another ABI than the one that the client got", "server", server.Name, "fingerprint", l.ABI.Fingerprint, "client_has", s.abi)
	default:
		s.log().Info("a session has an upstream again", "server", server.Name, "block", s.x.Cursor)
	}
	if s.x.Asked && !s.x.Empty() {
		s.sendRequest(s.seam)
	}
	s.answerStatuses()
	s.sendPending()
	s.purpose, s.seam = fleet.Failover, true
	s.phase()
	s.look()
	return true
}

// takeLink makes a link the session's. The caller holds the lock.
func (s *Session) takeLink(l *link) {
	u := &s.x.View.Upstreams[l.upstream]
	purpose := s.purpose
	if l.standby {
		purpose = fleet.Predial
	}
	u.Live.LinksTotal.Inc(purpose)
	s.link, s.redial = l, pipeline.None
	s.x.Current = l.upstream
	s.x.Link = pipeline.Link{Up: true, Upstream: l.upstream, Frozen: u.Frozen(), OnlyV0: u.Reported && !u.StatusV1}
}

// greet sends the ABI to the client, which keeps it.
func (s *Session) greet(abi *ship.ABI) {
	s.abi = abi.Fingerprint
	// A failure shows as the end of the client's stream.
	_ = s.out.WriteFrame(frame.Text, abi.Text)
	// From now on it may be idle.
	s.client.Touch()
	close(s.served)
}

// lost takes in that a link has ended: how long to pause, and whether there is
// a next one.
func (s *Session) lost(l *link, end fleet.End) (pause time.Duration, again bool) {
	s.mu.Lock()
	c, again := s.conclude(l, end)
	block := s.x.Cursor
	s.link = nil
	s.x.Link = pipeline.Link{Upstream: pipeline.None}
	s.x.Ack = 0
	s.x.Current, s.x.Retained = pipeline.None, l.upstream
	s.mu.Unlock()
	if c.Strike {
		s.Fleet.Strike(l.upstream, block)
	}
	if c.Suspect {
		s.Fleet.Suspect(l.upstream, block)
	}
	if c.Dead {
		s.Fleet.MarkOffline(l.upstream, "no byte came from it")
	}
	return c.Pause, again
}

// unmourned reports whether the end of a link in front of a range-split fleet
// means nothing: nothing was to come on it any more (F10), or it stood by and
// was dead before it was needed.
func (s *Session) unmourned(l *link, end fleet.End) bool {
	if !s.x.Link.Requested || s.x.Finished() || s.leg.ended {
		return true
	}
	return l.standby && !l.framed && (end == fleet.EndUnclean || end == fleet.EndClean || end == fleet.EndSend)
}

// conclude decides what the end of the link means for the session.
func (s *Session) conclude(l *link, end fleet.End) (forward.Consequence, bool) {
	s.refresh()
	s.statuses.bringBack(l, s.x.Now)
	if s.closed {
		return forward.Consequence{}, false
	}
	server := s.x.View.Upstreams[l.upstream].Server
	switch l.left {
	case leftRedial:
		s.redial = l.upstream
		return forward.Consequence{}, true
	case leftMove, leftLeg:
		return forward.Consequence{}, true
	case leftSlow:
		s.Fleet.Stats.SlowClients.Add(1)
		s.log().Info("the client does not take its blocks; its link is given up until it has caught up", "server", server.Name, "queued", s.out.Queued())
		s.purpose, s.seam = fleet.Initial, true
		s.move(fleet.Waiting)
		return forward.Consequence{}, true
	case leftFailed:
		end = l.failed
	}
	if s.stitched && s.unmourned(l, end) {
		return forward.Consequence{}, true
	}
	if end == fleet.EndUnclean && !s.x.UnknownAt.IsZero() && s.x.Now.Sub(s.x.UnknownAt) < unknownBlame {
		s.closeLocked(frame.CloseUnsupport, "unsupported request")
		return forward.Consequence{}, false
	}
	c := forward.Ended(&s.x, end, forward.Owed(&s.x))
	s.Fleet.Stats.Failovers.Inc(end)
	s.tally.failovers++
	if end == fleet.EndStall {
		s.x.View.Upstreams[l.upstream].Live.Stalls.Add(1)
	}
	s.purpose, s.seam = fleet.Failover, true
	s.log().Warn("the stream of an upstream ended; another link is tried", "server", server.Name, "reason", end, "block", s.x.Cursor, "pause", c.Pause)
	if c.Exhausted {
		s.log().Error("a block cannot be had from any upstream", "server", server.Name, "block", s.x.Cursor, "attempts", len(s.x.Failed))
		s.closeLocked(frame.CloseUnexpected, blockText(s.x.Cursor)+" unavailable on all upstreams")
		return c, false
	}
	s.move(fleet.Backoff)
	return c, true
}
