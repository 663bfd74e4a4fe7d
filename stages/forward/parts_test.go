package forward_test

import (
	"testing"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/stagetest"
)

// TestIncomplete: a block without a part that is asked for, and that the node's
// log has, ends the link and costs the client nothing.
func TestIncomplete(t *testing.T) {
	all := ship.Parts{Block: true, Traces: true, Deltas: true, Finality: true}
	every := ship.BlocksRequest{V1: true, FetchBlock: true, FetchTraces: true, FetchDeltas: true, FetchFinality: true}
	for _, c := range []struct {
		name  string
		lacks func(p *ship.Parts)
		q     ship.BlocksRequest
		node  func(u *fleet.Upstream)
		want  bool
	}{
		{"whole", func(*ship.Parts) {}, every, nil, false},
		{"no traces", func(p *ship.Parts) { p.Traces = false }, every, nil, true},
		{"no traces, nor asked for", func(p *ship.Parts) { p.Traces = false }, ship.BlocksRequest{FetchDeltas: true}, nil, false},
		{"no traces, the log begins at the block", func(p *ship.Parts) { p.Traces = false }, every, func(u *fleet.Upstream) { u.Trace.Begin = 50 }, true},
		{"no traces, the log begins above", func(p *ship.Parts) { p.Traces = false }, every, func(u *fleet.Upstream) { u.Trace.Begin = 51 }, false},
		{"no deltas", func(p *ship.Parts) { p.Deltas = false }, every, nil, true},
		{"no deltas, nor asked for", func(p *ship.Parts) { p.Deltas = false }, ship.BlocksRequest{FetchTraces: true}, nil, false},
		{"no deltas, the log begins above", func(p *ship.Parts) { p.Deltas = false }, every, func(u *fleet.Upstream) { u.ChainState.Begin = 51 }, false},
		{"no finality data", func(p *ship.Parts) { p.Finality = false }, every, nil, true},
		{"no finality data, nor asked for", func(p *ship.Parts) { p.Finality = false }, ship.BlocksRequest{V1: true}, nil, false},
		{"no finality data, no log", func(p *ship.Parts) { p.Finality = false }, every, func(u *fleet.Upstream) { u.Finality = ship.Range{} }, false},
		{"no block: the block log may be pruned", func(p *ship.Parts) { p.Block = false }, every, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := linked()
			c.q.Start, c.q.End = 50, 2000
			x.Want = c.q
			u := &x.View.Upstreams[0]
			u.Finality = ship.Range{Begin: 1, End: stagetest.Head + 1}
			if c.node != nil {
				c.node(u)
			}
			r := stagetest.Result(stagetest.Pos(50), stagetest.Pos(49))
			r.Parts = all
			c.lacks(&r.Parts)
			step := down(x, r)
			if c.want && (step != pipeline.Leaving(fleet.EndViolation) || x.Credit != 3) {
				t.Errorf("the stage ends with %+v, credit %d; the link is to be left at no cost", step, x.Credit)
			}
			if !c.want && (step != pipeline.Step{} || x.Credit != 2) {
				t.Errorf("the stage ends with %+v, credit %d; the block is to be passed on", step, x.Credit)
			}
		})
	}
}

// Results that name no block have no parts to lack.
func TestHeadOnlyIsNotIncomplete(t *testing.T) {
	for name, r := range map[string]*pipeline.Result{"no id": stagetest.HeadOnly(60, 40), "keep-alive": stagetest.HeadOnly(40, 30)} {
		x := linked()
		x.Want.FetchTraces = true
		if step := down(x, r); step != (pipeline.Step{}) {
			t.Errorf("%s: the stage ends with %+v", name, step)
		}
	}
}
