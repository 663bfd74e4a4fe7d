// Package dedup is the stage that asks of every result: has the client had
// this already, and does it follow what the client has?
package dedup

import (
	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
)

// Name is the stage's name.
const Name = "dedup"

// Stage is the dedup stage.
type Stage struct{}

// New makes the stage.
func New(*config.Listener) pipeline.Stage { return &Stage{} }

// Name is "dedup".
func (*Stage) Name() string { return Name }

// Down drops what the client has had, leaves an upstream that skips or breaks
// the chain at a seam while another could do better, and moves the cursor for
// what is passed on (S24 to S28).
func (*Stage) Down(x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
	first := x.Link.First
	seam := x.Link.Seam && first
	x.Link.First = false
	if r.Kind == pipeline.KeepAlive {
		return pipeline.Step{}
	}
	// Archives never send a block twice unless asked to.
	if r.Num < x.Cursor && (x.Window || !x.Link.Frozen) && repeated(x, r) {
		return drop(x, r)
	}
	if x.Link.Frozen {
		if r.Violation = breach(x, r, first); r.Violation != "" {
			return leave(x, r, fleet.EndViolation)
		}
		fill(x, r)
		commit(x, r)
		return pipeline.Step{}
	}
	switch {
	case r.Num < x.Cursor:
		r.Fork = true
	case r.Num > x.Cursor:
		if seam && x.Elsewhere() {
			return leave(x, r, fleet.EndUncovered)
		}
		r.Jump = true
	}
	if r.HasThis && x.Behind(r.Num, r.LIB.Num) {
		return leave(x, r, fleet.EndBehind)
	}
	if (first || r.Fork) && denies(x, r) {
		return leave(x, r, fleet.EndDiscontinuity)
	}
	if seam && breaks(x, r) {
		if (!x.Fresh || x.Settled >= x.Delivered.Last().Num) && x.Elsewhere() {
			return leave(x, r, fleet.EndDiscontinuity)
		}
		r.Broken = true
	}
	commit(x, r)
	return pipeline.Step{}
}

// repeated reports whether a result below the cursor is one that the client
// has. A remembered id decides, always: real nodes send a block twice now and
// then. What is not remembered is taken for a repetition inside the dedup
// window only (S24); outside of it the node has switched forks.
func repeated(x *pipeline.Exchange, r *pipeline.Result) bool {
	if r.Kind == pipeline.Block {
		if have := x.Delivered.Find(r.Num); have != nil {
			return have.ID == r.This.ID
		}
	}
	if !x.Window {
		return false
	}
	if r.Kind == pipeline.Idless {
		return true
	}
	// No longer remembered, and irreversible when it was delivered.
	last := x.Delivered.Last()
	return last != nil && r.Num <= min(x.Settled, last.Num)
}

// refund takes back what a result cost that is not passed on.
func refund(x *pipeline.Exchange, r *pipeline.Result) {
	if !r.Uncredited {
		x.Credit++
	}
}

// drop withholds a result. The upstream is owed an ack for it (S21).
func drop(x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
	refund(x, r)
	x.Ack++
	return pipeline.Step{Do: pipeline.Done}
}

// leave ends the link over a result.
func leave(x *pipeline.Exchange, r *pipeline.Result, end fleet.End) pipeline.Step {
	refund(x, r)
	return pipeline.Leaving(end)
}

// breaks reports whether a result names another block before it than the one
// that the client got (S26).
func breaks(x *pipeline.Exchange, r *pipeline.Result) bool {
	last := x.Delivered.Last()
	return last != nil && r.HasThis && r.HasPrev && r.This.Num == last.Num+1 && r.Prev.ID != last.ID
}

// denies reports whether a result names another block, in its own place or in
// that before it, than one that the client has and that was irreversible then.
// The upstream is on a branch that is dead for good: nobody is better.
func denies(x *pipeline.Exchange, r *pipeline.Result) bool {
	other := func(p *ship.Pos) bool {
		have := x.Delivered.Find(p.Num)
		return have != nil && p.Num <= x.Settled && p.ID != have.ID
	}
	return r.HasThis && (other(&r.This) || r.HasPrev && other(&r.Prev))
}

// breach is the rule for archives that a result breaks by its place in the
// stream (S24 to S27); "" for none. What an archive sends first has to continue
// what the client has got, if that is irreversible or this is a seam within its
// request. What the client only says it has may be of a fork.
func breach(x *pipeline.Exchange, r *pipeline.Result, first bool) fleet.Violation {
	switch last := x.Delivered.Last(); {
	case r.Num < x.Cursor:
		return fleet.ViolationRewind
	case r.Num > x.Cursor:
		return fleet.ViolationGap
	case first && breaks(x, r) && (x.Link.Seam && !x.Fresh || last.Num <= x.Settled):
		return fleet.ViolationDiscontinuity
	case r.Uncredited:
		return fleet.ViolationCredit
	}
	return ""
}

// fill gives the first block of an archive the id of the block before, which no
// log of the archive has: the client has it, and it was irreversible then (S30).
func fill(x *pipeline.Exchange, r *pipeline.Result) {
	if !r.HasThis || r.HasPrev {
		return
	}
	if last := x.Delivered.Last(); last != nil && last.Num == r.This.Num-1 && last.Num <= min(x.Settled, x.LIBSent.Num) {
		r.FillPrev, r.Prev = true, *last
	}
}

func commit(x *pipeline.Exchange, r *pipeline.Result) {
	x.Fresh = false
	if r.Fork {
		x.Forget(r.Num)
	}
	x.Cursor = r.Num + 1
	lib := r.LIB.Num
	if x.Link.Frozen {
		// Its own is only the end of its range.
		lib = x.Tip.LIB.Num
	}
	// Of blocks above it says nothing yet: another node may send those, of a fork.
	x.Settled = max(x.Settled, min(lib, r.Num))
	if r.HasThis {
		x.Delivered.Add(&r.This)
		x.Delivered.Settle(x.Settled)
	}
	if r.Num >= x.Floor {
		x.Window = false
	}
	x.Through(r.Num)
	if !r.Broken {
		x.SeamLeft = x.SeamLeft[:0]
	}
}
