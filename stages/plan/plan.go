// Package plan is the stage that finds out who could serve a request, and how
// well.
package plan

import (
	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
)

// Name is the stage's name.
const Name = "plan"

// Stage is the plan stage. In a pool every upstream has the whole stream, so
// there is one leg, and the question is who may be asked for its first block.
// Range-split fleets are in stitched.go.
type Stage struct{}

// New makes the stage.
func New(*config.Listener) pipeline.Stage { return &Stage{} }

// Name is "plan".
func (*Stage) Name() string { return Name }

// Up lists in Exchange.Candidates the upstreams that may be picked for the
// exchange's block (spec "ship" 3.2); none for messages that need no upstream.
func (*Stage) Up(x *pipeline.Exchange) pipeline.Step {
	x.Candidates = x.Candidates[:0]
	if x.Stitched {
		// A message only changes what is asked; the session then plans its leg.
		if x.Cause != pipeline.Received {
			stitched(x)
		}
		return pipeline.Step{}
	}
	if x.Cause == pipeline.Received && !isBlocks(&x.Request) {
		return pipeline.Step{}
	}
	block, need := x.Block(), fleet.NeedOf(&x.Want)
	if x.Cause == pipeline.Received {
		block, need = x.Request.Blocks.Start, fleet.NeedOf(&x.Request.Blocks)
	}
	for i := range x.View.Upstreams {
		u := &x.View.Upstreams[i]
		// Offline nodes are a last resort for a session that has lost its
		// upstream: the monitor may know less than a dial finds out.
		if u.Frozen() || !u.Routable() || !u.Online && x.Cause != pipeline.Replace || x.Excluded(i, x.Now) || u.Quarantined(block, x.Now) {
			continue
		}
		if block != fleet.NoBlock && !u.Understands(need) {
			continue
		}
		// The upstream's own slot does not make it full for the session on it.
		if u.Full() && i != x.Current {
			continue
		}
		c := pipeline.Candidate{Index: i, Online: u.Online, Run: fleet.NoBlock}
		if block != fleet.NoBlock && !x.View.Covers(i, block, need) {
			c.Rank = 2
		}
		if u.Stale || x.View.Lagging(i, block, x.Tip.Head.Num) {
			c.Rank++
		}
		x.Candidates = append(x.Candidates, c)
	}
	return pipeline.Step{}
}

func isBlocks(r *ship.Request) bool {
	return r.Variant == ship.BlocksRequestV0 || r.Variant == ship.BlocksRequestV1
}
