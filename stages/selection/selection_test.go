package selection_test

import (
	"testing"

	"flotilla/gateway/pipeline"
	"flotilla/stages/selection"
	"flotilla/stages/stagetest"
)

// pick runs the stage with its built-in policy.
func pick(x *pipeline.Exchange) int {
	selection.New(nil).(pipeline.Upward).Up(x)
	return x.Pick
}

// candidate is how the plan stage sees a node.
type candidate struct {
	offline  bool
	rank     int
	priority uint32
	taken    int
	weight   uint32
}

func exchange(soft int, candidates ...candidate) *pipeline.Exchange {
	x := stagetest.Exchange()
	x.Soft = soft
	for i, c := range candidates {
		u := stagetest.Node(string(rune('a'+i)), stagetest.Taken(c.taken))
		u.Server.Priority, u.Server.Weight = c.priority, max(c.weight, 1)
		x.View.Upstreams = append(x.View.Upstreams, u)
		x.Candidates = append(x.Candidates, pipeline.Candidate{Index: i, Online: !c.offline, Rank: c.rank})
	}
	return x
}

// TestOrder covers keys 1 to 5 of 3.2: each beats all keys that follow it,
// wherever the better node stands in the list.
func TestOrder(t *testing.T) {
	worst := candidate{offline: true, rank: 3, priority: 9, taken: 9, weight: 1}
	for _, c := range []struct {
		name          string
		better, worse candidate
	}{
		{"online", candidate{rank: 3, priority: 9, taken: 9}, candidate{offline: true, weight: 5}},
		{"rank", candidate{rank: 1, priority: 9, taken: 9}, candidate{rank: 2, weight: 5}},
		{"a stale one before one without the block", candidate{rank: 1}, candidate{rank: 2}},
		{"priority", candidate{priority: 1, taken: 9}, candidate{priority: 2, weight: 5}},
		{"load", candidate{taken: 1}, candidate{taken: 2}},
		{"load for the weight", candidate{taken: 3, weight: 4}, candidate{taken: 1, weight: 1}},
		{"weight, when the load is the same", candidate{weight: 2}, candidate{weight: 1}},
		{"equal load for the weight, larger weight", candidate{taken: 4, weight: 2}, candidate{taken: 2, weight: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := pick(exchange(pipeline.None, c.better, c.worse, worst)); got != 0 {
				t.Errorf("picked %d of better, worse, worst", got)
			}
			if got := pick(exchange(pipeline.None, worst, c.worse, c.better)); got != 2 {
				t.Errorf("picked %d of worst, worse, better", got)
			}
		})
	}
}

// TestHash covers key 6: equal nodes share the sessions, and a session stays
// with its node.
func TestHash(t *testing.T) {
	const sessions = 2000
	counts := map[int]int{}
	x := exchange(pipeline.None, candidate{}, candidate{}, candidate{}, candidate{})
	for id := range uint64(sessions) {
		x.Session = id + 1
		first := pick(x)
		if again := pick(x); again != first {
			t.Fatalf("session %d: picked %d, then %d", x.Session, first, again)
		}
		counts[first]++
	}
	for i := range 4 {
		if n := counts[i]; n < sessions/4*8/10 || n > sessions/4*12/10 {
			t.Errorf("node %d has %d of %d sessions; a quarter is expected", i, n, sessions)
		}
	}
}

// TestSoft covers the soft exclusion (3.2, G11). stagetest.Node 0 is the one that the
// session has just left.
func TestSoft(t *testing.T) {
	for _, c := range []struct {
		name       string
		candidates []candidate
		want       int
	}{
		{"another as good", []candidate{{}, {taken: 5}}, 1},
		{"another of a later tier", []candidate{{}, {priority: 7, taken: 5}}, 1},
		{"the best of the others", []candidate{{}, {taken: 3}, {taken: 2}, {priority: 1}}, 2},
		{"the best of the others by rank", []candidate{{rank: 1}, {rank: 1}, {priority: 1, rank: 1}, {rank: 2}}, 1},
		{"another of a worse rank", []candidate{{}, {rank: 1}}, 0},
		{"one that lacks the block, too", []candidate{{rank: 2}, {rank: 2, priority: 3}}, 1},
		{"nobody else", []candidate{{}}, 0},
		// Otherwise a dead node is dialed while the one that dropped is there.
		{"another that is offline", []candidate{{}, {offline: true}}, 0},
		{"both offline", []candidate{{offline: true}, {offline: true, priority: 4}}, 1},
		{"offline itself, another online", []candidate{{offline: true}, {rank: 3}}, 1},
		{"not the best anyway", []candidate{{priority: 1}, {}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := exchange(0, c.candidates...)
			before := len(x.Candidates)
			if got := pick(x); got != c.want {
				t.Errorf("picked %d, want %d", got, c.want)
			}
			if len(x.Candidates) != before {
				t.Error("the candidates were changed")
			}
		})
	}
}

func TestNobody(t *testing.T) {
	x := exchange(pipeline.None)
	x.Pick = 3
	if got := pick(x); got != pipeline.None {
		t.Errorf("picked %d out of nothing", got)
	}
}
