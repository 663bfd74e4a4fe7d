package session

import (
	"flotilla/gateway/ship"
	"flotilla/stages/forward"
	"flotilla/stages/plan"
)

const (
	// aheadBlocks is how near to the seam the next leg is asked for.
	aheadBlocks = 256
	// aheadCredit bounds what comes before it can be passed on; aheadMore is how
	// much more than before is worth a message.
	aheadCredit = 32
	aheadMore   = 8
)

// askAhead sends the request of the next leg on the link that stands by, while
// the last blocks of the present one are still on their way: what the client has
// credit for beyond them. The first blocks of the next leg wait in the socket
// then, and the handoff costs no round trip.
//
// It wants all that comes before the seam to be irreversible, so that no fork
// can make another request of it.
func (s *Session) askAhead() {
	b, link := s.standby, &s.x.Link
	if b == nil || b.link == nil || b.taken && b.asked == nil || s.link == nil || s.link.left != notLeft || !link.Requested || !link.Exact || link.Cursor >= link.End {
		return
	}
	if link.End >= s.x.Want.End || s.x.Tip.LIB.Num < link.End-1 {
		return
	}
	left := link.End - link.Cursor
	if left > aheadBlocks || s.x.Credit <= left {
		return
	}
	spare := min(s.x.Credit-left, aheadCredit)
	if b.asked != nil {
		if told := b.asked.MaxInFlight; spare >= told+aheadMore {
			b.link.sendAck(spare - told)
			b.asked.MaxInFlight = spare
		}
		return
	}
	cursor := s.x.Cursor
	s.x.Cursor = link.End
	end, ok := plan.Leg(&s.x, b.upstream)
	s.x.Cursor = cursor
	if !ok {
		return
	}
	b.stop()
	q := s.x.Want
	q.Start, q.End, q.Have, q.MaxInFlight = link.End, end, nil, spare
	// A failure shows when the link is taken.
	_ = b.link.send(ship.AppendRequest(nil, &q))
	b.asked = &q
}

// askedRight reports whether what a link was asked for ahead, if anything, is
// what the client wants now.
func (s *Session) askedRight(l *link, end uint32) bool {
	q := l.asked
	return q == nil || s.leg.ended && q.Start == s.x.Cursor && q.End <= end && q.MaxInFlight <= s.x.Credit
}

// joinAhead takes in that the request of the leg is out already, and gives the
// upstream the rest of the client's credit.
func (s *Session) joinAhead(l *link) {
	s.x.LegEnd = l.asked.End
	forward.Sent(&s.x, l.asked, s.seam)
	s.x.Ack = s.x.Credit - l.asked.MaxInFlight
	s.x.Link.Window = s.x.Credit
	s.flushLink()
}
