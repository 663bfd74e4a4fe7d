// Package dedup is the stage that asks of every result: has the client had
// this already, and does it follow what the client has?
package dedup

import (
	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
)

// Name is the stage's name.
const Name = "dedup"

// Stage is the dedup stage.
type Stage struct{}

// New makes the stage.
func New(*config.Listener) pipeline.Stage { return Stage{} }

// Name is "dedup".
func (Stage) Name() string { return Name }

// Down drops what the client has had, leaves an upstream that skips or breaks
// the chain at a seam while another could do better, and moves the cursor for
// what is passed on (S24 to S28).
func (Stage) Down(x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
	seam := x.Link.Seam && x.Link.First
	x.Link.First = false
	if r.Kind == pipeline.KeepAlive {
		return pipeline.Step{}
	}
	switch {
	case r.Num < x.Cursor:
		if repeated(x, r) {
			refund(x, r)
			return pipeline.Step{Do: pipeline.Done}
		}
		r.Fork = true
	case r.Num > x.Cursor:
		if seam && x.Elsewhere() {
			return pipeline.Leaving(fleet.EndUncovered)
		}
		r.Jump = true
	}
	if seam && breaks(x, r) {
		if (!x.Fresh || x.LIBSent.Num >= x.Delivered.Last().Num) && x.Elsewhere() {
			return pipeline.Leaving(fleet.EndDiscontinuity)
		}
		r.Broken = true
	}
	commit(x, r)
	return pipeline.Step{}
}

// repeated reports whether a result below the cursor is one that the client
// has (S24). Outside the dedup window it never is: the node has switched forks.
func repeated(x *pipeline.Exchange, r *pipeline.Result) bool {
	if !x.Window {
		return false
	}
	if r.Kind == pipeline.Idless {
		return true
	}
	if have := x.Delivered.Find(r.Num); have != nil {
		return have.ID == r.This.ID
	}
	// No longer remembered, and irreversible when it was delivered.
	last := x.Delivered.Last()
	return last != nil && r.Num <= min(x.LIBSent.Num, last.Num)
}

// refund gives the client's credit back, and owes the upstream an ack (S21).
func refund(x *pipeline.Exchange, r *pipeline.Result) {
	x.Ack++
	if !r.Uncredited {
		x.Credit++
	}
}

// breaks reports whether a result names another block before it than the one
// that the client got (S26).
func breaks(x *pipeline.Exchange, r *pipeline.Result) bool {
	last := x.Delivered.Last()
	return last != nil && r.HasThis && r.HasPrev && r.This.Num == last.Num+1 && r.Prev.ID != last.ID
}

func commit(x *pipeline.Exchange, r *pipeline.Result) {
	x.Fresh = false
	if r.Fork {
		x.Delivered.Forget(r.Num)
	}
	x.Cursor = r.Num + 1
	if r.HasThis {
		x.Delivered.Add(&r.This)
		x.Delivered.Settle(x.LIBSent.Num)
	}
	if r.Num >= x.Floor {
		x.Window = false
	}
	if x.Stuck && r.Num >= x.StuckAt {
		x.Stuck, x.Failures = false, 0
	}
	if !r.Broken {
		x.SeamLeft = x.SeamLeft[:0]
	}
}
