package health

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var rules = Rules{SoftLag: 3, HardLag: 8, LagGrace: 20 * time.Second, Readmit: 5 * time.Second, MinHealthy: 1, MaxFailures: 3}

var start = time.Unix(1_800_000_000, 0)

// step is one report of a node: its height or, when err is set, a failure.
type step struct {
	at      time.Duration
	height  uint64
	err     string
	call    bool // the failure is one of a client's call
	healthy bool // what is wanted after it
	change  Change
}

// TestBand plays reports of one node in a fleet whose tip is 100.
func TestBand(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name    string
		rules   Rules
		others  int // healthy nodes beside this one
		member  bool
		holdOff bool
		steps   []step
	}{
		{name: "nobody is trusted before readmit", rules: rules, others: 1, steps: []step{
			{at: 0, height: 100}, {at: 4 * s, height: 100}, {at: 5 * s, height: 100, healthy: true, change: Admitted},
		}},
		{name: "the edge of the band is within it", rules: rules, others: 1, member: true, steps: []step{
			{at: 0, height: 97, healthy: true}, {at: 100 * s, height: 97, healthy: true},
		}},
		{name: "soft lag is tolerated for its grace", rules: rules, others: 1, member: true, steps: []step{
			{at: 0, height: 96, healthy: true}, {at: 19 * s, height: 93, healthy: true},
			{at: 20 * s, height: 96, change: Evicted},
		}},
		{name: "a visit to the band starts the grace anew", rules: rules, others: 1, member: true, steps: []step{
			{at: 0, height: 96, healthy: true}, {at: 15 * s, height: 97, healthy: true},
			{at: 16 * s, height: 96, healthy: true}, {at: 35 * s, height: 96, healthy: true},
			{at: 36 * s, height: 96, change: Evicted},
		}},
		{name: "hard lag evicts at once", rules: rules, others: 1, member: true, steps: []step{
			{at: 0, height: 92, change: Evicted},
		}},
		{name: "hard lag ignores the floor", rules: rules, others: 0, member: true, steps: []step{
			{at: 0, height: 50, change: Evicted},
		}},
		{name: "the floor keeps a soft laggard", rules: rules, others: 0, member: true, steps: []step{
			{at: 0, height: 95, healthy: true}, {at: 100 * s, height: 95, healthy: true},
		}},
		{name: "readmitted within the band, not at the tip", rules: rules, others: 1, steps: []step{
			{at: 0, height: 90}, {at: s, height: 97}, {at: 5 * s, height: 98}, {at: 6 * s, height: 97, healthy: true, change: Admitted},
		}},
		{name: "leaving the band starts readmission anew", rules: rules, others: 1, steps: []step{
			{at: 0, height: 97}, {at: 3 * s, height: 96}, {at: 4 * s, height: 97}, {at: 8 * s, height: 97},
			{at: 9 * s, height: 97, healthy: true, change: Admitted},
		}},
		{name: "a failed check starts readmission anew", rules: rules, others: 1, steps: []step{
			{at: 0, height: 100}, {at: 4 * s, err: "no"}, {at: 5 * s, height: 100}, {at: 9 * s, height: 100},
			{at: 10 * s, height: 100, healthy: true, change: Admitted},
		}},
		{name: "two failures do not evict, and a good check clears them", rules: rules, others: 1, member: true, steps: []step{
			{at: 0, err: "no", healthy: true}, {at: s, err: "no", healthy: true}, {at: 2 * s, height: 100, healthy: true},
			{at: 3 * s, err: "no", healthy: true}, {at: 4 * s, err: "no", healthy: true},
		}},
		{name: "three do, the last one too", rules: rules, others: 0, member: true, steps: []step{
			{at: 0, err: "no", healthy: true}, {at: s, err: "no", healthy: true}, {at: 2 * s, err: "no", change: Evicted},
		}},
		{name: "calls of clients count", rules: rules, others: 1, member: true, steps: []step{
			{at: 0, err: "no", call: true, healthy: true}, {at: s, err: "no", healthy: true}, {at: s, err: "no", call: true, change: Evicted},
		}},
		{name: "nobody is admitted while the fleet is not known", rules: Rules{SoftLag: 3, HardLag: 8, MaxFailures: 3}, holdOff: true, steps: []step{
			{at: 0, height: 100}, {at: s, height: 100},
		}},
		{name: "above the tip is at the tip", rules: rules, others: 1, member: true, steps: []step{
			{at: 0, height: 105, healthy: true},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := State{Healthy: c.member}
			for i, st := range c.steps {
				count := c.others
				if n.Healthy {
					count++
				}
				var got Change
				switch {
				case st.call:
					got = c.rules.Broke(&n, st.err)
				case st.err != "":
					got = c.rules.Failed(&n, st.err)
				default:
					got = c.rules.Reported(&n, st.height, 100, count, !c.holdOff, start.Add(st.at))
				}
				if got != st.change || n.Healthy != st.healthy {
					t.Fatalf("step %d: change %d, want %d; healthy %v, want %v (%s)", i, got, st.change, n.Healthy, st.healthy, n.Err)
				}
				if n.Healthy && st.err == "" && n.Err != "" && n.Height+rules.SoftLag >= 100 {
					t.Fatalf("step %d: a healthy node has the error %q", i, n.Err)
				}
			}
		})
	}
}

func TestTheErrorSaysHowFar(t *testing.T) {
	n := State{Healthy: true}
	rules.Reported(&n, 92, 100, 2, true, start)
	if !strings.Contains(n.Err, "8 blocks behind") {
		t.Fatal(n.Err)
	}
	rules.Reported(&n, 100, 100, 2, true, start.Add(time.Second))
	rules.Reported(&n, 100, 100, 2, true, start.Add(6*time.Second))
	if n.Err != "" {
		t.Fatalf("readmitted with the error %q", n.Err)
	}
}

// Whatever is reported, soft lag alone never empties the pool below its floor,
// and a node in hard lag is never in it.
func TestPoolNeverBelowItsFloor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rules
		r.MinHealthy = rapid.IntRange(1, 3).Draw(t, "floor")
		nodes := make([]State, 4)
		for i := range nodes {
			nodes[i].Healthy = true
		}
		tip, now := uint64(100), start
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "pause")) * time.Second)
			i := rapid.IntRange(0, 3).Draw(t, "node")
			lag := rapid.Uint64Range(0, 12).Draw(t, "lag")
			healthy := 0
			for _, n := range nodes {
				if n.Healthy {
					healthy++
				}
			}
			change := r.Reported(&nodes[i], tip-lag, tip, healthy, true, now)
			if change == Evicted && lag < r.HardLag && healthy <= r.MinHealthy {
				t.Fatalf("a soft lag of %d evicted one of the last %d", lag, healthy)
			}
			if nodes[i].Healthy && lag >= r.HardLag {
				t.Fatalf("healthy with a lag of %d", lag)
			}
		}
	})
}
