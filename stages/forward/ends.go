package forward

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
)

// Consequence is what the end of a link brings (spec "ship" 5.2).
type Consequence struct {
	// Strike: the end counts against the upstream and the session's budget.
	Strike bool
	// Pause is how long to wait before the next link.
	Pause time.Duration
	// Exhausted: the budget at this block is used up; the client is closed.
	Exhausted bool
	// Dead: no byte came, so the upstream is offline for everyone.
	Dead bool
	// Suspect: the upstream is connected and never sent a block that another
	// one has; its log may have a hole there.
	Suspect bool
}

// budget is how many strikes at one block close the client (F8).
const budget = 5

const pause = 100 * time.Millisecond

// ends is the table of link ends. soft: others are preferred
// afterwards; hard: not picked at all for so long.
var ends = map[fleet.End]struct {
	strike, soft, dead, atOnce bool
	hard                       time.Duration
}{
	fleet.EndUnclean:       {strike: true, soft: true},
	fleet.EndClean:         {},
	fleet.EndIdle:          {},
	fleet.EndStall:         {soft: true}, // of an archive: a strike as well
	fleet.EndOffline:       {soft: true},
	fleet.EndSilent:        {soft: true, dead: true},
	fleet.EndViolation:     {strike: true, soft: true},
	fleet.EndUncovered:     {atOnce: true, hard: 30 * time.Second},
	fleet.EndDiscontinuity: {atOnce: true, hard: 30 * time.Second},
	fleet.EndSend:          {hard: AvoidFailedDial},
	fleet.EndOperator:      {soft: true, hard: 10 * time.Second},
	fleet.EndNoBlockLog:    {soft: true, atOnce: true},
	fleet.EndBehind:        {}, // the plan leaves it alone until it is there
}

// AvoidFailedDial is how long a session avoids an upstream that it could not
// dial (3.4).
const AvoidFailedDial = 2 * time.Second

// Ended takes the end of the link to x.Current into the exchange: exclusions,
// strikes and the budget. owed is Owed while the link was up: a strike needs a
// block that could have come, as nothing can fail for a client that is owed
// nothing, or a result that must not be sent. It is called while x.Link still
// tells of the link.
func Ended(x *pipeline.Exchange, end fleet.End, owed bool) Consequence {
	rule := ends[end]
	i := x.Current
	switch {
	case end == fleet.EndStall && x.Link.Frozen:
		// An archive has nothing to wait for.
		rule.strike = true
	case end == fleet.EndViolation:
		// What it sent speaks against it, even if that was the last block of the
		// request, or came without credit, so that nothing is owed by now.
		owed = true
	}
	x.Soft = pipeline.None
	if rule.soft {
		x.Soft = i
	}
	if rule.hard > 0 {
		x.Exclude(i, pipeline.Exclusion{Until: x.Now.Add(rule.hard)})
	}
	if end == fleet.EndDiscontinuity {
		x.SeamLeft = append(x.SeamLeft, i)
	}
	c := Consequence{Pause: jitter(pause, x.Session, 0), Dead: rule.dead, Suspect: end == fleet.EndStall && !rule.strike && owed && x.Elsewhere()}
	if rule.atOnce {
		c.Pause = 0
	}
	switch {
	case !owed:
	case rule.strike:
		c.Strike = true
		if x.StuckAt != x.Cursor {
			x.StuckAt, x.Failed = x.Cursor, x.Failed[:0]
		}
		x.Failed = append(x.Failed, i)
		failures := len(x.Failed)
		c.Exhausted = failures >= budget
		c.Pause = jitter(pause<<(failures-1), x.Session, uint32(failures))
	case rule.hard == 0 && end != fleet.EndNoBlockLog:
		// It may end like that again and again: others are to have their turn.
		x.Leave(i, x.Cursor)
	}
	return c
}

// Lift ends the exclusion of the upstreams that were left at this seam because
// they did not continue the stream: nobody does (S26).
func Lift(x *pipeline.Exchange) {
	for _, i := range x.SeamLeft {
		x.Exclude(i, pipeline.Exclusion{})
	}
	x.SeamLeft = x.SeamLeft[:0]
}

// maxHoldPause is the longest pause between two tries of a session that holds.
const maxHoldPause = 3200 * time.Millisecond

// HoldPause is the pause after the n-th try, from 0 on, of a session that
// holds because no upstream can be had (P14).
func HoldPause(session uint64, n int) time.Duration {
	return jitter(min(pause<<min(n, 5), maxHoldPause), session, uint32(n))
}

// jitter spreads a pause by a fifth to both sides, the same way each time for
// one session and count (F9).
func jitter(d time.Duration, session uint64, count uint32) time.Duration {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, session), count))
	return time.Duration(float64(d) * (0.8 + float64(h.Sum64()%4001)/10000))
}
