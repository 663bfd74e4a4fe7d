package simulator

import (
	"time"

	"flotilla/gateway/ship"
)

// trouble is what faults have made of a link; the session's mutex guards it.
type trouble struct {
	greeting
	// judged says up to where the faults of a moment were taken.
	judged [moments]judged
	// twist is how the next block will be wrong.
	twist twist
	// silent links send nothing at all; stalled ones no block results.
	silent, stalled bool
	// notBefore is when the next block result may be sent, pace how long after
	// each one that is.
	notBefore time.Time
	pace      time.Duration
	// then is called when all that was gathered is written. The writer's own.
	then func()
}

type judged struct {
	block  uint32
	serial uint64
}

// twist is how one block result is wrong.
type twist struct {
	tear, badPrev, noIDs, truncate, version bool
	omit                                    [FieldFinality + 1]bool
}

// outcome is what becomes of a link after its faults.
type outcome int

const (
	goesOn outcome = iota
	// moved means that the cursor is somewhere else.
	moved
	// rests means that no block result is due now.
	rests
	// ends means that the link ends without a Close frame.
	ends
)

// suffer takes the faults that are to happen at the cursor now. r is a result
// without a block.
func (s *session) suffer(m moment, out []byte, o *observation, r *ship.Block) ([]byte, outcome) {
	t := &s.trouble
	var after uint64
	if t.judged[m].block == s.cursor {
		after = t.judged[m].serial
	}
	hit, last := s.node.strike(m, s.cursor, s.fresh, after)
	t.judged[m] = judged{block: s.cursor, serial: last}
	at := s.cursor
	for _, f := range hit {
		switch f.Kind {
		case Drop:
			return out, ends
		case CloseLink:
			s.bye = closeNormal
			return out, rests
		case Stall:
			if t.stalled = f.For == 0; !t.stalled {
				t.notBefore = time.Now().Add(f.For)
			}
		case Slow:
			t.pace = max(f.For, 1)
			t.notBefore = time.Now().Add(t.pace)
		case Silence:
			t.silent = true
			return out, rests
		case FreezeNode:
			t.then = s.node.Freeze
			return out, rests
		case KillNode:
			t.then = s.node.Kill
			return out, ends
		case HeadOnly:
			out = s.emit(out, r, twist{})
		case Jump:
			s.cursor += f.Count
		case Replay:
			s.cursor -= min(f.Count, max(s.cursor, 1)-1)
		case Overrun, Overshoot:
			out = s.sendBlock(out, o, r)
			return out, moved
		case Hasten:
			hasty := *r
			s.describe(&hasty, o)
			hasty.Traces, hasty.Deltas = nil, nil
			out = s.emit(out, &hasty, twist{})
		case StrayStatus:
			status := s.node.status(o, s.req.V1)
			out = appendFrame(out, true, opBinary, ship.AppendStatus(nil, &status))
		case StrayText:
			out = appendFrame(out, true, opText, []byte("nothing that was asked for"))
		case Garbage:
			out = appendFrame(out, true, opBinary, []byte("\x7fnothing that anybody knows"))
		case Tear:
			t.twist.tear = true
		case BreakPrev:
			t.twist.badPrev = true
		case NoIDs:
			t.twist.noIDs = true
		case Truncate:
			t.twist.truncate = true
		case OtherVersion:
			t.twist.version = true
		case Omit:
			t.twist.omit[f.Field] = true
		}
	}
	switch {
	case s.cursor != at:
		t.twist = twist{}
		s.fresh = false
		return out, moved
	case t.resting():
		return out, rests
	}
	return out, goesOn
}

// resting reports whether no block result may be sent now.
func (t *trouble) resting() bool { return t.stalled || !t.notBefore.IsZero() }

// pass lets what waited for this time go on.
func (t *trouble) pass(now time.Time) {
	if !now.Before(t.notBefore) {
		t.notBefore = time.Time{}
	}
}

// apply makes a described block as wrong as it is to be.
func (w *twist) apply(r *ship.Block) {
	if w.badPrev && r.HasThis {
		r.HasPrev, r.Prev.Num = true, r.This.Num-1
		r.Prev.ID[31] ^= 1
	}
	for f, field := range map[Field]*[]byte{FieldBlock: &r.Block, FieldTraces: &r.Traces, FieldDeltas: &r.Deltas, FieldFinality: &r.Finality} {
		if w.omit[f] {
			*field = nil
		}
	}
	if w.version {
		r.V1 = !r.V1
	}
	if w.noIDs {
		*r = ship.Block{BlockHeader: ship.BlockHeader{V1: r.V1, Head: r.Head, LIB: r.LIB}}
	}
}

// alarm is the next time at which the link has to look again, zero for none.
func (s *session) alarm() (at time.Time) {
	t := &s.trouble
	if t.silent {
		return at
	}
	sooner := func(next time.Time) {
		if at.IsZero() || next.Before(at) {
			at = next
		}
	}
	if !s.greeted && !t.noABI {
		sooner(s.began.Add(t.abiLate))
	}
	if t.idle > 0 && !s.spoke.Load() {
		sooner(s.began.Add(t.idle))
	}
	if !t.notBefore.IsZero() {
		sooner(t.notBefore)
	}
	return at
}
