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
	block, need := asked(x)
	for i := range x.View.Upstreams {
		u := &x.View.Upstreams[i]
		if refuse(x, i, block, need) != "" {
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

// asked is the block that an upstream of a pool is wanted for, and what is to be
// had of it.
func asked(x *pipeline.Exchange) (block uint32, need fleet.Need) {
	if x.Cause == pipeline.Received {
		return x.Request.Blocks.Start, fleet.NeedOf(&x.Request.Blocks)
	}
	return x.Block(), fleet.NeedOf(&x.Want)
}

func isBlocks(r *ship.Request) bool {
	return r.Variant == ship.BlocksRequestV0 || r.Variant == ship.BlocksRequestV1
}
