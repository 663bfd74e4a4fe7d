package plan_test

import (
	"slices"
	"testing"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/plan"
	"flotilla/stages/stagetest"
)

func up(x *pipeline.Exchange) {
	plan.New(nil).(pipeline.Upward).Up(x)
}

// replace makes x one that wants an upstream for block n with these flags.
func replace(x *pipeline.Exchange, n uint32, q ship.BlocksRequest) {
	q.Start, q.End = n, 1<<32-1
	x.Cause, x.Asked, x.Want, x.Cursor = pipeline.Replace, true, q, n
}

// receive makes x one whose client has just sent a request for block n on.
func receive(x *pipeline.Exchange, n uint32, q ship.BlocksRequest) {
	q.Start, q.End = n, 1<<32-1
	x.Cause = pipeline.Received
	x.Request = ship.Request{Variant: ship.BlocksRequestV0, Blocks: q}
	if q.V1 {
		x.Request.Variant = ship.BlocksRequestV1
	}
}

// TestCandidates covers who may be picked at all (3.2): node b beside a, which
// always may.
func TestCandidates(t *testing.T) {
	now := stagetest.Exchange().Now
	for _, c := range []struct {
		name                       string
		node                       stagetest.Option
		change                     func(x *pipeline.Exchange)
		connect, received, failing bool
	}{
		{name: "a healthy one", connect: true, received: true, failing: true},
		{name: "disabled", node: stagetest.Disabled},
		{name: "offline", node: stagetest.Offline, failing: true},
		{name: "stale", node: stagetest.Stale, connect: true, received: true, failing: true},
		{name: "excluded", change: func(x *pipeline.Exchange) { x.Exclude(1, pipeline.Exclusion{Until: now.Add(1)}) }},
		{name: "no longer excluded", change: func(x *pipeline.Exchange) { x.Exclude(1, pipeline.Exclusion{Until: now}) }, connect: true, received: true, failing: true},
		{name: "the last one left for a fault", change: func(x *pipeline.Exchange) { x.Soft = 1 }, connect: true, received: true, failing: true},
		{name: "full", node: both(stagetest.MaxSessions(2), stagetest.Taken(2))},
		{name: "one slot free", node: both(stagetest.MaxSessions(2), stagetest.Taken(1)), connect: true, received: true, failing: true},
		{name: "no limit", node: stagetest.Taken(50), connect: true, received: true, failing: true},
		{name: "full of the session itself", node: both(stagetest.MaxSessions(1), stagetest.Taken(1)), change: func(x *pipeline.Exchange) { x.Current = 1 }, connect: true, received: true, failing: true},
		// Without a request there is no block that a quarantine could be for.
		{name: "quarantined at the block", node: stagetest.Quarantined(500, 1, now.Add(1)), connect: true},
		{name: "quarantined up to the block", node: stagetest.Quarantined(491, 10, now.Add(1)), connect: true},
		{name: "quarantined before it", node: stagetest.Quarantined(490, 10, now.Add(1)), connect: true, received: true, failing: true},
		{name: "quarantined after it", node: stagetest.Quarantined(501, 10, now.Add(1)), connect: true, received: true, failing: true},
		{name: "no longer quarantined", node: stagetest.Quarantined(500, 1, now), connect: true, received: true, failing: true},
		{name: "too old for the request", node: speaksV0, connect: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, way := range []struct {
				name string
				set  func(x *pipeline.Exchange)
				want bool
			}{
				{"connect", func(x *pipeline.Exchange) { x.Cause = pipeline.Connect }, c.connect},
				{"received", func(x *pipeline.Exchange) { receive(x, 500, ship.BlocksRequest{V1: true}) }, c.received},
				{"replace", func(x *pipeline.Exchange) { replace(x, 500, ship.BlocksRequest{V1: true}) }, c.failing},
			} {
				b := stagetest.Node("b")
				if c.node != nil {
					c.node(&b)
				}
				x := stagetest.Exchange(stagetest.Node("a"), b)
				if c.change != nil {
					c.change(x)
				}
				way.set(x)
				up(x)
				want := []int{0}
				if way.want {
					want = append(want, 1)
				}
				if got := indices(x); !slices.Equal(got, want) {
					t.Errorf("%s: candidates %v, want %v", way.name, got, want)
				}
			}
		})
	}
}

func both(options ...stagetest.Option) stagetest.Option {
	return func(u *fleet.Upstream) {
		for _, o := range options {
			o(u)
		}
	}
}

func speaksV0(u *fleet.Upstream) {
	u.ABI = &ship.ABI{Requests: []string{"get_status_request_v0", "get_blocks_request_v0", "get_blocks_ack_request_v0"}}
}

func indices(x *pipeline.Exchange) []int {
	var out []int
	for _, c := range x.Candidates {
		out = append(out, c.Index)
	}
	return out
}

// log gives the node another range for one of its logs.
func log(which fleet.Log, begin, end uint32) stagetest.Option {
	return func(u *fleet.Upstream) {
		r := map[fleet.Log]*ship.Range{fleet.Trace: &u.Trace, fleet.ChainState: &u.ChainState, fleet.Finality: &u.Finality}[which]
		*r = ship.Range{Begin: begin, End: end}
	}
}

func unknown(u *fleet.Upstream) { u.Known = false }

// TestCoverage covers G2 and G3: the rank of node a, which lacks something that
// b may have, for a request of these logs from block 500 on.
func TestCoverage(t *testing.T) {
	const end = stagetest.Head + 1
	traces, deltas := ship.BlocksRequest{FetchTraces: true}, ship.BlocksRequest{FetchDeltas: true}
	finality := ship.BlocksRequest{V1: true, FetchFinality: true}
	for _, c := range []struct {
		name string
		q    ship.BlocksRequest
		a, b stagetest.Option
		want int
	}{
		{"traces: both begin below", traces, log(fleet.Trace, 499, end), nil, 0},
		{"traces: begins at the block", traces, log(fleet.Trace, 500, end), nil, 0},
		{"traces: begins above", traces, log(fleet.Trace, 501, end), nil, 2},
		{"traces: no log", traces, log(fleet.Trace, 0, 0), nil, 2},
		{"traces: the log ends below, and grows", traces, log(fleet.Trace, 1, 300), nil, 0},
		{"traces: nobody has them", traces, log(fleet.Trace, 501, end), log(fleet.Trace, 600, end), 0},
		{"traces: who has them is offline", traces, log(fleet.Trace, 501, end), stagetest.Offline, 0},
		{"traces: who has them is disabled", traces, log(fleet.Trace, 501, end), stagetest.Disabled, 0},
		{"traces not asked for", deltas, log(fleet.Trace, 501, end), nil, 0},

		{"deltas: begins at the block", deltas, log(fleet.ChainState, 500, end), nil, 0},
		{"deltas: begins above", deltas, log(fleet.ChainState, 501, end), nil, 2},
		{"deltas: no log", deltas, log(fleet.ChainState, 0, 0), nil, 2},
		{"deltas: nobody has them", deltas, log(fleet.ChainState, 501, end), log(fleet.ChainState, 0, 0), 0},
		{"deltas: who has them is offline", deltas, log(fleet.ChainState, 501, end), stagetest.Offline, 0},
		{"deltas not asked for", traces, log(fleet.ChainState, 501, end), nil, 0},

		{"finality: neither has it", finality, nil, nil, 0},
		{"finality: b has it", finality, nil, log(fleet.Finality, 500, end), 2},
		{"finality: b begins above", finality, nil, log(fleet.Finality, 501, end), 0},
		{"finality: both have it", finality, log(fleet.Finality, 400, end), log(fleet.Finality, 300, end), 0},
		{"finality: b is offline", finality, nil, both(log(fleet.Finality, 500, end), stagetest.Offline), 0},
		{"finality not asked for", ship.BlocksRequest{V1: true}, nil, log(fleet.Finality, 1, end), 0},

		{"all three, one missing", ship.BlocksRequest{V1: true, FetchTraces: true, FetchDeltas: true, FetchFinality: true}, nil, log(fleet.Finality, 1, end), 2},
		{"ids: none asked for, a has no id", ship.BlocksRequest{}, stagetest.From(501), nil, 2},
		{"ids: one log is enough", ship.BlocksRequest{}, both(stagetest.From(501), log(fleet.Finality, 1, end)), nil, 0},
		{"ids: nobody has one", ship.BlocksRequest{}, stagetest.From(501), stagetest.From(600), 0},
		{"the block itself is no matter of logs", ship.BlocksRequest{FetchBlock: true}, log(fleet.ChainState, 0, 0), nil, 0},
		{"never seen", ship.BlocksRequest{}, unknown, nil, 2},
		{"never seen, nor was b", ship.BlocksRequest{}, unknown, unknown, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := stagetest.Node("a"), stagetest.Node("b")
			if c.a != nil {
				c.a(&a)
			}
			if c.b != nil {
				c.b(&b)
			}
			for name, set := range map[string]func(*pipeline.Exchange, uint32, ship.BlocksRequest){"received": receive, "replace": replace} {
				x := stagetest.Exchange(a, b)
				set(x, 500, c.q)
				up(x)
				if got := x.Candidates[0]; got.Index != 0 || got.Rank != c.want {
					t.Errorf("%s: %+v, want rank %d", name, got, c.want)
				}
			}
		})
	}
}

// TestLagging covers G5 and the sum of the rank.
func TestLagging(t *testing.T) {
	const lag = 100
	behind := stagetest.HeadAt(stagetest.Head - lag - 1)
	for _, c := range []struct {
		name   string
		node   stagetest.Option
		block  uint32
		change func(x *pipeline.Exchange)
		want   int
	}{
		{"one more than the limit behind", behind, stagetest.Head, nil, 1},
		{"the limit behind", stagetest.HeadAt(stagetest.Head - lag), stagetest.Head, nil, 0},
		{"behind, but it has the block", behind, stagetest.Head - lag - 1, nil, 0},
		{"behind, and the block is its next", behind, stagetest.Head - lag, nil, 1},
		{"no limit", behind, stagetest.Head, func(x *pipeline.Exchange) { x.View.Lag = 0 }, 0},
		{"fleet head unknown", behind, stagetest.Head, func(x *pipeline.Exchange) { x.Tip.Head.Num = 0 }, 0},
		{"stale", stagetest.Stale, stagetest.Head, nil, 1},
		{"stale and lagging", both(behind, stagetest.Stale), stagetest.Head, nil, 1},
		{"lagging and without the block", both(behind, stagetest.From(stagetest.Head)), stagetest.Head - lag, nil, 3},
		{"stale and without the block", both(stagetest.Stale, stagetest.From(stagetest.Head)), stagetest.Head - lag, nil, 3},
		{"near the end of numbers", stagetest.HeadAt(1<<32 - 1), 1<<32 - 2, func(x *pipeline.Exchange) { x.Tip.Head.Num = 1<<32 - 1 }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := stagetest.Exchange(stagetest.Node("a", c.node), stagetest.Node("b"))
			x.View.Lag = lag
			if c.change != nil {
				c.change(x)
			}
			replace(x, c.block, ship.BlocksRequest{FetchTraces: true})
			up(x)
			if got := x.Candidates[0].Rank; got != c.want {
				t.Errorf("rank %d, want %d", got, c.want)
			}
		})
	}
}

// Without a request no block counts, so only stale and lagging nodes rank
// below the others.
func TestWithoutARequest(t *testing.T) {
	empty := func(x *pipeline.Exchange) {
		x.Cause, x.Asked, x.Want, x.Cursor = pipeline.Replace, true, ship.BlocksRequest{Start: 10, End: 10, FetchTraces: true}, 10
	}
	for _, c := range []struct {
		name string
		node stagetest.Option
		want int
	}{
		{"healthy", nil, 0},
		{"lacks the past", stagetest.From(900), 0},
		{"never seen", unknown, 0},
		{"too old for v1 requests", speaksV0, 0},
		{"stale", stagetest.Stale, 1},
		{"lagging", stagetest.HeadAt(800), 1},
	} {
		for name, set := range map[string]func(x *pipeline.Exchange){
			"connect":       func(x *pipeline.Exchange) { x.Cause = pipeline.Connect },
			"replace":       func(x *pipeline.Exchange) { x.Cause = pipeline.Replace },
			"empty request": empty,
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				a := stagetest.Node("a")
				if c.node != nil {
					c.node(&a)
				}
				x := stagetest.Exchange(a, stagetest.Node("b"))
				x.View.Lag = 100
				set(x)
				up(x)
				if len(x.Candidates) != 2 || x.Candidates[0].Rank != c.want {
					t.Errorf("candidates %+v, want rank %d for the first", x.Candidates, c.want)
				}
			})
		}
	}
}

// A request that comes in is judged by itself, not by the one before.
func TestReceivedCountsTheNewRequest(t *testing.T) {
	x := stagetest.Exchange(stagetest.Node("a", stagetest.From(600)), stagetest.Node("b"))
	replace(x, 700, ship.BlocksRequest{})
	receive(x, 500, ship.BlocksRequest{FetchTraces: true})
	up(x)
	if got := x.Candidates[0].Rank; got != 2 {
		t.Errorf("rank %d, want that of a node without block 500", got)
	}
}

// Whether a candidate is online is told to the next stage.
func TestTellsOnline(t *testing.T) {
	x := stagetest.Exchange(stagetest.Node("a"), stagetest.Node("b", stagetest.Offline))
	replace(x, 500, ship.BlocksRequest{})
	up(x)
	want := []pipeline.Candidate{{Index: 0, Online: true, Run: fleet.NoBlock}, {Index: 1, Run: fleet.NoBlock}}
	if !slices.Equal(x.Candidates, want) {
		t.Errorf("candidates %+v, want %+v", x.Candidates, want)
	}
}

// Messages that need no upstream leave no candidates: a client that acks every
// block must not make the gateway choose an upstream for every block.
func TestMessagesThatNeedNoUpstream(t *testing.T) {
	for _, variant := range []uint32{ship.StatusRequestV0, ship.AckRequestV0, ship.StatusRequestV1, 9} {
		x := stagetest.Exchange(stagetest.Node("a"), stagetest.Node("b"))
		receive(x, 500, ship.BlocksRequest{})
		up(x)
		if len(x.Candidates) != 2 {
			t.Fatalf("candidates %+v for a request", x.Candidates)
		}
		x.Request = ship.Request{Variant: variant}
		up(x)
		if len(x.Candidates) != 0 {
			t.Errorf("variant %d: candidates %+v", variant, x.Candidates)
		}
	}
}
