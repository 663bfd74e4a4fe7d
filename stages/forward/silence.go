package forward

import (
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
)

// Clock is when things last happened on a link; zero times have not happened.
type Clock struct {
	// Byte is when any byte came, Data when any came that was not just the
	// answer to our ping (F1).
	Byte, Data time.Time
	// Progress is when a result was passed on or dropped as a repetition, the
	// request was sent, or the link became owed.
	Progress time.Time
	// Ping is when the ping was sent that is not answered yet.
	Ping time.Time
	// Lost is when the monitor lost the upstream, while it has not come back;
	// Probed tells that the link was pinged for it and sent nothing since.
	Lost   time.Time
	Probed bool
	// Frozen: the link is to an archive, which is not kept through a stall.
	Frozen bool
}

// Verdict is what the silence of a link calls for.
type Verdict struct {
	// Ping: send a ping now.
	Ping bool
	// End is how the link ends; "" when it does not.
	End fleet.End
	// Keep: the link is stalled, and nobody else could serve the block.
	Keep bool
	// Again is when to look again at the latest; zero when nothing is due.
	Again time.Time
}

const (
	// probeTime is how long an upstream that the monitor lost has to show a
	// sign of life on a link (F4).
	probeTime = time.Second
	// offlineSilence is how long an upstream that the monitor lost may owe
	// blocks (F6).
	offlineSilence = 5 * time.Second
	// keepFactor is how many stall times a node is kept that nobody can stand
	// in for (F7).
	keepFactor = 3
)

// Owed reports whether the link could send blocks now: it has a request and
// credit, and its next block is there (F2).
func Owed(x *pipeline.Exchange) bool {
	l := &x.Link
	next := l.Cursor
	if !l.Exact {
		next = max(next, x.Cursor)
	}
	if !l.Requested || x.Credit == 0 || next >= l.End {
		return false
	}
	if l.Frozen {
		return true // it was asked for nothing above its own end or the gate
	}
	if l.Irreversible {
		return next <= max(l.LIB, x.Tip.LIB.Num)
	}
	return next <= max(l.Head, x.Tip.Head.Num)
}

// Silence judges how long a link has been silent (F3 to F7). owed is Owed, and
// elsewhere reports whether another upstream could serve the next block; it is
// called only when that matters.
func Silence(cfg *config.Listener, now time.Time, c *Clock, owed bool, elsewhere func() bool) Verdict {
	var v Verdict
	due := func(t time.Time) bool {
		if !now.Before(t) {
			return true
		}
		if v.Again.IsZero() || t.Before(v.Again) {
			v.Again = t
		}
		return false
	}
	if c.Probed && due(later(c.Lost, c.Byte).Add(probeTime)) {
		v.End = fleet.EndSilent
		return v
	}
	if limit := cfg.LivenessTimeout; limit > 0 {
		switch {
		case c.Ping.IsZero():
			v.Ping = due(c.Byte.Add(limit / 2))
		case due(later(c.Byte.Add(limit), c.Ping.Add(limit/2))):
			v.End = fleet.EndSilent
			return v
		}
	}
	if !owed {
		return v
	}
	since := later(c.Data, c.Progress)
	if limit := cfg.IdleTimeout; limit > 0 && due(since.Add(limit)) {
		v.End = fleet.EndIdle
		return v
	}
	if limit := cfg.StallTimeout; limit > 0 && due(since.Add(limit)) {
		if c.Frozen || due(since.Add(keepFactor*limit)) || elsewhere() {
			v.End = fleet.EndStall
			return v
		}
		v.Keep = true
		due(now.Add(time.Second))
	}
	if !c.Lost.IsZero() && due(later(since, c.Lost).Add(offlineSilence)) {
		v.End = fleet.EndOffline
	}
	return v
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
