package plan_test

import (
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/selection"
	"flotilla/stages/stagetest"
)

// pick runs plan and select: the upstream that gets the leg.
func pick(x *pipeline.Exchange) int {
	up(x)
	selection.New(&config.Listener{}).(pipeline.Upward).Up(x)
	return x.Pick
}

// failed has upstreams fail at the block, one strike each.
func failed(who ...int) func(*pipeline.Exchange) {
	return func(x *pipeline.Exchange) {
		x.StuckAt, x.Failed = x.Cursor, who
		x.Soft = who[len(who)-1]
	}
}

// left has the links of upstreams end at the block without a strike.
func left(who ...int) func(*pipeline.Exchange) {
	return func(x *pipeline.Exchange) { x.LeftAt, x.Left = x.Cursor, who }
}

// TestRanking covers 3.3: which of two upstreams that have the block gets it.
// The first of each pair has all that could speak against it below one key, the
// second has that key and nothing else.
func TestRanking(t *testing.T) {
	const block = 5
	archive := func(o ...stagetest.Option) fleet.Upstream { return stagetest.Archive("a", 1, 501, o...) }
	other := func(o ...stagetest.Option) fleet.Upstream { return stagetest.Archive("b", 1, 501, o...) }
	live := func(o ...stagetest.Option) fleet.Upstream { return stagetest.Node("l", o...) }
	lagging := stagetest.HeadAt(2)
	for _, c := range []struct {
		name          string
		better, worse fleet.Upstream
		change        func(x *pipeline.Exchange)
	}{
		{"offline, when that is no matter", live(stagetest.Stale), other(stagetest.Offline), all(failed(0, 0), desperate)},
		{"failed twice", live(stagetest.Stale), other(), failed(1, 1)},
		{"failed twice: even the one without a block log", archive(stagetest.NoBlockLog), live(), failed(1, 1)},
		{"failed twice: even the one that failed once", archive(stagetest.NoBlockLog), other(), failed(1, 0, 1)},
		{"left twice without a strike", live(stagetest.Stale), other(), left(1, 1)},
		{"left once after it has failed", live(stagetest.Stale), other(), all(failed(1), left(1))},
		{"two of its kind were left", live(stagetest.Stale), other(), left(2, 2)},
		{"stale", archive(stagetest.NoBlockLog), live(stagetest.Stale), failed(0)},
		{"lagging", archive(stagetest.NoBlockLog), live(lagging), failed(0)},
		{"no block log", live(), other(stagetest.NoBlockLog), failed(0)},
		{"failed once", live(), archive(), failed(1)},
		{"left for a fault", live(), archive(), func(x *pipeline.Exchange) { x.Soft = 1 }},
		{"role", archive(), live(), nil},
		{"role: whatever its priority", archive(priority(9)), live(), nil},
	} {
		for i, nodes := range [][]fleet.Upstream{{c.better, c.worse}, {c.worse, c.better}} {
			// A third one, which is no candidate.
			x := stagetest.Stitched(append(nodes, stagetest.Archive("c", 501, 601))...)
			x.View.Lag = 100
			replace(x, block, ship.BlocksRequest{FetchBlock: true})
			if c.change != nil {
				c.change(x)
			}
			if i == 1 {
				// The same, with the two in the other order.
				for _, list := range [][]int{x.Failed, x.Left} {
					for k, f := range list {
						if f < 2 {
							list[k] = 1 - f
						}
					}
				}
				if x.Soft != pipeline.None {
					x.Soft = 1 - x.Soft
				}
			}
			if got := pick(x); got != i {
				t.Errorf("%s: picked %d of %+v, want %d", c.name, got, x.Candidates, i)
			}
		}
	}
}

func priority(p uint32) stagetest.Option {
	return func(u *fleet.Upstream) { u.Server.Priority = p }
}

// What is no matter for the request ranks nobody lower.
func TestRankingLooksAtTheRequest(t *testing.T) {
	for _, c := range []struct {
		name   string
		nodes  []fleet.Upstream
		change func(x *pipeline.Exchange)
	}{
		{"no block log, and no block is asked for", []fleet.Upstream{stagetest.Node("l"), stagetest.Archive("a", 1, 501, stagetest.NoBlockLog)}, func(x *pipeline.Exchange) { x.Want.FetchBlock = false }},
		{"it was left at another block", []fleet.Upstream{stagetest.Node("l"), stagetest.Archive("a", 1, 501)}, func(x *pipeline.Exchange) {
			x.LeftAt, x.Left = 4, []int{1, 1}
		}},
		{"it failed at another block", []fleet.Upstream{stagetest.Node("l"), stagetest.Archive("a", 1, 501)}, func(x *pipeline.Exchange) {
			x.StuckAt, x.Failed = 4, []int{1, 1}
		}},
		{"history_preference any: the longer run", []fleet.Upstream{stagetest.Archive("a", 1, 501), stagetest.Node("l")}, func(x *pipeline.Exchange) {
			x.View.Stitching.HistoryPreference = "any"
		}},
		{"history_preference any: the priority goes before the run", []fleet.Upstream{stagetest.Node("l", priority(1)), stagetest.Archive("a", 1, 501)}, func(x *pipeline.Exchange) {
			x.View.Stitching.HistoryPreference = "any"
		}},
		{"a live node behind that has the block", []fleet.Upstream{stagetest.Archive("a", 1, 501), stagetest.Node("l", stagetest.HeadAt(5))}, func(x *pipeline.Exchange) {
			x.View.Stitching.HistoryPreference = "any"
		}},
		{"the same longest run: the policy decides", []fleet.Upstream{stagetest.Archive("a", 1, 501, stagetest.Taken(2)), stagetest.Archive("b", 1, 501, stagetest.Taken(1))}, nil},
		{"runs are compared up to the end of the request", []fleet.Upstream{stagetest.Archive("a", 1, 501, stagetest.Taken(1)), stagetest.Archive("b", 1, 401)}, func(x *pipeline.Exchange) {
			x.Want.End = 300
		}},
	} {
		x := stagetest.Stitched(c.nodes...)
		x.View.Lag = 100
		replace(x, 5, ship.BlocksRequest{FetchBlock: true})
		if c.change != nil {
			c.change(x)
		}
		if got := pick(x); got != 1 || x.LegEnd != runs(x)[1] {
			t.Errorf("%s: picked %d of %+v with a leg up to %d, want 1", c.name, got, x.Candidates, x.LegEnd)
		}
	}
}

// TestDamaged covers 9.1.1 and more: however many archives are damaged at a
// block, all of them perhaps copies of the same log, a node at the tip is asked
// for it after two strikes; and the other way round.
func TestDamaged(t *testing.T) {
	fresh := func(*fleet.Upstream) {}
	for _, c := range []struct {
		name           string
		preference     string
		archives, live int
		tip            stagetest.Option
		// good are the upstreams that are not damaged.
		good func(u *fleet.Upstream) bool
		most int
	}{
		{"one archive", "frozen", 1, 1, stagetest.Stale, live, 2},
		{"one archive, and the node at the tip is fresh", "frozen", 1, 1, fresh, live, 1},
		{"a replica as well", "frozen", 2, 1, stagetest.Stale, live, 2},
		{"six replicas", "frozen", 6, 1, stagetest.Stale, live, 2},
		{"six replicas, and the node at the tip is fresh", "frozen", 6, 1, fresh, live, 2},
		{"six replicas, any", "any", 6, 1, stagetest.Stale, live, 2},
		{"the node at the tip", "any", 1, 1, fresh, archived, 1},
		{"six nodes at the tip", "any", 1, 6, fresh, archived, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var nodes []fleet.Upstream
			for i := range c.archives {
				nodes = append(nodes, stagetest.Archive(string(rune('a'+i)), 1, 501))
			}
			for i := range c.live {
				nodes = append(nodes, stagetest.Node(string(rune('l'+i)), c.tip))
			}
			x := stagetest.Stitched(nodes...)
			x.View.Stitching.HistoryPreference = c.preference
			replace(x, 5, ship.BlocksRequest{})
			for {
				i := pick(x)
				if c.good(&x.View.Upstreams[i]) {
					return
				}
				if len(x.Failed) == c.most {
					t.Fatalf("%v have failed, and %d is asked next", x.Failed, i)
				}
				x.StuckAt, x.Failed, x.Soft = x.Cursor, append(x.Failed, i), i
			}
		})
	}
}

// Where everybody has failed, the one that failed least is asked.
func TestAllDamaged(t *testing.T) {
	x := stagetest.Stitched(stagetest.Archive("a", 1, 501), stagetest.Archive("b", 1, 501), stagetest.Node("l", stagetest.Stale))
	replace(x, 5, ship.BlocksRequest{})
	asked := map[int]int{}
	for range 5 {
		i := pick(x)
		asked[i]++
		x.StuckAt, x.Failed, x.Soft = x.Cursor, append(x.Failed, i), i
	}
	if len(asked) != 3 || asked[0] > 2 || asked[1] > 2 || asked[2] > 2 {
		t.Errorf("within the budget of five they are asked %v times", asked)
	}
}

func live(u *fleet.Upstream) bool     { return !u.Frozen() }
func archived(u *fleet.Upstream) bool { return u.Frozen() }
