package stages_test

import (
	"fmt"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages"
	"flotilla/stages/plan"
	"flotilla/stages/stagetest"
)

// blocksPerRange is how many blocks each archive of splitFleet has.
const blocksPerRange = 1000

// splitFleet is a session in front of so many servers: archives of neighbouring
// ranges with two replicas each, and two nodes at the tip, which go back into
// the last range.
func splitFleet(t testing.TB, servers int) (*pipeline.Pipeline, *pipeline.Exchange) {
	var nodes []fleet.Upstream
	ranges := uint32(servers-2) / 2
	for i := range ranges {
		for _, replica := range []string{"a", "b"} {
			nodes = append(nodes, stagetest.Archive(fmt.Sprint(replica, i), 1+i*blocksPerRange, 1+(i+1)*blocksPerRange))
		}
	}
	head := (ranges + 1) * blocksPerRange
	for i := range 2 {
		nodes = append(nodes, stagetest.Node(fmt.Sprint("live", i), stagetest.From(head-2*blocksPerRange+500), stagetest.HeadAt(head)))
	}
	x := stagetest.Stitched(nodes...)
	x.Tip = &fleet.Pair{Head: stagetest.Pos(head), LIB: stagetest.Pos(head - 300)}
	x.Cause, x.Asked = pipeline.Replace, true
	x.Want = ship.BlocksRequest{V1: true, Start: 1, End: fleet.NoBlock, FetchBlock: true, FetchTraces: true, FetchDeltas: true}
	pipe, err := stages.Pipeline(&config.Listener{Topology: config.TopologyStitched})
	if err != nil {
		t.Fatal(err)
	}
	return pipe, x
}

// plans are the places in the stream of splitFleet that a leg is planned at.
var plans = []struct {
	name string
	at   func(x *pipeline.Exchange)
	do   pipeline.Decision
}{
	{"the begin", func(x *pipeline.Exchange) { x.Cursor = 1 }, pipeline.Serve},
	{"the middle", func(x *pipeline.Exchange) { x.Cursor = x.Tip.Head.Num / 2 }, pipeline.Serve},
	{"both kinds have it", func(x *pipeline.Exchange) { x.Cursor = x.Tip.Head.Num - blocksPerRange - 100 }, pipeline.Serve},
	{"the tip", func(x *pipeline.Exchange) { x.Cursor = x.Tip.Head.Num }, pipeline.Serve},
	{"after a failure", func(x *pipeline.Exchange) {
		x.Cursor, x.StuckAt, x.Failed, x.Soft = 1, 1, append(x.Failed[:0], 0), 0
	}, pipeline.Serve},
	{"no block log", func(x *pipeline.Exchange) {
		x.Cursor = 1
		x.View.Upstreams[0].NoBlockLog, x.View.Upstreams[1].NoBlockLog = true, true
	}, pipeline.Serve},
	{"held", func(x *pipeline.Exchange) {
		x.Cursor = 1
		x.View.Upstreams[0].Online, x.View.Upstreams[1].Online = false, false
	}, pipeline.Hold},
}

func planLeg(t testing.TB, pipe *pipeline.Pipeline, x *pipeline.Exchange, do pipeline.Decision) {
	if step := pipe.Up(x); step != (pipeline.Step{}) || x.Plan.Do != do {
		t.Fatalf("the plan is %+v after %+v, want decision %d", x.Plan, step, do)
	}
}

// TestPlanAllocatesNothing: thousands of sessions plan again with every change of
// the fleet. The stage that picks is not in it: its pool forgets things on purpose
// when the race detector is on. BenchmarkPlan shows both.
func TestPlanAllocatesNothing(t *testing.T) {
	stage := plan.New(nil).(pipeline.Upward)
	for _, p := range plans {
		pipe, x := splitFleet(t, 64)
		p.at(x)
		planLeg(t, pipe, x, p.do)
		if got := testing.AllocsPerRun(200, func() { stage.Up(x) }); got != 0 {
			t.Errorf("%s: %v allocations a plan", p.name, got)
		}
	}
}

// BenchmarkPlan is one leg, planned and picked. The work for the fleet's first
// plan, which a change of ranges brings, is not in it.
func BenchmarkPlan(b *testing.B) {
	for _, servers := range []int{4, 64, 1000} {
		for _, p := range plans {
			b.Run(fmt.Sprintf("servers=%d/%s", servers, p.name), func(b *testing.B) {
				pipe, x := splitFleet(b, servers)
				p.at(x)
				planLeg(b, pipe, x, p.do)
				b.ReportAllocs()
				for b.Loop() {
					planLeg(b, pipe, x, p.do)
				}
			})
		}
	}
}

// BenchmarkPlanAfterChange is the first plan after a server has changed its
// ranges: the fleet's atlas is made anew for all sessions.
func BenchmarkPlanAfterChange(b *testing.B) {
	for _, servers := range []int{4, 64, 1000} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			pipe, x := splitFleet(b, servers)
			x.Cursor = 1
			cfg := &config.Listener{Topology: config.TopologyStitched, Stitching: *x.View.Stitching}
			b.ReportAllocs()
			for b.Loop() {
				x.View = fleet.NewView(cfg, x.View.Upstreams)
				planLeg(b, pipe, x, pipeline.Serve)
			}
		})
	}
}
