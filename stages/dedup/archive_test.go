package dedup_test

import (
	"slices"
	"testing"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/stagetest"
)

// archived is a session on the first of two archives, in the middle of a leg:
// it has blocks 350 to 359 and expects 360. Its credit, from which the forward
// stage has taken one, is 4.
func archived() *pipeline.Exchange {
	x := stagetest.Stitched(stagetest.Archive("a", 1, 501), stagetest.Archive("b", 1, 501), stagetest.Node("l", stagetest.From(501)))
	x.Asked, x.Want = true, ship.BlocksRequest{Start: 350, End: 2000, FetchTraces: true}
	x.Cursor, x.Credit, x.Current = 360, 4, 0
	x.HeadSent, x.LIBSent, x.Settled = at(1000), at(900), 359
	deliver(x, 350, 360)
	x.Link = pipeline.Link{Up: true, Upstream: 0, Frozen: true, Requested: true, End: 501, Cursor: 361, Exact: true}
	return x
}

func deliver(x *pipeline.Exchange, from, to uint32) {
	for n := from; n < to; n++ {
		p := at(n)
		x.Delivered.Add(&p)
	}
}

// archivedSeam is archived after a failover or at the begin of a leg.
func archivedSeam() *pipeline.Exchange {
	x := archived()
	x.Link.First, x.Link.Seam = true, true
	x.Window, x.Floor = true, 360
	return x
}

// uncredited is a result that came while the client had no credit.
func uncredited(r *pipeline.Result) *pipeline.Result {
	r.Uncredited = true
	return r
}

// TestContract covers S24 to S27: the rules for archives that a result breaks by
// its place in the stream.
func TestContract(t *testing.T) {
	reversible := func(x *pipeline.Exchange) { x.Settled = 358 }
	for _, c := range []struct {
		name   string
		x      *pipeline.Exchange
		change func(x *pipeline.Exchange)
		r      *pipeline.Result
		want   fleet.Violation
		drop   bool
	}{
		{name: "the next block", x: archived(), r: block(at(360), at(359))},
		{name: "the next block at a seam", x: archivedSeam(), r: block(at(360), at(359))},
		{name: "the next block, of a range below which nothing is known", x: archivedSeam(), r: idless(360)},

		{name: "one skipped", x: archived(), r: block(at(361), at(360)), want: fleet.ViolationGap},
		{name: "one skipped at a seam", x: archivedSeam(), r: block(at(361), at(360)), want: fleet.ViolationGap},
		{name: "one skipped, and nobody else has it", x: archived(), change: func(x *pipeline.Exchange) { x.View.Upstreams[1].Online = false }, r: block(at(361), at(360)), want: fleet.ViolationGap},

		{name: "the last one again", x: archived(), r: block(at(359), at(358)), want: fleet.ViolationRewind},
		{name: "an earlier one again", x: archived(), r: block(at(350), at(349)), want: fleet.ViolationRewind},
		{name: "another one in the place of the last", x: archived(), r: block(fork(359), at(358)), want: fleet.ViolationRewind},
		{name: "in the window: the last one again", x: archivedSeam(), r: block(at(359), at(358)), drop: true},
		{name: "in the window: another one in its place", x: archivedSeam(), r: block(fork(359), at(358)), want: fleet.ViolationRewind},

		{name: "another chain at a seam", x: archivedSeam(), r: block(fork(360), fork(359)), want: fleet.ViolationDiscontinuity},
		{name: "another chain at a seam, on a block that was reversible", x: archivedSeam(), change: reversible, r: block(fork(360), fork(359)), want: fleet.ViolationDiscontinuity},
		{name: "another chain with the first result of a request that goes on", x: archivedSeam(), change: func(x *pipeline.Exchange) { x.Link.Seam, x.Fresh = false, true }, r: block(fork(360), fork(359)), want: fleet.ViolationDiscontinuity},
		{name: "the same, on a block that was reversible", x: archivedSeam(), change: func(x *pipeline.Exchange) { x.Link.Seam, x.Fresh = false, true; reversible(x) }, r: block(fork(360), fork(359))},
		// The client says that it has a block of a fork, and the first link to
		// an archive was lost before it sent anything.
		{name: "the same, at a seam", x: archivedSeam(), change: func(x *pipeline.Exchange) { x.Fresh = true; reversible(x) }, r: block(fork(360), fork(359))},
		{name: "another chain later", x: archived(), r: block(fork(360), fork(359))},
		{name: "elsewhere than the last request", x: archivedSeam(), change: func(x *pipeline.Exchange) {
			x.Link.Seam, x.Fresh, x.Cursor = false, true, 380
		}, r: block(fork(380), fork(379))},

		{name: "without credit", x: archived(), change: func(x *pipeline.Exchange) { x.Credit = 0 }, r: uncredited(block(at(360), at(359))), want: fleet.ViolationCredit},
		{name: "out of order and without credit", x: archived(), change: func(x *pipeline.Exchange) { x.Credit = 0 }, r: uncredited(block(at(361), at(360))), want: fleet.ViolationGap},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := c.x
			if c.change != nil {
				c.change(x)
			}
			credit, cursor, before := x.Credit, x.Cursor, numbers(x)
			step := down(x, c.r)
			if c.r.Violation != c.want {
				t.Fatalf("the violation is %q, want %q; the stage ends with %+v", c.r.Violation, c.want, step)
			}
			if c.want == "" && !c.drop {
				if step != (pipeline.Step{}) || x.Cursor != c.r.Num+1 || x.Credit != credit || c.r.Broken || c.r.Jump || c.r.Fork {
					t.Errorf("the stage ends with %+v, cursor %d, credit %d", step, x.Cursor, x.Credit)
				}
				return
			}
			want, ack := pipeline.Leaving(fleet.EndViolation), uint32(0)
			if c.drop {
				want, ack = pipeline.Step{Do: pipeline.Done}, 1
			}
			if !c.r.Uncredited {
				credit++
			}
			if step != want || x.Credit != credit || x.Ack != ack {
				t.Errorf("the stage ends with %+v, credit %d, ack %d; want %+v, %d, %d", step, x.Credit, x.Ack, want, credit, ack)
			}
			if x.Cursor != cursor || !slices.Equal(numbers(x), before) {
				t.Errorf("cursor %d, delivered %v; nothing should have moved", x.Cursor, numbers(x))
			}
		})
	}
}

// TestFill covers S30: an archive that has no log of the block before its first
// one gets that from what the client has.
func TestFill(t *testing.T) {
	bare := func(p ship.Pos) *pipeline.Result {
		r := block(p, ship.Pos{})
		r.HasPrev, r.Prev = false, ship.Pos{}
		return r
	}
	for _, c := range []struct {
		name   string
		change func(x *pipeline.Exchange)
		r      *pipeline.Result
		want   bool
	}{
		{"the block after the last one", nil, bare(at(360)), true},
		{"its prev is there", nil, block(at(360), at(359)), false},
		{"the last one was reversible", func(x *pipeline.Exchange) { x.Settled = 358 }, bare(at(360)), false},
		{"the client was told of a lower LIB", func(x *pipeline.Exchange) { x.LIBSent = at(358) }, bare(at(360)), false},
		{"that very LIB", func(x *pipeline.Exchange) { x.LIBSent = at(359) }, bare(at(360)), true},
		{"the last one is another number", func(x *pipeline.Exchange) { x.Delivered.Forget(359) }, bare(at(360)), false},
		{"nothing was delivered", func(x *pipeline.Exchange) { x.Delivered.Forget(0) }, bare(at(360)), false},
		{"a new request that goes on", func(x *pipeline.Exchange) { x.Fresh = true }, bare(at(360)), true},
		{"a new request elsewhere", func(x *pipeline.Exchange) { x.Fresh, x.Cursor = true, 380 }, bare(at(380)), false},
		{"without ids", nil, idless(360), false},
		{"of a live node", func(x *pipeline.Exchange) { x.Link.Frozen, x.Link.Upstream = false, 2 }, bare(at(360)), false},
		{"one that breaks the contract", nil, bare(at(361)), false},
	} {
		x := archivedSeam()
		if c.change != nil {
			c.change(x)
		}
		down(x, c.r)
		if c.r.FillPrev != c.want || c.want && c.r.Prev != at(359) {
			t.Errorf("%s: filled is %v with %v, want %v", c.name, c.r.FillPrev, c.r.Prev, c.want)
		}
		if c.r.FillPrev && c.r.HasPrev {
			t.Errorf("%s: the frame has no prev yet, which is what HasPrev tells", c.name)
		}
	}
}

// TestSettledByArchives: what an archive sent is irreversible, as far as the
// fleet's LIB goes; its own LIB is only the end of its range, and the fleet's
// says nothing of blocks that are still to come.
func TestSettledByArchives(t *testing.T) {
	for _, c := range []struct {
		name     string
		lib      uint32
		settled  uint32
		want     uint32
		remember []uint32
	}{
		{"the fleet's LIB is above", 900, 300, 360, []uint32{360}},
		{"the fleet's LIB is below", 355, 300, 355, []uint32{355, 356, 357, 358, 359, 360}},
		{"it is unknown", 0, 300, 300, []uint32{350, 351, 352, 353, 354, 355, 356, 357, 358, 359, 360}},
		{"it never goes back", 355, 357, 357, []uint32{357, 358, 359, 360}},
	} {
		x := archived()
		x.Tip, x.Settled = &fleet.Pair{Head: at(1000), LIB: at(c.lib)}, c.settled
		r := block(at(360), at(359))
		r.Head, r.LIB = at(500), at(500)
		down(x, r)
		if got := numbers(x); x.Settled != c.want || !slices.Equal(got, c.remember) {
			t.Errorf("%s: settled up to %d, remembered %v; want %d, %v", c.name, x.Settled, got, c.want, c.remember)
		}
	}
}

// From an archive to a node at the tip that is on a fork, and on to another: the
// blocks of the fork are still in doubt, whatever the fleet's LIB is.
func TestForkBehindAnArchive(t *testing.T) {
	x := archived()
	x.Link.End, x.Cursor = 501, 500
	x.Delivered.Forget(0)
	deliver(x, 499, 500)
	down(x, block(at(500), at(499)))
	x.Link = pipeline.Link{Up: true, Upstream: 2, Requested: true, End: fleet.NoBlock, Cursor: 501, Exact: true, First: true, Seam: true}
	for n := uint32(501); n < 504; n++ {
		r := block(fork(n), fork(n-1))
		if n == 501 {
			r.Prev = at(500)
		}
		r.Head, r.LIB = fork(503), at(499)
		if step := down(x, r); step != (pipeline.Step{}) {
			t.Fatalf("block %d ends with %+v", n, step)
		}
	}
	if got := numbers(x); x.Settled != 500 || !slices.Equal(got, []uint32{500, 501, 502, 503}) {
		t.Errorf("settled up to %d, remembered %v", x.Settled, got)
	}
}

// A seam within the request that a live node breaks while another could do
// better: the archive counts as such only up to the gate (S29).
func TestBreakAndArchives(t *testing.T) {
	for _, c := range []struct {
		name string
		head uint32
		want pipeline.Step
	}{
		{"an archive has it", 1000, pipeline.Leaving(fleet.EndDiscontinuity)},
		{"the archive may not be asked for it yet", 359, pipeline.Step{}},
	} {
		x := archivedSeam()
		x.View = stagetest.Stitched(stagetest.Archive("a", 1, 501), stagetest.Node("l")).View
		x.Link.Frozen, x.Link.Upstream, x.Settled = false, 1, 300
		x.Tip = &fleet.Pair{Head: at(c.head), LIB: at(300)}
		if step := down(x, block(fork(360), fork(359))); step != c.want {
			t.Errorf("%s: the stage ends with %+v, want %+v", c.name, step, c.want)
		}
	}
}
