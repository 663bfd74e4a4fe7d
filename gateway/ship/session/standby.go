package session

import (
	"context"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
	"flotilla/stages/forward"
)

// standbyTime is how long a link that is not used yet is kept (P13).
const standbyTime = 60 * time.Second

// standby is a link to the upstream of the next leg, connected ahead of time.
// While it waits it is read: its pings are answered, and its end is noticed
// before the client needs it. The session's lock guards it, but for link, which
// is its goroutine's until done is closed.
type standby struct {
	upstream int
	since    time.Time
	cancel   context.CancelFunc
	done     chan struct{}
	// link is nil when it did not come up, or did not last.
	link *link
	// dropped: nobody wants it any more. taken: the session wants it, and its
	// goroutine is to stop reading. handed: the goroutine has stopped, and link
	// is whoever's has the standby.
	dropped, taken, handed bool
	// asked is the request that was sent on it ahead of the seam; nil for none.
	asked *ship.BlocksRequest
}

func (s *Session) predialBlocks() uint32 {
	if st := s.x.View.Stitching; st != nil {
		return st.PredialBlocks
	}
	return 0
}

// predial connects to the upstream that the leg after the present one will be
// on, if that is another one (P13). The caller holds the lock.
func (s *Session) predial() {
	cursor, soft := s.x.Cursor, s.x.Soft
	s.x.Cursor = s.x.Link.End
	i := s.Fleet.Reserve(func() int {
		s.planLeg(false)
		if s.x.Plan.Do != pipeline.Serve || s.x.Pick == s.x.Link.Upstream || s.standby != nil && s.x.Pick == s.standby.upstream {
			return pipeline.None
		}
		return s.x.Pick
	})
	s.x.Cursor, s.x.Soft = cursor, soft
	if i == pipeline.None || s.closed {
		return
	}
	s.dropStandbyLocked()
	ctx, cancel := context.WithCancel(s.ended)
	b := &standby{upstream: i, since: s.x.Now, cancel: cancel, done: make(chan struct{})}
	s.standby, s.x.Standby = b, i
	s.racers.Go(func() { s.attend(ctx, b) })
}

// attend dials a standby link and reads it until it is taken, dropped, or dead.
func (s *Session) attend(ctx context.Context, b *standby) {
	defer b.cancel()
	defer close(b.done)
	l, err := s.open(ctx, b.upstream)
	if err != nil {
		s.mu.Lock()
		s.forget(b)
		s.mu.Unlock()
		if ctx.Err() == nil {
			s.Fleet.Stats.Predials.Inc(fleet.PredialFailed)
		}
		return
	}
	s.mu.Lock()
	b.link = l
	over := b.dropped || s.closed
	stop := b.taken
	s.mu.Unlock()
	if !over && !stop {
		over = !s.watch(l, b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Dropped by now, it was not in time for the leg.
	if over || b.dropped || s.closed {
		s.forget(b)
		s.abandon(b)
		return
	}
	b.handed = true
}

// abandon gives up the link of a standby that nothing reads any more.
func (s *Session) abandon(b *standby) {
	l := b.link
	b.link = nil
	s.Fleet.Release(b.upstream)
	s.Fleet.Stats.Predials.Inc(fleet.PredialDiscarded)
	s.racers.Go(func() { part(l) })
}

// watch reads a standby link. It reports true when it was asked to stop, and
// false when the link is of no use any more.
func (s *Session) watch(l *link, b *standby) bool {
	var m frame.Message
	for {
		for {
			ok, err := l.Reader.Next(&m)
			if err != nil || ok && m.Op == frame.Close {
				return false
			}
			if !ok {
				break
			}
			l.ping.Store(0)
			if m.Op == frame.Ping {
				_ = l.Writer.WriteMasked(frame.Pong, m.Payload(nil))
			}
		}
		err := l.Reader.Fill()
		s.mu.Lock()
		taken := b.taken
		s.mu.Unlock()
		// A read that was under way may still end well. Once the link is taken, what
		// it brought may answer a request, and is for whoever takes the link.
		if taken || err != nil {
			return taken
		}
	}
}

// forget makes b no longer the session's standby, if it is. The caller holds
// the lock.
func (s *Session) forget(b *standby) {
	if s.standby == b {
		s.standby, s.x.Standby = nil, pipeline.None
	}
}

// takeStandby gives the link that stands by for upstream i, if there is one and
// it is alive; one for another upstream is dropped. A link that is being dialed
// is waited for.
func (s *Session) takeStandby(i int) *link {
	s.mu.Lock()
	b := s.standby
	if b == nil {
		s.mu.Unlock()
		return nil
	}
	if b.upstream != i {
		s.dropStandbyLocked()
		s.mu.Unlock()
		return nil
	}
	b.stop()
	s.mu.Unlock()
	late := time.NewTimer(raceAfter)
	defer late.Stop()
	select {
	case <-b.done:
	case <-late.C:
		// A node that is there answers much faster: dial anew, and others.
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-b.done:
	default:
		s.dropStandbyLocked()
		return nil
	}
	s.forget(b)
	l := b.link
	if l == nil {
		return nil
	}
	if err := l.SetReadDeadline(time.Time{}); err != nil {
		s.abandon(b)
		return nil
	}
	s.x.Current = i
	l.standby, l.asked = true, b.asked
	l.progress = time.Now()
	s.Fleet.Stats.Predials.Inc(fleet.PredialUsed)
	return l
}

func (s *Session) dropStandby() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropStandbyLocked()
}

// dropStandbyLocked is dropStandby for the holder of the lock. The standby's
// goroutine closes the link.
func (s *Session) dropStandbyLocked() {
	b := s.standby
	if b == nil {
		return
	}
	b.dropped = true
	s.forget(b)
	b.cancel()
	if b.link == nil {
		return
	}
	_ = b.link.Writer.WriteMasked(frame.Close, frame.ClosePayload(frame.CloseNormal, ""))
	if b.handed {
		s.abandon(b)
	} else {
		_ = b.link.SetReadDeadline(time.Unix(1, 0))
	}
}

// stop has the goroutine of a standby hand its link over.
func (b *standby) stop() {
	b.taken = true
	if b.link != nil && !b.handed {
		_ = b.link.SetReadDeadline(time.Unix(1, 0))
	}
}

// tickStandby drops a standby link that is not wanted any more, and one that
// does not answer.
func (s *Session) tickStandby(now time.Time, next *time.Time) {
	b := s.standby
	if b == nil || b.taken {
		return
	}
	u := &s.x.View.Upstreams[b.upstream]
	if now.Sub(b.since) >= standbyTime || !u.Online || !s.x.View.Accepts(b.upstream, fleet.NeedOf(&s.x.Want)) {
		s.dropStandbyLocked()
		return
	}
	if b.link == nil {
		return
	}
	clock := b.link.clock()
	v := forward.Silence(s.Fleet.Config(), now, &clock, false, nil)
	switch {
	case v.End != "":
		s.dropStandbyLocked()
	case v.Ping:
		b.link.sendPing()
		*next = now
	default:
		sooner(next, v.Again)
	}
}
