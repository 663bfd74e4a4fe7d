package session

import (
	"math"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/ship/frame"
	"flotilla/stages/forward"
)

// Tick looks whether the client or the upstream has been silent for too long,
// and whether anything that the session waits for has come. The listener calls
// it when it is Due, and with changed when there is a new view. It never waits
// for a session that is busy.
func (s *Session) Tick(now time.Time, changed bool) {
	if !changed && s.Looks.age(now) < time.Duration(s.due.Load()) {
		return
	}
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if s.closed {
		s.due.Store(math.MaxInt64)
		return
	}
	s.refresh()
	next := s.Looks.rest(now)
	s.tickClient(now, &next)
	s.tickStatuses(now, &next)
	if s.stitched && !s.closed {
		s.tickLeg(now, &next)
	}
	if s.link != nil && s.link.left == notLeft && !s.closed {
		s.tickLink(s.link, now, &next)
	}
	s.due.Store(int64(s.Looks.age(next)))
}

// Due is when Tick has something to do.
func (s *Session) Due() time.Time { return s.Looks.at(time.Duration(s.due.Load())) }

// look has the listener look at the session soon. It is woken for the first wish
// only: until it has looked, it knows.
func (s *Session) look() {
	if s.due.Swap(0) != 0 {
		s.Looks.wake()
	}
}

// holdPing is how often a client is pinged that waits for blocks which cannot be
// had now.
const holdPing = 10 * time.Second

// checkQuiet is how often it is looked whether a client is still there that
// neither sends nor is sent anything.
const checkQuiet = 2 * time.Second

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func sooner(next *time.Time, t time.Time) {
	if !t.IsZero() && t.Before(*next) {
		*next = t
	}
}

// tickClient closes a client that neither sends nor takes anything, and one
// that leaves what it was sent for too long.
func (s *Session) tickClient(now time.Time, next *time.Time) {
	if limit := s.Fleet.Config().SlowClientTimeout; limit > 0 && s.out.Queued() > 0 {
		at := s.out.Progress().Add(limit)
		if !now.Before(at) {
			s.closeLocked(frame.ClosePolicy, "client does not read")
			return
		}
		sooner(next, at)
	}
	if s.state == fleet.Holding || s.state == fleet.Waiting {
		// Nobody shall take the session for dead.
		at := later(s.out.Progress(), s.asked).Add(holdPing)
		if !now.Before(at) {
			s.asked = now
			_ = s.out.WriteFrame(frame.Ping, nil)
			at = now.Add(holdPing)
		}
		sooner(next, at)
	}
	if quiet := later(later(s.client.LastRead(), s.out.Progress()), s.checked); now.Sub(quiet) >= checkQuiet {
		if s.checked = now; s.client.Broken() {
			s.endLocked(0, "the client is gone")
			_ = s.client.SetReadDeadline(time.Unix(1, 0))
			return
		}
	}
	if limit := s.Fleet.Config().IdleTimeout; limit > 0 && s.abi != "" {
		last := s.client.LastRead()
		if sent := s.out.Progress(); sent.After(last) {
			last = sent
		}
		at := last.Add(limit)
		if !now.Before(at) {
			s.closeLocked(frame.CloseNormal, "idle for longer than idle_timeout")
			return
		}
		sooner(next, at)
	}
}

// tickStatuses answers what can be answered by now, and closes a client whose
// status request nobody could answer in time (T6).
func (s *Session) tickStatuses(now time.Time, next *time.Time) {
	if len(s.statuses.waiting) == 0 || s.closed {
		return
	}
	s.answerStatuses()
	if len(s.statuses.waiting) == 0 {
		return
	}
	// The head that they wait for may come with any view.
	sooner(next, now.Add(LookInterval))
	at := s.statuses.since.Add(s.Fleet.Config().ConnectTimeout())
	if !now.Before(at) {
		s.closeLocked(frame.CloseUnexpected, "fleet status unavailable")
		return
	}
	sooner(next, at)
}

// tickLink applies the silence rules to the link.
func (s *Session) tickLink(l *link, now time.Time, next *time.Time) {
	u := &s.x.View.Upstreams[l.upstream]
	if u.Removed && s.x.Movable() {
		s.log().Info("the upstream is no longer in the configuration; the session moves", "server", u.Server.Name)
		l.fail(fleet.EndOperator)
		return
	}
	switch {
	case u.Online && !u.Late:
		l.lost = time.Time{}
		l.probed.Store(false)
	case l.lost.IsZero():
		// The monitor hears nothing from the node: is the link dead too?
		l.lost = now
		l.probed.Store(true)
		l.sendPing()
	}
	owed := forward.Owed(&s.x)
	if owed && !l.owed {
		l.progress = now
	}
	l.owed = owed
	// What waits for the client is not the upstream's silence.
	if s.out.Queued() > 0 {
		l.progress = now
	}
	clock := l.clock()
	clock.Frozen = s.x.Link.Frozen
	v := forward.Silence(s.Fleet.Config(), now, &clock, owed, s.x.Elsewhere)
	if v.Keep && !l.kept {
		l.kept = true
		s.log().Warn("an upstream owes a block that no other one could serve; it is kept for now", "server", u.Server.Name, "block", s.x.Cursor)
	}
	switch {
	case v.End != "":
		if v.End == fleet.EndSilent {
			s.log().Warn("nothing at all comes from an upstream", "server", u.Server.Name)
		}
		l.fail(v.End)
	case v.Ping:
		l.sendPing()
		*next = now
	default:
		sooner(next, v.Again)
	}
	if l.Writer.Queued() > maxUnread {
		l.fail(fleet.EndUnclean)
	}
}

// maxUnread is how many bytes of requests and acks an upstream may leave
// unread.
const maxUnread = 4 << 20
