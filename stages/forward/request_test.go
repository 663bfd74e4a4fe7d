package forward_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/forward"
	"flotilla/stages/stagetest"
)

// ask takes a get_blocks request of the client up.
func ask(x *pipeline.Exchange, q ship.BlocksRequest) {
	x.Cause, x.Request = pipeline.Received, ship.Request{Variant: ship.BlocksRequestV0, Blocks: q}
	up(x)
}

func positions(numbers ...uint32) []ship.Pos {
	var out []ship.Pos
	for _, n := range numbers {
		out = append(out, stagetest.Pos(n))
	}
	return out
}

func deliver(x *pipeline.Exchange, from, to uint32) {
	for n := from; n < to; n++ {
		p := stagetest.Pos(n)
		x.Delivered.Add(&p)
	}
}

// TestTake covers S7: what a new request replaces and what survives it.
func TestTake(t *testing.T) {
	x := stagetest.Exchange(stagetest.Node("a"))
	x.Asked, x.Want, x.Cursor, x.Credit = true, ship.BlocksRequest{Start: 1, End: 100}, 60, 7
	deliver(x, 50, 60)
	x.HeadSent, x.LIBSent, x.Settled = stagetest.Pos(80), stagetest.Pos(49), 49
	x.Window, x.Floor = true, 58
	x.StuckAt, x.Failed = 60, make([]int, 4)
	x.SeamLeft = []int{0}

	want := ship.BlocksRequest{V1: true, Start: 55, End: 500, MaxInFlight: 3, Have: positions(50), FetchBlock: true, FetchFinality: true}
	ask(x, want)
	if !x.Asked || !reflect.DeepEqual(x.Want, want) || x.Credit != 3 || x.Cursor != 55 || !x.Fresh {
		t.Errorf("the request in force is %+v, credit %d, cursor %d, fresh %v", x.Want, x.Credit, x.Cursor, x.Fresh)
	}
	if x.Delivered.Len() != 5 || x.Delivered.Last().Num != 54 {
		t.Errorf("%d blocks are remembered, the newest is %d; want those below the start", x.Delivered.Len(), x.Delivered.Last().Num)
	}
	if x.Window || len(x.Failed) != 0 || len(x.SeamLeft) != 0 {
		t.Errorf("window %v, failures %d, left at the seam %v", x.Window, len(x.Failed), x.SeamLeft)
	}
	// What it asks for again may come from a node on a fork this time.
	ask(x, ship.BlocksRequest{Start: 40, End: 500})
	if x.Settled != 39 {
		t.Errorf("settled up to %d behind a request from block 40 on", x.Settled)
	}
	ask(x, ship.BlocksRequest{End: 500})
	if x.Settled != 0 {
		t.Errorf("settled up to %d behind a request for everything", x.Settled)
	}
	x.Settled = 49
	if x.HeadSent.Num != 80 || x.LIBSent.Num != 49 || x.Settled != 49 {
		t.Errorf("head told %d, LIB told %d, settled %d; they survive", x.HeadSent.Num, x.LIBSent.Num, x.Settled)
	}
}

// TestClaims: what the client says it has counts as delivered. Blocks 50 to 54
// are remembered; the request starts at 60.
func TestClaims(t *testing.T) {
	for _, c := range []struct {
		name    string
		have    []ship.Pos
		want    []ship.Pos
		settled uint32
	}{
		{"nothing", nil, positions(50, 51, 52, 53, 54), 40},
		{"the same", positions(52, 53), positions(50, 51, 52, 53, 54), 40},
		{"later ones", positions(54, 58, 59), positions(50, 51, 52, 53, 54, 58, 59), 40},
		{"earlier ones, down to the last irreversible block", positions(39, 40, 41), positions(41, 50, 51, 52, 53, 54), 40},
		{"in no order, and twice", positions(57, 41, 57, 52), positions(41, 50, 51, 52, 53, 54, 57), 40},
		{"another fork", []ship.Pos{stagetest.Pos(51), stagetest.Fork(52, 1), stagetest.Fork(53, 1)},
			[]ship.Pos{stagetest.Pos(50), stagetest.Pos(51), stagetest.Fork(52, 1), stagetest.Fork(53, 1)}, 40},
		{"another fork, where all is irreversible", []ship.Pos{stagetest.Fork(52, 1), stagetest.Fork(53, 1), stagetest.Fork(54, 1)},
			[]ship.Pos{stagetest.Pos(50), stagetest.Pos(51), stagetest.Fork(54, 1)}, 53},
		{"at the start and above: nodes do not look at them", positions(60, 61), positions(50, 51, 52, 53, 54), 40},
	} {
		x := stagetest.Exchange(stagetest.Node("a"))
		deliver(x, 50, 55)
		x.Settled = c.settled
		ask(x, ship.BlocksRequest{Start: 60, End: 100, Have: c.have})
		var got []ship.Pos
		for i := range x.Delivered.Len() {
			got = append(got, *x.Delivered.At(i))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: remembered %v, want %v", c.name, got, c.want)
		}
	}
}

// Which link a request takes (S8, S10, S11).
func TestRelink(t *testing.T) {
	live := ship.BlocksRequest{Start: 10, End: 20, MaxInFlight: 1}
	empty := ship.BlocksRequest{Start: 10, End: 10, MaxInFlight: 1}
	rewinds := ship.BlocksRequest{Start: 10, End: 10, MaxInFlight: 1, Have: positions(9)}
	harmless := ship.BlocksRequest{Start: 10, End: 8, MaxInFlight: 1, Have: positions(9)}
	busy := func(x *pipeline.Exchange) {}
	finished := func(x *pipeline.Exchange) { x.Link.Cursor = 200 }
	spent := func(x *pipeline.Exchange) { x.Credit = 0 }
	unused := func(x *pipeline.Exchange) { x.Link = pipeline.Link{Up: true} }
	dialing := func(x *pipeline.Exchange) { x.Link = pipeline.Link{Upstream: pipeline.None} }
	backoff := func(x *pipeline.Exchange) {
		x.Link, x.Current = pipeline.Link{Upstream: pipeline.None}, pipeline.None
	}
	for _, c := range []struct {
		name   string
		q      ship.BlocksRequest
		change func(x *pipeline.Exchange)
		want   pipeline.Relink
	}{
		{"under way", live, busy, pipeline.Redial},
		{"finished and irreversible", live, finished, pipeline.SendRequest},
		{"credit used up", live, spent, pipeline.SendRequest},
		{"link without a request", live, unused, pipeline.SendRequest},
		{"while dialing", live, dialing, pipeline.KeepLink},
		{"in the pause after a failure", live, backoff, pipeline.KeepLink},

		{"empty, under way", empty, busy, pipeline.Redial},
		{"empty, finished and irreversible", empty, finished, pipeline.SendRequest},
		{"empty, credit used up", empty, spent, pipeline.SendRequest},
		{"empty, link without a request", empty, unused, pipeline.KeepLink},
		{"empty, while dialing", empty, dialing, pipeline.KeepLink},
		{"empty, in the pause after a failure", empty, backoff, pipeline.KeepLink},

		{"a stale position below: not empty", rewinds, unused, pipeline.SendRequest},
		{"a stale position below, under way", rewinds, busy, pipeline.Redial},
		{"a position not below the end: empty", harmless, unused, pipeline.KeepLink},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := stagetest.Exchange(stagetest.Node("a"))
			x.Asked, x.Want, x.Cursor, x.Credit = true, ship.BlocksRequest{Start: 100, End: 200}, 150, 5
			x.Current = 0
			x.Link = pipeline.Link{Up: true, Requested: true, End: 200, Cursor: 150, Exact: true, LIB: 199}
			c.change(x)
			ask(x, c.q)
			if x.Relink != c.want {
				t.Errorf("relink is %d, want %d", x.Relink, c.want)
			}
		})
	}
}

// The old request's credit decides on the link, not the new one's.
func TestRelinkLooksAtTheOldCredit(t *testing.T) {
	x := linked()
	x.Current, x.Credit = 0, 1
	ask(x, ship.BlocksRequest{Start: 10, End: 20, MaxInFlight: 0})
	if x.Relink != pipeline.Redial {
		t.Errorf("relink is %d; a result of the old request may still come", x.Relink)
	}
}

// TestReroute covers S9: node 0 is the present one, node 1 the pick.
func TestReroute(t *testing.T) {
	const block = 990
	lagging := stagetest.HeadAt(800)
	for _, c := range []struct {
		name          string
		present, pick stagetest.Option
		change        func(x *pipeline.Exchange)
		want          bool
	}{
		{"both as good", nil, nil, nil, false},
		{"the present one lacks the block", stagetest.From(block + 1), nil, nil, true},
		{"both lack it", stagetest.From(block + 1), stagetest.From(block + 1), nil, false},
		{"the present one is quarantined there", quarantined(block), nil, nil, true},
		{"the present one is disabled", stagetest.Disabled, nil, nil, true},
		{"the present one is offline", stagetest.Offline, nil, nil, false},
		{"the present one lags", lagging, nil, nil, true},
		{"both lag", lagging, lagging, nil, false},
		{"the pick lags, but has the block", stagetest.From(block + 1), lagging, nil, true},
		{"the pick lacks the block, the present one lags", lagging, stagetest.From(block + 1), nil, false},
		{"the present one is stale", stagetest.Stale, nil, nil, false},
		{"the pick has a better priority", priority(1), nil, nil, false},
		{"the pick is larger", nil, weight(9), nil, false},
		{"the present one has more links", stagetest.Taken(9), nil, nil, false},
		{"no pick", stagetest.From(block + 1), nil, func(x *pipeline.Exchange) { x.Pick = pipeline.None }, false},
		{"the pick is the present one", stagetest.From(block + 1), nil, func(x *pipeline.Exchange) { x.Pick = 0 }, false},
		{"an empty request goes nowhere", stagetest.From(block + 1), nil, func(x *pipeline.Exchange) { x.Want.End = block }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var nodes []fleet.Upstream
			for i, o := range []stagetest.Option{c.present, c.pick} {
				u := stagetest.Node(string(rune('a' + i)))
				if o != nil {
					o(&u)
				}
				nodes = append(nodes, u)
			}
			for _, link := range []bool{true, false} {
				x := stagetest.Exchange(nodes...)
				x.View.Lag = 100
				x.Current, x.Pick = 0, 1
				x.Link = pipeline.Link{Up: link}
				x.Want.End = 2000
				if c.change != nil {
					c.change(x)
				}
				ask(x, ship.BlocksRequest{Start: block, End: x.Want.End, FetchTraces: true})
				if moved := x.Relink == pipeline.Move; moved != c.want {
					t.Errorf("link up %v: moved is %v, want %v", link, moved, c.want)
				}
			}
		})
	}
}

func quarantined(n uint32) stagetest.Option {
	return stagetest.Quarantined(n, 1, stagetest.Exchange().Now.Add(time.Second))
}

func priority(p uint32) stagetest.Option {
	return func(u *fleet.Upstream) { u.Server.Priority = p }
}
func weight(w uint32) stagetest.Option { return func(u *fleet.Upstream) { u.Server.Weight = w } }

// In the pause after a failure there is no present upstream to leave (S10).
func TestNoRerouteWithoutAnUpstream(t *testing.T) {
	x := stagetest.Exchange(stagetest.Node("a"))
	x.Pick = 0
	ask(x, ship.BlocksRequest{Start: 10, End: 20})
	if x.Relink != pipeline.KeepLink {
		t.Errorf("relink is %d", x.Relink)
	}
}

// resumable is a session under way: blocks 900 to 959 are delivered, LIB came
// as 955.
func resumable() *pipeline.Exchange {
	x := stagetest.Exchange(stagetest.Node("a"))
	x.Asked, x.Cursor, x.Credit = true, 960, 4
	x.Want = ship.BlocksRequest{V1: true, Start: 900, End: 2000, MaxInFlight: 50, Have: positions(880, 890), FetchBlock: true, FetchTraces: true, FetchDeltas: true, FetchFinality: true}
	deliver(x, 900, 960)
	x.LIBSent, x.Settled = stagetest.Pos(955), 955
	return x
}

// TestBuild covers S13, S14 and S18.
func TestBuild(t *testing.T) {
	all := func(from, to uint32) (out []uint32) {
		for n := from; n < to; n++ {
			out = append(out, n)
		}
		return out
	}
	for _, c := range []struct {
		name   string
		change func(x *pipeline.Exchange)
		start  uint32
		have   []uint32
	}{
		{"nothing passed on yet: as the client sent it", func(x *pipeline.Exchange) { x.Fresh = true }, 900, []uint32{880, 890}},
		{"nothing passed on yet, irreversible", func(x *pipeline.Exchange) { x.Fresh, x.Want.Irreversible = true, true }, 900, []uint32{880, 890}},
		{"resumed: the reversible blocks", nil, 960, all(956, 960)},
		{"resumed, all irreversible", func(x *pipeline.Exchange) { x.Settled = 959 }, 960, nil},
		{"resumed, LIB above the cursor", func(x *pipeline.Exchange) { x.Settled = 990 }, 960, nil},
		{"resumed, LIB known from a status only", func(x *pipeline.Exchange) { x.LIBSent = stagetest.Pos(990) }, 960, all(956, 960)},
		{"resumed, irreversible blocks only", func(x *pipeline.Exchange) { x.Want.Irreversible = true }, 960, nil},
		{"resumed after blocks without ids", func(x *pipeline.Exchange) { x.Cursor = 970 }, 970, all(956, 960)},
		{"resumed below what was delivered", func(x *pipeline.Exchange) { x.Cursor = 958 }, 958, all(956, 958)},
		{"resumed, nothing delivered", func(x *pipeline.Exchange) { x.Delivered.Forget(0) }, 960, nil},
		{"resumed, 1024 reversible blocks", func(x *pipeline.Exchange) { deliver(x, 956, 1980); x.Cursor = 1980 }, 1980, all(956, 1980)},
		{"resumed, one more: the newest", func(x *pipeline.Exchange) { deliver(x, 956, 1981); x.Cursor = 1981 }, 1981, all(957, 1981)},
		{"satisfied: sent all the same", func(x *pipeline.Exchange) { x.Want.End = 960 }, 960, all(956, 960)},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := resumable()
			if c.change != nil {
				c.change(x)
			}
			want := x.Want
			want.Start, want.MaxInFlight, want.Have = c.start, 4, positions(c.have...)
			if got := forward.Build(x); !reflect.DeepEqual(got, want) {
				t.Errorf("built %+v\nwant %+v", got, want)
			}
			if x.Want.MaxInFlight != 50 || len(x.Want.Have) != 2 {
				t.Error("the client's request was changed")
			}
		})
	}
}

// TestSent covers S15: the link's cursor and the dedup window after a request.
func TestSent(t *testing.T) {
	for _, c := range []struct {
		name        string
		fresh, seam bool
		have        []ship.Pos
		cursor      uint32
		exact       bool
		window      bool
	}{
		{"fresh", true, false, nil, 960, true, false},
		{"fresh at a seam", true, true, nil, 960, true, false},
		{"fresh with positions", true, false, positions(950, 955), 950, false, false},
		{"positions in no order", true, false, positions(955, 950, 957), 950, false, false},
		{"fresh with positions at and above the start", true, false, positions(960, 970), 960, true, false},
		{"resumed at a seam", false, true, nil, 960, true, true},
		{"resumed at a seam with positions", false, true, positions(958, 959), 958, false, true},
		{"resumed elsewhere with positions", false, false, positions(958, 959), 958, false, true},
		{"resumed elsewhere without", false, false, nil, 960, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := resumable()
			x.Fresh, x.Ack = c.fresh, 3
			x.Link = pipeline.Link{Up: true, Head: 5}
			q := ship.BlocksRequest{Start: 960, End: 2000, MaxInFlight: 4, Have: c.have, Irreversible: true}
			forward.Sent(x, &q, c.seam)
			want := pipeline.Link{Up: true, Head: 5, Requested: true, End: 2000, Irreversible: true, First: true, Seam: c.seam, Cursor: c.cursor, Exact: c.exact, Window: 4}
			if x.Link != want {
				t.Errorf("the link is %+v\nwant %+v", x.Link, want)
			}
			if x.Ack != 0 {
				t.Errorf("%d to be acked; the request carries all credit", x.Ack)
			}
			if x.Window != c.window || c.window && x.Floor != 960 {
				t.Errorf("window %v, floor %d; want %v", x.Window, x.Floor, c.window)
			}
		})
	}
}

// A node that sends keep-alives may send one unasked at any time, so a link
// that has shown one never takes a second request while credit is left (S11).
func TestKeepAlivesAreRemembered(t *testing.T) {
	x := linked()
	x.Current = 0
	down(x, stagetest.HeadOnly(40, 30))
	x.Credit = 0
	ask(x, ship.BlocksRequest{Start: 10, End: 12, MaxInFlight: 9})
	if x.Relink != pipeline.SendRequest {
		t.Fatalf("relink is %d; without credit nothing can come", x.Relink)
	}
	q := forward.Build(x)
	forward.Sent(x, &q, false)
	for n := uint32(10); n < 12; n++ {
		down(x, stagetest.Result(stagetest.Pos(n), stagetest.Pos(n-1)))
	}
	ask(x, ship.BlocksRequest{Start: 10, End: 12, MaxInFlight: 9})
	if x.Relink != pipeline.Redial {
		t.Errorf("relink is %d; a keep-alive for the request before may come and would be charged to this one", x.Relink)
	}
}
