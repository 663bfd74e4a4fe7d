// Package rewrite is the stage that changes what must read differently: head
// and LIB never go back for a client, whichever node it is on.
package rewrite

import (
	"flotilla/gateway/config"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
)

// Name is the stage's name.
const Name = "rewrite"

// Stage is the rewrite stage.
type Stage struct{}

// New makes the stage.
func New(*config.Listener) pipeline.Stage { return &Stage{} }

// Name is "rewrite".
func (*Stage) Name() string { return Name }

// Down raises head and LIB of a result to what the client was told before. Those
// of an archive only tell where it ends: they become the fleet's first.
func (*Stage) Down(x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
	if st := x.View.Stitching; st != nil && !st.PatchHeadLIB {
		x.HeadSent, x.LIBSent = higher(x.HeadSent, r.Head), higher(x.LIBSent, r.LIB)
		return pipeline.Step{}
	}
	if x.Link.Frozen && x.Tip.Head.Num > 0 && x.Tip.LIB.Num > 0 {
		r.Patched = r.Head != x.Tip.Head || r.LIB != x.Tip.LIB
		r.Head, r.LIB = x.Tip.Head, x.Tip.LIB
	}
	if Raise(&x.Position, &r.Head, &r.LIB) {
		r.Patched = true
	}
	return pipeline.Step{}
}

func higher(a, b ship.Pos) ship.Pos {
	if b.Num > a.Num {
		return b
	}
	return a
}

// Raise makes head and LIB at least the highest that the client was told, caps
// LIB at head, and remembers both (S32). It compares by number; the id travels
// with the number that wins. It reports whether it changed anything.
func Raise(p *pipeline.Position, head, lib *ship.Pos) bool {
	changed := false
	if head.Num < p.HeadSent.Num {
		*head, changed = p.HeadSent, true
	}
	if lib.Num < p.LIBSent.Num {
		*lib, changed = p.LIBSent, true
	}
	if lib.Num > head.Num {
		*lib, changed = *head, true
	}
	p.HeadSent.Set(head)
	p.LIBSent.Set(lib)
	return changed
}
