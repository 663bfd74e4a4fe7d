package plan_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/stagetest"
)

var now = stagetest.Exchange().Now

// runs are the candidates: the end of the run of each, by index.
func runs(x *pipeline.Exchange) map[int]uint32 {
	out := map[int]uint32{}
	for _, c := range x.Candidates {
		out[c.Index] = c.Run
	}
	return out
}

func hold(why fleet.HoldReason, bounded bool) pipeline.Plan {
	return pipeline.Plan{Do: pipeline.Hold, Why: why, Bounded: bounded}
}

var (
	wait = pipeline.Plan{Do: pipeline.Wait}
	gap  = pipeline.Plan{Do: pipeline.Gap}
	rest = pipeline.Plan{Do: pipeline.Rest}
)

// excluded keeps upstream i from being picked for a second.
func excluded(i int, busy bool) func(*pipeline.Exchange) {
	return func(x *pipeline.Exchange) {
		x.Exclude(i, pipeline.Exclusion{Until: now.Add(time.Second), Busy: busy})
	}
}

func quarantined(n uint32) stagetest.Option {
	return stagetest.Quarantined(n, 1, now.Add(2*time.Second))
}

// tip sets the fleet's head and LIB.
func tip(head, lib uint32) func(*pipeline.Exchange) {
	return func(x *pipeline.Exchange) {
		x.Tip = &fleet.Pair{Head: stagetest.Pos(head), LIB: stagetest.Pos(lib)}
	}
}

func all(changes ...func(*pipeline.Exchange)) func(*pipeline.Exchange) {
	return func(x *pipeline.Exchange) {
		for _, c := range changes {
			c(x)
		}
	}
}

func desperate(x *pipeline.Exchange)    { x.Desperate = true }
func irreversible(x *pipeline.Exchange) { x.Want.Irreversible = true }

// TestDecision covers P1 to P5 and P8: what a session does for its block. The
// plan's Again is left to TestAgain.
func TestDecision(t *testing.T) {
	archive, live, offline := stagetest.Archive, stagetest.Node, stagetest.Offline
	fromHere := stagetest.From
	// Two archives with a hole between them, and a live node.
	holed := []fleet.Upstream{archive("a", 1, 100), archive("b", 200, 300), live("l", fromHere(300))}
	with := func(nodes []fleet.Upstream, more ...fleet.Upstream) []fleet.Upstream {
		return append(slices.Clone(nodes), more...)
	}
	unheard := archive("new", 1, 2, stagetest.Unheard)
	removed := archive("new", 1, 2, stagetest.Unheard, func(u *fleet.Upstream) { u.Removed = true })
	both := func(o stagetest.Option) []fleet.Upstream {
		return []fleet.Upstream{archive("a", 1, 501, o), archive("b", 1, 501, o)}
	}
	archives := []fleet.Upstream{archive("a", 1, 501), archive("b", 1, 501)}
	for _, c := range []struct {
		name   string
		nodes  []fleet.Upstream
		block  uint32
		change func(x *pipeline.Exchange)
		want   pipeline.Plan
		who    []int
	}{
		// P2: where nobody has the block.
		{name: "nothing is known of anybody", nodes: []fleet.Upstream{live("l", stagetest.Unheard)}, block: 5, want: wait},
		{name: "nothing is known, of an archive neither", nodes: []fleet.Upstream{unheard, live("l", stagetest.Unheard)}, block: 5, want: wait},
		{name: "the last block before a hole", nodes: holed, block: 99, who: []int{0}},
		{name: "the first block of a hole", nodes: holed, block: 100, want: gap},
		{name: "the last block of a hole", nodes: holed, block: 199, want: gap},
		{name: "the first block after a hole", nodes: holed, block: 200, who: []int{1}},
		{name: "a hole, and an archive has told nothing", nodes: with(holed, unheard), block: 150, want: hold(fleet.HoldOffline, true)},
		{name: "a hole, and such an archive was removed", nodes: with(holed, removed), block: 150, want: gap},
		{name: "a hole, and a live node has told nothing", nodes: with(holed, live("m", stagetest.Unheard)), block: 150, want: gap},
		{name: "no hole: who has it is offline", nodes: with(holed, archive("c", 100, 200, offline)), block: 150, want: hold(fleet.HoldOffline, true)},
		{name: "no hole: who has it is disabled", nodes: with(holed, archive("c", 100, 200, stagetest.Disabled)), block: 150, want: hold(fleet.HoldOffline, true)},
		{name: "a hole up to the first live block", nodes: []fleet.Upstream{archive("a", 1, 100), live("l", fromHere(300))}, block: 299, want: gap},
		{name: "the cut-over from a snapshot", nodes: []fleet.Upstream{archive("a", 1, 301), live("l", stagetest.Log(fleet.Trace, 301, 1001), stagetest.Log(fleet.ChainState, 300, 1001))}, block: 301, who: []int{1}},
		{name: "above the archives of a fleet without live nodes", nodes: archives, block: 501, change: tip(500, 500), want: wait},
		{name: "the last block of such a fleet", nodes: archives, block: 500, change: tip(500, 500), who: []int{0, 1}},
		{name: "above the archives, and no live node has told anything", nodes: with(archives, live("l", stagetest.Unheard)), block: 501, want: wait},
		{name: "above the archives, and one has told nothing", nodes: with(archives, unheard), block: 501, want: wait},
		{name: "above the head of a live node", nodes: holed, block: 5000, who: []int{2}},
		{name: "the largest block", nodes: holed, block: 1<<32 - 2, who: []int{2}},

		// P3: below the first block.
		{name: "below the first block: those that begin with it", nodes: []fleet.Upstream{archive("a", 101, 501), archive("b", 102, 501), archive("c", 101, 301), live("l", fromHere(501))}, block: 5,
			who: []int{0, 2}},
		{name: "below the first block, and an archive has told nothing", nodes: []fleet.Upstream{archive("a", 101, 501), unheard}, block: 5, want: hold(fleet.HoldOffline, true)},
		{name: "below the first block, its archive offline", nodes: []fleet.Upstream{archive("a", 101, 501, offline), archive("b", 102, 501)}, block: 5, want: hold(fleet.HoldOffline, true)},
		{name: "below the first block, which a live node has", nodes: []fleet.Upstream{archive("b", 301, 501), live("l", fromHere(201))}, block: 5, who: []int{1}},
		{name: "the same, offline", nodes: []fleet.Upstream{archive("b", 301, 501), live("l", fromHere(201), offline)}, block: 5, want: hold(fleet.HoldOffline, false)},

		// P4: who has it may not be asked.
		{name: "both excluded", nodes: archives, block: 5, change: all(excluded(0, false), excluded(1, false)), want: hold(fleet.HoldOffline, true)},
		{name: "both excluded, one busy", nodes: archives, block: 5, change: all(excluded(0, false), excluded(1, true)), want: hold(fleet.HoldBusy, true)},
		{name: "one excluded", nodes: archives, block: 5, change: excluded(0, true), who: []int{1}},
		{name: "the exclusion is over", nodes: archives[:1], block: 5, change: func(x *pipeline.Exchange) { x.Exclude(0, pipeline.Exclusion{Until: now}) }, who: []int{0}},
		{name: "found down, and back since", nodes: archives[:1], block: 5, change: func(x *pipeline.Exchange) {
			x.Exclude(0, pipeline.Exclusion{Until: now.Add(time.Second), Down: true})
		}, who: []int{0}},
		{name: "both quarantined", nodes: both(quarantined(5)), block: 5, want: hold(fleet.HoldQuarantined, true)},
		{name: "both quarantined elsewhere", nodes: both(quarantined(6)), block: 5, who: []int{0, 1}},
		{name: "the quarantine is over", nodes: both(stagetest.Quarantined(5, 1, now)), block: 5, who: []int{0, 1}},
		{name: "one quarantined, one excluded", nodes: []fleet.Upstream{archive("a", 1, 501, quarantined(5)), archive("b", 1, 501)}, block: 5, change: excluded(1, false), want: hold(fleet.HoldOffline, true)},
		{name: "one quarantined, one disabled", nodes: []fleet.Upstream{archive("a", 1, 501, quarantined(5)), archive("b", 1, 501, stagetest.Disabled)}, block: 5, want: hold(fleet.HoldOffline, true)},
		{name: "one quarantined, one with another block disabled", nodes: []fleet.Upstream{archive("a", 1, 501, quarantined(5)), archive("b", 6, 501, stagetest.Disabled)}, block: 5, want: hold(fleet.HoldQuarantined, true)},
		{name: "one quarantined, one offline", nodes: []fleet.Upstream{archive("a", 1, 501, quarantined(5)), archive("b", 1, 501, offline)}, block: 5, want: hold(fleet.HoldOffline, true)},

		// P5: the best of those that may.
		{name: "both offline", nodes: both(offline), block: 5, want: hold(fleet.HoldOffline, true)},
		{name: "both offline, when that is no matter", nodes: both(offline), block: 5, change: desperate, who: []int{0, 1}},
		{name: "one offline", nodes: []fleet.Upstream{archive("a", 1, 501, offline), archive("b", 1, 501)}, block: 5, who: []int{1}},
		{name: "both full", nodes: both(stagetest.NoSlots), block: 5, want: hold(fleet.HoldAtCapacity, true)},
		{name: "one full, and a stale one: it is there, which beats waiting (9.1.8)", nodes: []fleet.Upstream{archive("a", 1, 501, stagetest.NoSlots), live("l", stagetest.Stale)}, block: 5, who: []int{1}},
		{name: "one full, one offline", nodes: []fleet.Upstream{archive("a", 1, 501, stagetest.NoSlots), archive("b", 1, 501, offline)}, block: 5, want: hold(fleet.HoldAtCapacity, true)},
		{name: "the same, when offline is no matter", nodes: []fleet.Upstream{archive("a", 1, 501, stagetest.NoSlots), archive("b", 1, 501, offline)}, block: 5, change: desperate, who: []int{1}},
		{name: "offline and full, when offline is no matter", nodes: both(func(u *fleet.Upstream) { offline(u); stagetest.NoSlots(u) }), block: 5, change: desperate, want: hold(fleet.HoldAtCapacity, true)},
		{name: "at the fleet's head", nodes: archives, block: 400, change: tip(400, 300), who: []int{0, 1}},
		{name: "above the fleet's head", nodes: archives, block: 401, change: tip(400, 300), want: wait},
		{name: "above it, and a live node has the block: it has it no sooner", nodes: with(archives, live("l")), block: 401, change: tip(400, 300), want: wait},
		{name: "above it, and the live node is full", nodes: with(archives, live("l", stagetest.NoSlots)), block: 401, change: tip(400, 300), want: wait},
		{name: "above it, and all are offline: nobody is missed yet", nodes: both(offline), block: 401, change: tip(400, 300), want: wait},
		{name: "the same, when offline is no matter", nodes: both(offline), block: 401, change: all(tip(400, 300), desperate), want: wait},
		{name: "irreversible only, at the fleet's LIB", nodes: archives, block: 300, change: all(tip(400, 300), irreversible), who: []int{0, 1}},
		{name: "irreversible only, above the fleet's LIB", nodes: archives, block: 301, change: all(tip(400, 300), irreversible), want: wait},
		{name: "the head is unknown", nodes: archives, block: 5, change: tip(0, 0), want: wait},
		{name: "irreversible only, and LIB is unknown", nodes: archives, block: 5, change: all(tip(400, 0), irreversible), want: wait},
		{name: "the head is unknown, and a live node has the block", nodes: with(archives, live("l")), block: 5, change: tip(0, 0), want: wait},

		// P8: a hold has a limit when the block is archived.
		{name: "only live nodes, offline", nodes: []fleet.Upstream{archive("a", 1, 501), live("l", fromHere(501), offline)}, block: 501, want: hold(fleet.HoldOffline, false)},
		{name: "only live nodes, full", nodes: []fleet.Upstream{archive("a", 1, 501), live("l", fromHere(501), stagetest.NoSlots)}, block: 501, want: hold(fleet.HoldAtCapacity, false)},
		{name: "only live nodes, quarantined", nodes: []fleet.Upstream{archive("a", 1, 501), live("l", fromHere(501), quarantined(501))}, block: 501, want: hold(fleet.HoldQuarantined, false)},
		{name: "a live node and an archive, offline", nodes: []fleet.Upstream{archive("a", 1, 502, offline), live("l", offline)}, block: 501, want: hold(fleet.HoldOffline, true)},
		{name: "an archive has just another log of it", nodes: []fleet.Upstream{archive("a", 1, 501, offline, stagetest.Log(fleet.Finality, 1, 600)), live("l", offline)}, block: 501, want: hold(fleet.HoldOffline, true)},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := stagetest.Stitched(c.nodes...)
			replace(x, c.block, ship.BlocksRequest{FetchTraces: true, FetchDeltas: true})
			if c.change != nil {
				c.change(x)
			}
			up(x)
			got := x.Plan
			got.Again = time.Time{}
			if got != c.want {
				t.Errorf("the plan is %+v, want %+v", got, c.want)
			}
			if who := indices(x); !slices.Equal(who, c.who) {
				t.Errorf("candidates %v, want %v", who, c.who)
			}
		})
	}
}

// TestRest covers P1: nothing is asked, or all of it was sent.
func TestRest(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(x *pipeline.Exchange)
	}{
		{"nothing is asked", func(x *pipeline.Exchange) { x.Asked = false }},
		{"empty", func(x *pipeline.Exchange) { x.Want.End = x.Want.Start }},
		{"empty, with a position that no node could rewind to", func(x *pipeline.Exchange) {
			x.Want.End, x.Want.Have = 3, []ship.Pos{stagetest.Pos(4)}
		}},
		{"satisfied", func(x *pipeline.Exchange) { x.Want.End, x.Cursor, x.Fresh = 20, 20, false }},
	} {
		x := stagetest.Stitched(stagetest.Archive("a", 1, 501), stagetest.Node("l"))
		replace(x, 5, ship.BlocksRequest{})
		x.Fresh = true
		c.change(x)
		up(x)
		if x.Plan != rest || len(x.Candidates) > 0 {
			t.Errorf("%s: the plan is %+v, candidates %v", c.name, x.Plan, indices(x))
		}
	}
}

// A message only changes what is asked: no plan is made for it.
func TestMessagesAreNotPlanned(t *testing.T) {
	x := stagetest.Stitched(stagetest.Archive("a", 1, 501))
	replace(x, 5, ship.BlocksRequest{})
	up(x)
	x.Cause, x.Request = pipeline.Received, ship.Request{Variant: ship.AckRequestV0, Ack: 1}
	x.Plan = wait
	up(x)
	if x.Plan != wait || len(x.Candidates) > 0 {
		t.Errorf("the plan is %+v, candidates %v", x.Plan, indices(x))
	}
}

// TestRewind covers S8: a request that ends at or below its start, with a
// position below both, is for a node at the tip, which alone can rewind.
func TestRewind(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []fleet.Upstream
		want  pipeline.Plan
		runs  map[int]uint32
	}{
		{"a live node has it", []fleet.Upstream{stagetest.Archive("a", 1, 501), stagetest.Node("l")}, pipeline.Plan{}, map[int]uint32{1: 480}},
		{"the live node is offline", []fleet.Upstream{stagetest.Archive("a", 1, 501), stagetest.Node("l", stagetest.Offline)}, hold(fleet.HoldOffline, false), map[int]uint32{}},
		// It owes the client nothing, so this must not end the client.
		{"archives only", []fleet.Upstream{stagetest.Archive("a", 1, 501)}, wait, map[int]uint32{}},
	} {
		x := stagetest.Stitched(c.nodes...)
		replace(x, 490, ship.BlocksRequest{})
		x.Fresh, x.Want.End, x.Want.Have = true, 480, []ship.Pos{stagetest.Fork(470, 1)}
		up(x)
		if got := runs(x); x.Plan != c.want || !maps.Equal(got, c.runs) {
			t.Errorf("%s: the plan is %+v, runs %v; want %+v, %v", c.name, x.Plan, got, c.want, c.runs)
		}
	}
}

// TestAgain: the plan tells when something ends that is in the way.
func TestAgain(t *testing.T) {
	in := func(d time.Duration) time.Time { return now.Add(d) }
	exclude := func(i int, d time.Duration) func(*pipeline.Exchange) {
		return func(x *pipeline.Exchange) { x.Exclude(i, pipeline.Exclusion{Until: in(d)}) }
	}
	quarantine := func(n uint32, d time.Duration) stagetest.Option { return stagetest.Quarantined(n, 1, in(d)) }
	for _, c := range []struct {
		name   string
		a, b   []stagetest.Option
		change func(x *pipeline.Exchange)
		want   time.Time
	}{
		{"nothing is in the way", nil, nil, nil, time.Time{}},
		{"nothing that ends by itself", []stagetest.Option{stagetest.Offline}, []stagetest.Option{stagetest.NoSlots}, nil, time.Time{}},
		{"an exclusion", nil, nil, exclude(0, 3), in(3)},
		{"the first of two", nil, nil, all(exclude(0, 3), exclude(1, 2)), in(2)},
		{"a quarantine", []stagetest.Option{quarantine(5, 3)}, nil, nil, in(3)},
		{"a quarantine before an exclusion", []stagetest.Option{quarantine(5, 3)}, nil, exclude(1, 4), in(3)},
		{"one that is over", []stagetest.Option{quarantine(5, 0)}, nil, exclude(1, -1), time.Time{}},
		{"a quarantine elsewhere", []stagetest.Option{quarantine(6, 3)}, nil, nil, time.Time{}},
	} {
		x := stagetest.Stitched(stagetest.Archive("a", 1, 501, c.a...), stagetest.Archive("b", 1, 501, c.b...), stagetest.Node("l", stagetest.From(501)))
		replace(x, 5, ship.BlocksRequest{})
		if c.change != nil {
			c.change(x)
		}
		x.Exclude(2, pipeline.Exclusion{Until: in(1)}) // who has not the block is in nobody's way
		up(x)
		if !x.Plan.Again.Equal(c.want) {
			t.Errorf("%s: again in %v, want %v", c.name, x.Plan.Again.Sub(now), c.want.Sub(now))
		}
	}
}

// TestOwnSlots: the slots that the session has itself do not make an upstream
// full for it (G8).
func TestOwnSlots(t *testing.T) {
	for _, c := range []struct {
		name   string
		slots  int
		change func(x *pipeline.Exchange)
		serves bool
	}{
		{"full of others", 1, func(*pipeline.Exchange) {}, false},
		{"the link", 1, func(x *pipeline.Exchange) { x.Current = 0 }, true},
		{"the link that has ended", 1, func(x *pipeline.Exchange) { x.Retained = 0 }, true},
		{"the link that stands by", 1, func(x *pipeline.Exchange) { x.Standby = 0 }, true},
		{"two of its own", 2, func(x *pipeline.Exchange) { x.Retained, x.Standby = 0, 0 }, true},
		{"one of two is another session's", 2, func(x *pipeline.Exchange) { x.Current = 0 }, false},
		{"its own slot is elsewhere", 1, func(x *pipeline.Exchange) { x.Current = 1 }, false},
	} {
		x := stagetest.Stitched(stagetest.Archive("a", 1, 501, stagetest.MaxSessions(1), stagetest.Taken(c.slots)), stagetest.Archive("b", 501, 601))
		replace(x, 5, ship.BlocksRequest{})
		c.change(x)
		up(x)
		want := hold(fleet.HoldAtCapacity, true)
		if c.serves {
			want = pipeline.Plan{}
		}
		if x.Plan != want || len(x.Candidates) == 1 != c.serves {
			t.Errorf("%s: the plan is %+v, candidates %v", c.name, x.Plan, indices(x))
		}
	}
}

// TestABIMismatch covers P21.
func TestABIMismatch(t *testing.T) {
	abi := func(fingerprint string) stagetest.Option {
		return func(u *fleet.Upstream) { u.ABI = &ship.ABI{Fingerprint: fingerprint} }
	}
	for _, c := range []struct {
		name     string
		mismatch string
		a        stagetest.Option
		clients  string
		serves   bool
	}{
		{"another, with a warning only", "warn", abi("2"), "1", true},
		{"another, which excludes", "exclude", abi("2"), "1", false},
		{"the same", "exclude", abi("1"), "1", true},
		{"its ABI has not come", "exclude", func(*fleet.Upstream) {}, "1", true},
		{"the fleet has none yet", "exclude", abi("2"), "", true},
	} {
		x := stagetest.Stitched(stagetest.Archive("a", 1, 501, c.a))
		replace(x, 5, ship.BlocksRequest{})
		x.View.Stitching.ABIMismatch, x.View.ABI = c.mismatch, nil
		if c.clients != "" {
			x.View.ABI = &ship.ABI{Fingerprint: c.clients}
		}
		up(x)
		want := hold(fleet.HoldOffline, true)
		if c.serves {
			want = pipeline.Plan{}
		}
		if x.Plan != want || len(x.Candidates) == 1 != c.serves {
			t.Errorf("%s: the plan is %+v, candidates %v", c.name, x.Plan, indices(x))
		}
	}
}
