package plan_test

import (
	"maps"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/selection"
	"flotilla/stages/stagetest"
)

const endless = fleet.NoBlock

// TestHas covers G2, G3 and P7: who has a block as fully as the fleet can, for
// a request of these logs, and up to where. Block 100 is asked for.
func TestHas(t *testing.T) {
	archive, node, at := stagetest.Archive, stagetest.Node, stagetest.Log
	traces, deltas := ship.BlocksRequest{FetchTraces: true}, ship.BlocksRequest{FetchDeltas: true}
	both := ship.BlocksRequest{FetchTraces: true, FetchDeltas: true}
	finality := ship.BlocksRequest{V1: true, FetchTraces: true, FetchFinality: true}
	ids := ship.BlocksRequest{}
	for _, c := range []struct {
		name  string
		q     ship.BlocksRequest
		nodes []fleet.Upstream
		want  map[int]uint32
	}{
		{"an archive", both, []fleet.Upstream{archive("a", 50, 200)}, map[int]uint32{0: 200}},
		{"its first block", both, []fleet.Upstream{archive("a", 100, 200), archive("b", 1, 100)}, map[int]uint32{0: 200}},
		{"its last block", both, []fleet.Upstream{archive("a", 50, 101), archive("b", 101, 200)}, map[int]uint32{0: 101}},
		{"replicas", both, []fleet.Upstream{archive("a", 50, 200), archive("b", 50, 200)}, map[int]uint32{0: 200, 1: 200}},
		{"overlapping archives", both, []fleet.Upstream{archive("a", 50, 200), archive("b", 90, 300)}, map[int]uint32{0: 200, 1: 300}},
		{"the start of another is no end", both, []fleet.Upstream{archive("a", 50, 200), archive("b", 150, 300)}, map[int]uint32{0: 200}},
		{"a live node", both, []fleet.Upstream{node("l", stagetest.From(100))}, map[int]uint32{0: endless}},
		{"a live node from above", both, []fleet.Upstream{archive("a", 50, 200), node("l", stagetest.From(101))}, map[int]uint32{0: 200}},
		{"a live node that is behind", both, []fleet.Upstream{node("l", at(fleet.Trace, 1, 50), at(fleet.ChainState, 1, 50))}, map[int]uint32{0: endless}},
		{"both kinds", both, []fleet.Upstream{archive("a", 50, 200), node("l")}, map[int]uint32{0: 200, 1: endless}},

		{"traces: one has none here", traces, []fleet.Upstream{archive("a", 50, 200, at(fleet.Trace, 101, 200)), archive("b", 50, 150)}, map[int]uint32{1: 150}},
		{"traces: one has no such log", traces, []fleet.Upstream{archive("a", 50, 200, at(fleet.Trace, 0, 0)), archive("b", 50, 150)}, map[int]uint32{1: 150}},
		{"traces: nobody has any here, nor above", traces, []fleet.Upstream{archive("a", 50, 200, at(fleet.Trace, 0, 0)), archive("b", 50, 150, at(fleet.Trace, 0, 0))}, map[int]uint32{0: 200, 1: 150}},
		{"traces: nobody has any here, another has above", traces, []fleet.Upstream{archive("a", 50, 200, at(fleet.Trace, 0, 0)), archive("b", 50, 150, at(fleet.Trace, 120, 150))}, map[int]uint32{0: 120, 1: 150}},
		{"traces: who has them is offline: they are waited for", traces, []fleet.Upstream{archive("a", 50, 200, at(fleet.Trace, 0, 0)), archive("b", 50, 150, stagetest.Offline)}, nil},
		{"traces: who has them is disabled: they are waited for", traces, []fleet.Upstream{archive("a", 50, 200, at(fleet.Trace, 0, 0)), archive("b", 50, 150, stagetest.Disabled)}, nil},
		{"traces: who had them was removed", traces, []fleet.Upstream{archive("a", 50, 200, at(fleet.Trace, 0, 0)), archive("b", 50, 150, stagetest.Unheard, func(u *fleet.Upstream) { u.Removed = true })}, map[int]uint32{0: 200}},
		{"traces: just declared counts", traces, []fleet.Upstream{archive("a", 50, 200, at(fleet.Trace, 0, 0)), archive("b", 50, 150, stagetest.Offline, func(u *fleet.Upstream) { u.Reported = false })}, nil},
		{"no traces asked for", deltas, []fleet.Upstream{archive("a", 50, 200, at(fleet.Trace, 0, 0)), archive("b", 50, 150)}, map[int]uint32{0: 200, 1: 150}},

		{"deltas: one has none here", deltas, []fleet.Upstream{archive("a", 50, 200, at(fleet.ChainState, 101, 200)), archive("b", 50, 150)}, map[int]uint32{1: 150}},
		{"deltas: they end first", deltas, []fleet.Upstream{archive("a", 50, 200, at(fleet.ChainState, 50, 140)), node("l", stagetest.From(160))}, map[int]uint32{0: 160}},
		{"deltas: they end where another has them", deltas, []fleet.Upstream{archive("a", 50, 200, at(fleet.ChainState, 50, 140)), node("l", stagetest.From(140))}, map[int]uint32{0: 140}},
		{"each lacks what the other has", both, []fleet.Upstream{archive("a", 50, 200, at(fleet.Trace, 0, 0)), archive("b", 50, 200, at(fleet.ChainState, 0, 0))}, nil},

		{"finality: it begins above", finality, []fleet.Upstream{archive("a", 50, 200), node("l", at(fleet.Finality, 120, 1001))}, map[int]uint32{0: 120, 1: endless}},
		{"finality: only one has it", finality, []fleet.Upstream{archive("a", 50, 200), node("l", at(fleet.Finality, 100, 1001))}, map[int]uint32{1: endless}},
		{"finality not asked for", traces, []fleet.Upstream{archive("a", 50, 200), node("l", at(fleet.Finality, 100, 1001))}, map[int]uint32{0: 200, 1: endless}},
		{"too old for the request, and it alone has traces", finality, []fleet.Upstream{archive("a", 50, 200, speaksV0), node("l", stagetest.From(150))}, nil},

		{"ids: any log will do", ids, []fleet.Upstream{archive("a", 50, 200, at(fleet.ChainState, 0, 0)), archive("b", 50, 150, at(fleet.Trace, 0, 0))}, map[int]uint32{0: 200, 1: 150}},
		{"ids: no log of it here, one above", ids, []fleet.Upstream{archive("a", 50, 200, at(fleet.ChainState, 0, 0), at(fleet.Trace, 110, 200)), archive("b", 50, 150)}, map[int]uint32{1: 150}},
		{"ids: a hole between its logs", ids, []fleet.Upstream{archive("a", 50, 101, at(fleet.ChainState, 150, 200)), archive("b", 1, 50), node("l", stagetest.From(300))}, map[int]uint32{0: 101}},
		{"the block log is no matter", ship.BlocksRequest{FetchBlock: true, FetchTraces: true}, []fleet.Upstream{archive("a", 50, 200, stagetest.NoBlockLog), archive("b", 210, 300)}, map[int]uint32{0: 200}},

		{"disabled", both, []fleet.Upstream{archive("a", 50, 200, stagetest.Disabled), archive("b", 50, 150)}, map[int]uint32{1: 150}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := stagetest.Stitched(c.nodes...)
			replace(x, 100, c.q)
			up(x)
			if got := runs(x); !maps.Equal(got, c.want) {
				t.Errorf("runs %v, want %v", got, c.want)
			}
		})
	}
}

// TestBelowTheFirst covers the legs of P3: who begins with the fleet's first
// block, and up to where one of them is asked.
func TestBelowTheFirst(t *testing.T) {
	traces := ship.BlocksRequest{FetchTraces: true}
	for _, c := range []struct {
		name  string
		nodes []fleet.Upstream
		q     ship.BlocksRequest
		want  map[int]uint32
	}{
		{"up to the end of its own range", []fleet.Upstream{stagetest.Archive("a", 100, 200), stagetest.Archive("b", 100, 300), stagetest.Archive("c", 101, 400)}, traces, map[int]uint32{0: 200, 1: 300}},
		{"a live node", []fleet.Upstream{stagetest.Node("l", stagetest.From(100)), stagetest.Archive("c", 101, 400)}, traces, map[int]uint32{0: endless}},
		{"it begins with a log that is not wanted", []fleet.Upstream{stagetest.Node("l", stagetest.Log(fleet.Trace, 101, 1001), stagetest.Log(fleet.ChainState, 100, 1001)), stagetest.Archive("c", 101, 400)}, traces, map[int]uint32{0: endless}},
		{"and another begins with the one that is", []fleet.Upstream{stagetest.Archive("a", 100, 200, stagetest.Log(fleet.Trace, 0, 0)), stagetest.Archive("c", 100, 400)}, traces, map[int]uint32{0: 100, 1: 400}},
		{"the request ends first", []fleet.Upstream{stagetest.Archive("a", 100, 200)}, ship.BlocksRequest{End: 60}, map[int]uint32{0: 60}},
	} {
		x := stagetest.Stitched(c.nodes...)
		replace(x, 50, c.q)
		if c.q.End > 0 {
			x.Want.End = c.q.End
		}
		up(x)
		if got := runs(x); !maps.Equal(got, c.want) {
			t.Errorf("%s: runs %v, want %v", c.name, got, c.want)
		}
	}
}

// TestClamped covers P6 and the quarantines of P7: where a leg ends, besides at
// the end of what its upstream has. Archive 0 has [50, 200), node 1 has it all.
func TestClamped(t *testing.T) {
	const n = 100
	quarantine := func(i int, block, count uint32) func(*pipeline.Exchange) {
		return func(x *pipeline.Exchange) {
			stagetest.Quarantined(block, count, now.Add(time.Second))(&x.View.Upstreams[i])
		}
	}
	for _, c := range []struct {
		name   string
		change func(x *pipeline.Exchange)
		want   map[int]uint32
	}{
		{"nowhere else", nil, map[int]uint32{0: 200, 1: endless}},
		{"the request ends", func(x *pipeline.Exchange) { x.Want.End = 150 }, map[int]uint32{0: 150, 1: 150}},
		{"the request ends with this block", func(x *pipeline.Exchange) { x.Want.End = n + 1 }, map[int]uint32{0: n + 1, 1: n + 1}},
		{"the fleet's head is in the archive", tip(150, 120), map[int]uint32{0: 151, 1: endless}},
		{"the fleet's head is this block", tip(n, 90), map[int]uint32{0: n + 1, 1: endless}},
		{"the fleet's head is the archive's last block", tip(199, 199), map[int]uint32{0: 200, 1: endless}},
		{"irreversible only: the fleet's LIB", all(irreversible, tip(150, 120)), map[int]uint32{0: 121, 1: endless}},
		{"the head is the largest block", tip(1<<32-1, 120), map[int]uint32{0: 200, 1: endless}},
		{"the archive is quarantined further on", quarantine(0, 130, 5), map[int]uint32{0: 130, 1: endless}},
		{"at the next block", quarantine(0, n+1, 5), map[int]uint32{0: n + 1, 1: endless}},
		{"the live node is", quarantine(1, 130, 5), map[int]uint32{0: 200, 1: 130}},
		{"twice", all(quarantine(0, 150, 1), quarantine(0, 130, 1)), map[int]uint32{0: 130, 1: endless}},
		{"below", quarantine(0, n-5, 5), map[int]uint32{0: 200, 1: endless}},
		{"up to this block", quarantine(0, n-5, 6), map[int]uint32{1: endless}},
		{"beyond its end", quarantine(0, 200, 5), map[int]uint32{0: 200, 1: endless}},
		{"up to the largest block", quarantine(0, 130, 1<<32-1), map[int]uint32{0: 130, 1: endless}},
		{"no longer", func(x *pipeline.Exchange) { stagetest.Quarantined(130, 1, now)(&x.View.Upstreams[0]) }, map[int]uint32{0: 200, 1: endless}},
	} {
		x := stagetest.Stitched(stagetest.Archive("a", 50, 200), stagetest.Node("l"))
		replace(x, n, ship.BlocksRequest{FetchTraces: true})
		if c.change != nil {
			c.change(x)
		}
		up(x)
		if got := runs(x); !maps.Equal(got, c.want) {
			t.Errorf("%s: runs %v, want %v", c.name, got, c.want)
		}
	}
}

// TestNoBlockLogLeg: a leg on an archive without a block log ends where an
// upstream that has blocks can take over (seed "fetch_block and block logs").
func TestNoBlockLogLeg(t *testing.T) {
	const n, end = 100, 400
	archive := func(begin, end uint32, o ...stagetest.Option) fleet.Upstream {
		return stagetest.Archive("b", begin, end, o...)
	}
	quarantine := func(block, count uint32) stagetest.Option {
		return stagetest.Quarantined(block, count, now.Add(time.Second))
	}
	for _, c := range []struct {
		name   string
		others []fleet.Upstream
		change func(x *pipeline.Exchange)
		want   uint32
	}{
		{"nobody else", nil, nil, end},
		{"another begins", []fleet.Upstream{archive(200, 300)}, nil, 200},
		{"the first of two that begin", []fleet.Upstream{archive(250, 300), archive(200, 300)}, nil, 200},
		{"a live node begins", []fleet.Upstream{stagetest.Node("l", stagetest.From(200))}, nil, 200},
		{"with fewer logs", []fleet.Upstream{archive(200, 300, stagetest.Log(fleet.Trace, 220, 300))}, nil, 220},
		{"offline", []fleet.Upstream{archive(200, 300, stagetest.Offline)}, nil, end},
		{"disabled", []fleet.Upstream{archive(200, 300, stagetest.Disabled)}, nil, end},
		{"full", []fleet.Upstream{archive(200, 300, stagetest.NoSlots)}, nil, end},
		{"full of the link that stands by", []fleet.Upstream{archive(200, 300, stagetest.NoSlots)}, func(x *pipeline.Exchange) { x.Standby = 1 }, 200},
		{"without a block log itself", []fleet.Upstream{archive(200, 300, stagetest.NoBlockLog)}, nil, end},
		{"excluded", []fleet.Upstream{archive(200, 300)}, excluded(1, false), end},
		{"it could already, but others are preferred", []fleet.Upstream{stagetest.Node("l", stagetest.Stale)}, nil, end},
		{"its quarantine ends", []fleet.Upstream{archive(50, 300, quarantine(90, 60))}, nil, 150},
		{"it begins in its quarantine", []fleet.Upstream{archive(200, 300, quarantine(190, 30))}, nil, 220},
		{"it begins in one of two that touch", []fleet.Upstream{archive(200, 300, quarantine(220, 10), quarantine(190, 30))}, nil, 230},
		{"all of it is in quarantine", []fleet.Upstream{archive(200, 300, quarantine(190, 200))}, nil, end},
		{"up to the largest block", []fleet.Upstream{stagetest.Node("l", stagetest.From(200), quarantine(190, 1<<32-1))}, nil, end},
		{"it begins where the archive ends", []fleet.Upstream{archive(end, 500)}, nil, end},
		{"the request ends first", []fleet.Upstream{archive(200, 300)}, func(x *pipeline.Exchange) { x.Want.End = 180 }, 180},
		{"the gate comes first", []fleet.Upstream{archive(200, 300)}, tip(160, 120), 161},
		{"no block is asked for", []fleet.Upstream{archive(200, 300)}, func(x *pipeline.Exchange) { x.Want.FetchBlock = false }, end},
		{"the archive has a block log", []fleet.Upstream{archive(200, 300)}, func(x *pipeline.Exchange) { x.View.Upstreams[0].NoBlockLog = false }, end},
	} {
		x := stagetest.Stitched(append([]fleet.Upstream{stagetest.Archive("a", 1, end, stagetest.NoBlockLog)}, c.others...)...)
		replace(x, n, ship.BlocksRequest{FetchBlock: true, FetchTraces: true})
		if c.change != nil {
			c.change(x)
		}
		up(x)
		if got, ok := runs(x)[0]; !ok || got != c.want {
			t.Errorf("%s: the leg ends at %d (%v), want %d", c.name, got, ok, c.want)
		}
	}
}

// TestLegs goes through whole streams: each leg is planned where the one before
// has ended, as a session does it (P9).
func TestLegs(t *testing.T) {
	type leg struct {
		who int
		end uint32
	}
	archives := []fleet.Upstream{stagetest.Archive("a", 1, 301), stagetest.Archive("b", 301, 601), stagetest.Node("l", stagetest.From(601))}
	for _, c := range []struct {
		name  string
		nodes []fleet.Upstream
		start uint32
		q     ship.BlocksRequest
		want  []leg
	}{
		{"two archives and a node at the tip", archives, 1, ship.BlocksRequest{FetchTraces: true}, []leg{{0, 301}, {1, 601}, {2, endless}}},
		{"from the second on", archives, 400, ship.BlocksRequest{FetchTraces: true}, []leg{{1, 601}, {2, endless}}},
		{"archives overlap: each is read to its end", []fleet.Upstream{stagetest.Archive("a", 1, 301), stagetest.Archive("b", 201, 601), stagetest.Node("l", stagetest.From(501))}, 1,
			ship.BlocksRequest{FetchTraces: true}, []leg{{0, 301}, {1, 601}, {2, endless}}},
		{"a long archive goes before a short one", []fleet.Upstream{stagetest.Archive("a", 1, 301), stagetest.Archive("b", 1, 601), stagetest.Node("l", stagetest.From(501))}, 1,
			ship.BlocksRequest{FetchTraces: true}, []leg{{1, 601}, {2, endless}}},
		{"finality data begins on the way", []fleet.Upstream{stagetest.Archive("a", 1, 601), stagetest.Node("l", stagetest.From(501), stagetest.Log(fleet.Finality, 551, 1001))}, 1,
			ship.BlocksRequest{V1: true, FetchTraces: true, FetchFinality: true}, []leg{{0, 551}, {1, endless}}},
		{"below the first block", archives[1:], 5, ship.BlocksRequest{FetchTraces: true}, []leg{{0, 601}, {1, endless}}},
		{"a node at the tip that lost its history: back to an archive", []fleet.Upstream{stagetest.Archive("a", 401, 601), stagetest.Node("l", stagetest.From(201), stagetest.Log(fleet.Trace, 501, 1001))}, 201,
			ship.BlocksRequest{FetchTraces: true, FetchDeltas: true}, []leg{{1, 401}, {0, 601}, {1, endless}}},
	} {
		x := stagetest.Stitched(c.nodes...)
		replace(x, c.start, c.q)
		var got []leg
		for x.Cursor != endless && len(got) < 10 {
			up(x)
			selection.New(&config.Listener{}).(pipeline.Upward).Up(x)
			if x.Pick == pipeline.None || x.LegEnd <= x.Cursor {
				t.Fatalf("%s: after %v: the plan is %+v, the leg on %d ends at %d", c.name, got, x.Plan, x.Pick, x.LegEnd)
			}
			got = append(got, leg{x.Pick, x.LegEnd})
			x.Cursor = x.LegEnd
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: legs %v, want %v", c.name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: legs %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}
