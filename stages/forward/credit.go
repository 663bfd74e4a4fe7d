package forward

import (
	"math"

	"flotilla/gateway/pipeline"
)

// addCredit takes an ack of the client: the credit stops at the largest that a
// u32 holds, and the upstream is told only of the actual rise (S19). Without a
// request on a link the credit travels with the next request.
func addCredit(x *pipeline.Exchange, n uint32) {
	rise := min(n, math.MaxUint32-x.Credit)
	x.Credit += rise
	if x.Link.Up && x.Link.Requested {
		x.Ack += rise
		x.Link.Window = max(x.Link.Window, x.Credit)
	}
}

// AckDue reports whether the upstream is to be told now of the credit in x.Ack.
// While it has more than half of what the client ever gave, it can wait: a
// client that acks every block then costs an upstream message every few blocks.
// At the head of the chain, where blocks come one at a time, a quarter will do.
func AckDue(x *pipeline.Exchange) bool {
	enough := x.Link.Window / 2
	if atHead(x) {
		enough = x.Link.Window / 4
	}
	return x.Ack > 0 && x.Credit-min(x.Ack, x.Credit) <= enough
}

func atHead(x *pipeline.Exchange) bool { return x.Link.Exact && x.Link.Cursor > x.Link.Head }

// Gatherable is the window of credit that a client works with while some of its
// acks may come together before any means something to the upstream (AckDue). It is
// 0 where each ack may matter: at the head of the chain, and where nothing is to
// come.
func Gatherable(x *pipeline.Exchange) uint32 {
	if !x.Link.Requested || !x.Link.Exact || atHead(x) || x.Link.Cursor >= x.Link.End {
		return 0
	}
	return x.Link.Window
}

// charge takes a result off the credit. A live node that sends without credit
// is passed on all the same (S20).
func charge(x *pipeline.Exchange, r *pipeline.Result) {
	if r.Uncredited = x.Credit == 0; !r.Uncredited {
		x.Credit--
	}
}

// classify finds the block that a result stands for, and moves the link's
// cursor behind it (S22).
func classify(x *pipeline.Exchange, r *pipeline.Result) {
	l := &x.Link
	if r.HasThis {
		r.Kind, r.Num = pipeline.Block, r.This.Num
		l.Cursor, l.Exact = r.Num+1, true
		return
	}
	gate := r.Head.Num
	if l.Irreversible {
		gate = r.LIB.Num
	}
	if l.Exact && l.Cursor <= gate && l.Cursor < l.End {
		r.Kind, r.Num = pipeline.Idless, l.Cursor
		l.Cursor++
		return
	}
	r.Kind = pipeline.KeepAlive
	l.KeepAlives = true
}
