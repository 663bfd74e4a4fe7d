package forward_test

import (
	"reflect"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/forward"
	"flotilla/stages/stagetest"
)

var whole = ship.Parts{Block: true, Traces: true, Deltas: true, Finality: true}

// archived is a session whose link to archive 0 of two has a request for blocks
// 50 to 199 of [50, 300), with a credit of 3. The archive has finality data from
// block 100 on.
func archived() *pipeline.Exchange {
	x := stagetest.Stitched(
		stagetest.Archive("a", 50, 300, stagetest.Log(fleet.Finality, 100, 300)), stagetest.Archive("b", 50, 300), stagetest.Node("l", stagetest.From(250)))
	x.Asked, x.Cursor, x.Credit, x.Current = true, 50, 3, 0
	x.Want = ship.BlocksRequest{V1: true, Start: 50, End: 2000, FetchBlock: true, FetchTraces: true, FetchDeltas: true, FetchFinality: true}
	x.Link = pipeline.Link{Up: true, Upstream: 0, Frozen: true, Requested: true, End: 200, Cursor: 50, Exact: true, First: true}
	return x
}

func archivedResult(n uint32, parts ship.Parts) *pipeline.Result {
	r := stagetest.Result(stagetest.Pos(n), stagetest.Pos(n-1))
	r.Parts = parts
	return r
}

// TestBreach covers S23: what a result of an archive must not be in itself. It
// ends the link and costs the client nothing.
func TestBreach(t *testing.T) {
	without := func(lacks func(p *ship.Parts)) ship.Parts {
		p := whole
		lacks(&p)
		return p
	}
	noTraces := without(func(p *ship.Parts) { p.Traces = false })
	noDeltas := without(func(p *ship.Parts) { p.Deltas = false })
	noFinality := without(func(p *ship.Parts) { p.Finality = false })
	v0 := func(r *pipeline.Result) *pipeline.Result {
		r.V1 = false
		return r
	}
	at := func(n uint32) func(*pipeline.Exchange) {
		return func(x *pipeline.Exchange) { x.Cursor, x.Link.Cursor = n, n }
	}
	for _, c := range []struct {
		name   string
		r      *pipeline.Result
		change func(x *pipeline.Exchange)
		want   fleet.Violation
	}{
		{"whole", archivedResult(50, whole), nil, ""},
		{"v0 for a v1 request", v0(archivedResult(50, whole)), nil, fleet.ViolationVariant},
		{"v1 for a v0 request", archivedResult(50, whole), func(x *pipeline.Exchange) { x.Want.V1 = false }, fleet.ViolationVariant},
		{"v0 for a v0 request", v0(archivedResult(50, whole)), func(x *pipeline.Exchange) { x.Want.V1, x.Want.FetchFinality = false, false }, ""},
		{"without ids", stagetest.HeadOnly(1000, 900), nil, fleet.ViolationIdless},
		{"without ids below its range", stagetest.HeadOnly(1000, 900), at(49), ""},
		{"without ids for its first block", stagetest.HeadOnly(1000, 900), at(50), fleet.ViolationIdless},
		{"a keep-alive at the end of the leg", stagetest.HeadOnly(1000, 900), at(200), fleet.ViolationIdless},
		{"a keep-alive below its head", stagetest.HeadOnly(40, 40), nil, fleet.ViolationIdless},
		{"no traces", archivedResult(50, noTraces), nil, fleet.ViolationMissingField},
		{"no traces, nor asked for", archivedResult(50, noTraces), func(x *pipeline.Exchange) { x.Want.FetchTraces = false }, ""},
		{"no deltas", archivedResult(50, noDeltas), nil, fleet.ViolationMissingField},
		{"no deltas, nor asked for", archivedResult(50, noDeltas), func(x *pipeline.Exchange) { x.Want.FetchDeltas = false }, ""},
		{"no finality data before its log begins", archivedResult(99, noFinality), at(99), ""},
		{"no finality data", archivedResult(100, noFinality), at(100), fleet.ViolationMissingField},
		{"no payload at all, as it does not decode", archivedResult(50, ship.Parts{}), nil, fleet.ViolationMissingField},
		{"no block: it may have no block log", archivedResult(50, without(func(p *ship.Parts) { p.Block = false })), nil, ""},
		{"another block: that is for the next stage to see", archivedResult(70, whole), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := archived()
			if c.change != nil {
				c.change(x)
			}
			step := down(x, c.r)
			if c.r.Violation != c.want {
				t.Fatalf("the violation is %q, want %q", c.r.Violation, c.want)
			}
			want, credit := pipeline.Step{}, uint32(2)
			if c.want != "" {
				want, credit = pipeline.Leaving(fleet.EndViolation), 3
			}
			if step != want || x.Credit != credit {
				t.Errorf("the stage ends with %+v, credit %d; want %+v, %d", step, x.Credit, want, credit)
			}
		})
	}
}

// A live node is not held to what archives are.
func TestLiveNodesMay(t *testing.T) {
	for name, r := range map[string]*pipeline.Result{
		"without ids":         stagetest.HeadOnly(1000, 900),
		"a keep-alive":        stagetest.HeadOnly(40, 30),
		"v1 for a v0 request": archivedResult(50, whole),
	} {
		x := archived()
		x.Link.Frozen, x.Link.Upstream, x.Want.V1 = false, 2, false
		if step := down(x, r); step != (pipeline.Step{}) || r.Violation != "" {
			t.Errorf("%s: the stage ends with %+v, violation %q", name, step, r.Violation)
		}
	}
}

// TestWithoutBlock covers P20: which results tell that an archive has no block
// log.
func TestWithoutBlock(t *testing.T) {
	bare := ship.Parts{Traces: true, Deltas: true, Finality: true}
	for _, c := range []struct {
		name   string
		r      *pipeline.Result
		change func(x *pipeline.Exchange)
		want   bool
	}{
		{"without", archivedResult(50, bare), nil, true},
		{"with", archivedResult(50, whole), nil, false},
		{"not asked for", archivedResult(50, bare), func(x *pipeline.Exchange) { x.Want.FetchBlock = false }, false},
		{"of a live node", archivedResult(260, bare), func(x *pipeline.Exchange) { x.Link.Frozen, x.Link.Upstream = false, 2 }, false},
		{"below its range", archivedResult(49, bare), nil, false},
		{"its last block", archivedResult(299, bare), nil, true},
		{"above its range", archivedResult(300, bare), nil, false},
		{"without ids", stagetest.HeadOnly(1000, 900), nil, false},
	} {
		x := archived()
		if c.change != nil {
			c.change(x)
		}
		if got := forward.WithoutBlock(x, c.r); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestBuildLeg covers S13 and S14 for range-split fleets: node 2 has blocks from
// 250 on.
func TestBuildLeg(t *testing.T) {
	archive := func(x *pipeline.Exchange) { x.Link.Frozen, x.Link.Upstream, x.LegEnd = true, 0, 200 }
	live := func(x *pipeline.Exchange) { x.Link.Frozen, x.Link.Upstream, x.LegEnd = false, 2, 900 }
	fresh := func(x *pipeline.Exchange) {
		x.Fresh, x.Want.Start, x.Cursor = true, 260, 260
		x.Want.Have = positions(240, 250, 259, 260)
	}
	for _, c := range []struct {
		name   string
		change func(x *pipeline.Exchange)
		start  uint32
		end    uint32
		have   []uint32
	}{
		{"an archive, resumed: it takes no positions", archive, 960, 200, nil},
		{"an archive, fresh", both(fresh, archive), 260, 200, nil},
		{"a live node, resumed: the reversible blocks", live, 960, 900, []uint32{956, 957, 958, 959}},
		{"a live node, resumed, irreversible only", both(live, func(x *pipeline.Exchange) { x.Want.Irreversible = true }), 960, 900, nil},
		{"a live node, fresh: the positions that it can judge", both(fresh, live), 260, 900, []uint32{250, 259}},
		{"a live node, fresh, irreversible only", both(both(fresh, live), func(x *pipeline.Exchange) { x.Want.Irreversible = true }), 260, 900, []uint32{250, 259}},
	} {
		x := resumable()
		x.Stitched = true
		x.View = archived().View
		c.change(x)
		want := x.Want
		want.Start, want.End, want.MaxInFlight, want.Have = c.start, c.end, 4, positions(c.have...)
		if got := forward.Build(x); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: built %+v\nwant %+v", c.name, got, want)
		}
	}
}

func both(a, b func(*pipeline.Exchange)) func(*pipeline.Exchange) {
	return func(x *pipeline.Exchange) { a(x); b(x) }
}

// TestTakeLeg: a new request in front of a range-split fleet is planned anew by
// the session; what is asked on the link counts no more (S11, S12).
func TestTakeLeg(t *testing.T) {
	q := ship.BlocksRequest{Start: 60, End: 90, MaxInFlight: 7}
	empty := ship.BlocksRequest{Start: 60, End: 60, MaxInFlight: 7}
	for _, c := range []struct {
		name   string
		q      ship.BlocksRequest
		change func(x *pipeline.Exchange)
		want   pipeline.Relink
	}{
		{"under way", q, func(*pipeline.Exchange) {}, pipeline.Redial},
		{"empty, under way", empty, func(*pipeline.Exchange) {}, pipeline.Redial},
		{"an archive at the end of its leg", q, func(x *pipeline.Exchange) { x.Link.Cursor = 200 }, pipeline.KeepLink},
		{"a live node at the end of its leg, which it may rewind", q, func(x *pipeline.Exchange) {
			x.Link.Frozen, x.Link.Cursor, x.Link.LIB = false, 200, 150
		}, pipeline.Redial},
		{"a live node at the end of its leg, irreversible", q, func(x *pipeline.Exchange) {
			x.Link.Frozen, x.Link.Cursor, x.Link.LIB = false, 200, 199
		}, pipeline.KeepLink},
		{"credit used up", q, func(x *pipeline.Exchange) { x.Credit = 0 }, pipeline.KeepLink},
		{"no request on the link", q, func(x *pipeline.Exchange) { x.Link.Requested = false }, pipeline.KeepLink},
		{"no link", q, func(x *pipeline.Exchange) { x.Link = pipeline.Link{Upstream: pipeline.None} }, pipeline.KeepLink},
	} {
		x := archived()
		x.Ack = 2
		c.change(x)
		ask(x, c.q)
		if x.Relink != c.want || x.Link.Requested || x.Ack != 0 {
			t.Errorf("%s: relink is %d, requested %v, %d to be acked; want %d, and nothing of the old request", c.name, x.Relink, x.Link.Requested, x.Ack, c.want)
		}
		if x.Credit != 7 || x.Cursor != 60 || !x.Fresh {
			t.Errorf("%s: credit %d, cursor %d, fresh %v", c.name, x.Credit, x.Cursor, x.Fresh)
		}
	}
}

// TestEndedOnAnArchive covers what 5.2 has for archives alone. owed is what Owed
// says by then: the result that breaks the contract may have been the last of
// the leg, or come without credit.
func TestEndedOnAnArchive(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    fleet.End
		frozen bool
		owed   bool
		strike bool
	}{
		{"a stall", fleet.EndStall, true, true, true},
		{"a stall of a live node", fleet.EndStall, false, true, false},
		{"a violation", fleet.EndViolation, true, true, true},
		{"a violation, and nothing more was owed", fleet.EndViolation, true, false, true},
		{"half a block of a live node, the last of the request", fleet.EndViolation, false, false, true},
		{"a drop, and nothing was owed", fleet.EndUnclean, true, false, false},
		{"no block log", fleet.EndNoBlockLog, true, true, false},
	} {
		x := archived()
		x.Link.Frozen = c.frozen
		got := forward.Ended(x, c.end, c.owed)
		if got.Strike != c.strike || x.FailedAt(0, 50) == 1 != c.strike || x.Soft != 0 {
			t.Errorf("%s: %+v, %d failures, soft exclusion of %d", c.name, got, x.FailedAt(0, 50), x.Soft)
		}
		if c.end == fleet.EndNoBlockLog && got.Pause != 0 {
			t.Errorf("%s: the pause is %v", c.name, got.Pause)
		}
		if got.Suspect != (c.end == fleet.EndStall && !c.frozen) {
			t.Errorf("%s: suspect is %v", c.name, got.Suspect)
		}
	}
}

// The whole way of a violation that comes with the last block of a leg, through
// stage and end: it must count, or the session would try the same for ever.
func TestViolationAtTheEndOfALeg(t *testing.T) {
	x := archived()
	x.Cursor, x.Link.Cursor = 199, 199
	r := archivedResult(199, ship.Parts{})
	if step := down(x, r); step != pipeline.Leaving(fleet.EndViolation) {
		t.Fatalf("the stage ends with %+v", step)
	}
	if c := forward.Ended(x, fleet.EndViolation, forward.Owed(x)); !c.Strike {
		t.Errorf("%+v", c)
	}
}

// TestArchiveOwes covers F2 and F7 for archives: it has nothing to wait for, and
// is not kept through a stall.
func TestArchiveOwes(t *testing.T) {
	x := archived()
	x.Tip = &fleet.Pair{}
	if !forward.Owed(x) {
		t.Error("an archive owes all that it was asked for")
	}
	x.Link.Cursor = 200
	if forward.Owed(x) {
		t.Error("an archive at the end of its leg owes nothing")
	}
	clock := times{byte: 159.5, data: 100}.of()
	clock.Frozen = true
	cfg := &config.Listener{StallTimeout: 60e9}
	if got := forward.Silence(cfg, at(160-ε), clock, true, nobody); got.End != "" {
		t.Errorf("before the stall time it ends as %s", got.End)
	}
	if got := forward.Silence(cfg, at(160), clock, true, nobody); got.End != fleet.EndStall || got.Keep {
		t.Errorf("at the stall time: %+v", got)
	}
}
