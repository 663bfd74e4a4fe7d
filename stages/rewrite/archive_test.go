package rewrite_test

import (
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/rewrite"
	"flotilla/stages/stagetest"
)

func stitched(patch bool) *config.Listener {
	return &config.Listener{Topology: config.TopologyStitched, Stitching: config.Stitching{PatchHeadLIB: patch}}
}

// TestArchives covers S32 for archives: block 50 comes from one that ends with
// block 60, or from a live node.
func TestArchives(t *testing.T) {
	tip := &fleet.Pair{Head: at(100), LIB: at(90)}
	for _, c := range []struct {
		name              string
		cfg               *config.Listener
		frozen            bool
		tip               *fleet.Pair
		headSent, libSent ship.Pos
		head, lib         ship.Pos
		wantHead, wantLIB ship.Pos
		patched           bool
		sentHead, sentLIB ship.Pos
	}{
		{name: "the fleet's take their place", cfg: stitched(true), frozen: true, tip: tip, head: at(60), lib: at(60),
			wantHead: at(100), wantLIB: at(90), patched: true, sentHead: at(100), sentLIB: at(90)},
		{name: "the archive is ahead of the fleet", cfg: stitched(true), frozen: true, tip: tip, head: at(160), lib: at(160),
			wantHead: at(100), wantLIB: at(90), patched: true, sentHead: at(100), sentLIB: at(90)},
		{name: "they are the fleet's", cfg: stitched(true), frozen: true, tip: tip, head: at(100), lib: at(90),
			wantHead: at(100), wantLIB: at(90), sentHead: at(100), sentLIB: at(90)},
		{name: "the same number, another id", cfg: stitched(true), frozen: true, tip: tip, head: other(100), lib: at(90),
			wantHead: at(100), wantLIB: at(90), patched: true, sentHead: at(100), sentLIB: at(90)},
		{name: "more was told before", cfg: stitched(true), frozen: true, tip: tip, headSent: at(105), libSent: at(95), head: at(60), lib: at(60),
			wantHead: at(105), wantLIB: at(95), patched: true, sentHead: at(105), sentLIB: at(95)},
		{name: "the fleet's head is unknown", cfg: stitched(true), frozen: true, tip: &fleet.Pair{}, head: at(60), lib: at(60),
			wantHead: at(60), wantLIB: at(60), sentHead: at(60), sentLIB: at(60)},
		{name: "the fleet's LIB is unknown", cfg: stitched(true), frozen: true, tip: &fleet.Pair{Head: at(100)}, head: at(60), lib: at(60),
			wantHead: at(60), wantLIB: at(60), sentHead: at(60), sentLIB: at(60)},
		{name: "a live node's stand", cfg: stitched(true), tip: tip, head: at(98), lib: at(88),
			wantHead: at(98), wantLIB: at(88), sentHead: at(98), sentLIB: at(88)},
		{name: "a live node behind", cfg: stitched(true), tip: tip, headSent: at(99), libSent: at(89), head: at(98), lib: at(88),
			wantHead: at(99), wantLIB: at(89), patched: true, sentHead: at(99), sentLIB: at(89)},

		{name: "patch_head_lib is off: as they are", cfg: stitched(false), frozen: true, tip: tip, head: at(60), lib: at(60),
			wantHead: at(60), wantLIB: at(60), sentHead: at(60), sentLIB: at(60)},
		{name: "off, and more was told before", cfg: stitched(false), frozen: true, tip: tip, headSent: at(105), libSent: at(95), head: at(60), lib: at(60),
			wantHead: at(60), wantLIB: at(60), sentHead: at(105), sentLIB: at(95)},
		{name: "off, a live node behind", cfg: stitched(false), tip: tip, headSent: at(99), libSent: at(89), head: at(98), lib: at(90),
			wantHead: at(98), wantLIB: at(90), sentHead: at(99), sentLIB: at(90)},
		{name: "off means nothing in a pool", cfg: &config.Listener{Topology: config.TopologyPool}, tip: tip, headSent: at(99), libSent: at(89), head: at(98), lib: at(88),
			wantHead: at(99), wantLIB: at(89), patched: true, sentHead: at(99), sentLIB: at(89)},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := stagetest.Exchange()
			x.View, x.Tip, x.Link.Frozen = fleet.NewView(c.cfg, nil), c.tip, c.frozen
			x.HeadSent, x.LIBSent = c.headSent, c.libSent
			r := stagetest.Result(at(50), at(49))
			r.Head, r.LIB = c.head, c.lib
			if step := rewrite.New(nil).(pipeline.Downward).Down(x, r); step != (pipeline.Step{}) {
				t.Errorf("the stage ends with %+v", step)
			}
			if r.Head != c.wantHead || r.LIB != c.wantLIB || r.Patched != c.patched {
				t.Errorf("head %v, LIB %v, patched %v", r.Head, r.LIB, r.Patched)
			}
			if x.HeadSent != c.sentHead || x.LIBSent != c.sentLIB {
				t.Errorf("remembered head %v, LIB %v", x.HeadSent, x.LIBSent)
			}
			if r.FillPrev || r.Prev != at(49) {
				t.Error("prev was touched")
			}
		})
	}
}
