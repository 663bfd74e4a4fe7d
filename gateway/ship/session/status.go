package session

import (
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
	"flotilla/stages/rewrite"
)

// maxStatuses bounds the status requests that wait or are relayed (T6).
const maxStatuses = 1024

// statusQueue are the status requests that could not be answered yet.
type statusQueue struct {
	// waiting are the requests that no upstream has been asked, oldest first:
	// the version of each.
	waiting []bool
	// since is when the oldest of them began to wait.
	since time.Time
}

// relayed is a status request that was passed on to the upstream.
type relayed struct{ v1 bool }

// askStatus takes a status request of the client.
func (s *Session) askStatus(v1 bool) {
	q := &s.statuses
	pending := len(q.waiting)
	if s.link != nil {
		pending += len(s.link.relayed)
	}
	if pending >= maxStatuses || s.out.Queued() > s.Fleet.Config().ClientBuffer {
		s.closeLocked(frame.ClosePolicy, "too many queued status requests")
		return
	}
	if len(q.waiting) == 0 {
		q.since = s.x.Now
	}
	q.waiting = append(q.waiting, v1)
	s.answerStatuses()
}

// answerStatuses answers the waiting requests from what is known of the fleet,
// or else asks the upstream. While relayed ones are outstanding the later ones
// go the same way, which keeps the order (T5).
func (s *Session) answerStatuses() {
	if len(s.statuses.waiting) == 0 {
		return
	}
	if s.link != nil && len(s.link.relayed) > 0 {
		s.relayStatuses()
		return
	}
	head, lib, known := s.Fleet.Tip()
	switch {
	case s.stitched && (!known || s.x.View.Unreported() > 0):
		return // nobody can be asked for what the whole fleet has
	case !known:
		s.relayStatuses()
		return
	}
	for _, v1 := range s.statuses.waiting {
		st := ship.Status{V1: v1, Head: head, LIB: lib}
		rewrite.Raise(&s.x.Position, &st.Head, &st.LIB)
		st.Trace = s.x.View.Reported(fleet.Trace, head.Num)
		st.ChainState = s.x.View.Reported(fleet.ChainState, head.Num)
		st.Finality = s.x.View.Reported(fleet.Finality, head.Num)
		if id := s.x.View.ChainID; id != nil {
			st.HasChainID, st.ChainID = true, *id
		}
		// A failure shows as the end of the client's stream.
		_ = s.out.WriteFrame(frame.Binary, ship.AppendStatus(nil, &st))
		s.Fleet.Stats.StatusReplies.Inc(replyLabel(v1, true))
	}
	s.statuses.waiting = s.statuses.waiting[:0]
}

func replyLabel(v1, router bool) fleet.StatusReply {
	switch {
	case v1 && router:
		return fleet.V1Router
	case v1:
		return fleet.V1Upstream
	case router:
		return fleet.V0Router
	default:
		return fleet.V0Upstream
	}
}

func (s *Session) relayStatuses() {
	if s.link == nil || s.link.left != notLeft {
		return
	}
	for _, v1 := range s.statuses.waiting {
		// A failure shows as the end of the stream, which brings them back.
		_ = s.link.send(ship.AppendStatusRequest(nil, v1))
		s.link.relayed = append(s.link.relayed, relayed{v1})
	}
	s.statuses.waiting = s.statuses.waiting[:0]
}

// takeStatusResult is a status result from the upstream: the answer to the
// oldest relayed request, or nothing that anybody asked for.
func (s *Session) takeStatusResult(l *link, message []byte) {
	var st ship.Status
	if len(l.relayed) == 0 || ship.DecodeStatus(message, &st) != nil {
		return
	}
	l.relayed = l.relayed[1:]
	s.Fleet.Observe(s.x.View, l.upstream, &st.Head, &st.LIB)
	rewrite.Raise(&s.x.Position, &st.Head, &st.LIB)
	_ = s.out.WriteFrame(frame.Binary, ship.AppendStatus(nil, &st))
	s.Fleet.Stats.StatusReplies.Inc(replyLabel(st.V1, false))
}

// bringBack puts the relayed requests of a link that has ended back in front
// of those that wait.
func (q *statusQueue) bringBack(l *link, now time.Time) {
	if len(l.relayed) == 0 {
		return
	}
	back := make([]bool, 0, len(l.relayed)+len(q.waiting))
	for _, r := range l.relayed {
		back = append(back, r.v1)
	}
	if len(q.waiting) == 0 {
		q.since = now
	}
	q.waiting = append(back, q.waiting...)
	l.relayed = nil
}
