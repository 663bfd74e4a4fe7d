package pool

import (
	"net/http"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/policies"
	"flotilla/tests/scene"
)

// TestPolicyOfAConfiguration exchanges the policy while clients come: each goes
// where the policy of its time says, and those that are there stay.
func TestPolicyOfAConfiguration(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		for range 3 {
			w.Node(simulator.Options{}, nil)
		}
		w.Config.Policy = &config.Policy{Name: "first", Settings: &policies.First{}}
		put, stop := w.startReloadable(whole(w.Config))
		defer stop()
		dial := func(account string) *simulator.Client {
			return w.Dial(simulator.ClientOptions{AckEvery: 1, Header: http.Header{"X-Account": {account}}})
		}
		links := func() (open [3]int) {
			for i, n := range w.Nodes {
				open[i], _ = n.Links()
				open[i]-- // the monitor's
			}
			return open
		}
		first := dial("a")
		w.Ask(first, scene.Everything(2, 1000, 5))
		for range 5 {
			dial("a")
		}
		if got := links(); got != [3]int{6, 0, 0} {
			t.Errorf("first: the links are %v", got)
		}
		sticky := with(w.Config, w.Config.Servers...)
		sticky.Policy = &config.Policy{Name: "sticky", Settings: &policies.Sticky{Header: "x-account"}}
		put(whole(sticky))
		before := links()
		for range 6 {
			dial("alice")
		}
		moved := 0
		for i, n := range links() {
			if n != before[i] {
				moved++
				if n-before[i] != 6 {
					t.Errorf("sticky: %d of one account's 6 are on node %d", n-before[i], i)
				}
			}
		}
		if moved != 1 {
			t.Errorf("sticky: an account is on %d nodes", moved)
		}
		robin := with(w.Config, w.Config.Servers...)
		robin.Policy = &config.Policy{Name: "round_robin", Settings: &policies.RoundRobin{}}
		put(whole(robin))
		before = links()
		for range 6 {
			dial("alice")
		}
		for i, n := range links() {
			if n-before[i] != 2 {
				t.Errorf("round robin: %d of 6 are on node %d", n-before[i], i)
			}
		}
		// The same block again goes on where it was.
		again := with(w.Config, w.Config.Servers...)
		again.Policy = &config.Policy{Name: "round_robin", Settings: &policies.RoundRobin{}}
		again.MaxConnections = 99
		dial("alice")
		put(whole(again))
		before = links()
		dial("alice")
		if got := links(); got[1] != before[1]+1 {
			t.Errorf("round robin starts again with a reload of something else: %v, then %v", before, got)
		}
		w.Chain.Advance(5)
		w.Reaches(first, 105)
		w.Clean(first)
	})
}
