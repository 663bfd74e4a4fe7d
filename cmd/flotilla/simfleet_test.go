package main

import (
	"slices"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

func TestSplitBlocks(t *testing.T) {
	for _, tt := range []struct {
		blocks ship.Range
		n      int
		want   []ship.Range
	}{
		{ship.Range{Begin: 2, End: 10}, 0, nil},
		{ship.Range{Begin: 2, End: 10}, 1, []ship.Range{{Begin: 2, End: 10}}},
		{ship.Range{Begin: 2, End: 10}, 3, []ship.Range{{Begin: 2, End: 4}, {Begin: 4, End: 7}, {Begin: 7, End: 10}}},
		{ship.Range{Begin: 2, End: 1 << 31}, 2, []ship.Range{{Begin: 2, End: 1<<30 + 1}, {Begin: 1<<30 + 1, End: 1 << 31}}},
	} {
		if got := splitBlocks(tt.blocks, tt.n); !slices.Equal(got, tt.want) {
			t.Errorf("%v in %d: %v, want %v", tt.blocks, tt.n, got, tt.want)
		}
	}
}

func TestFleet(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 100})
	ranges := splitBlocks(ship.Range{Begin: 2, End: 81}, 2)
	f, err := startFleet(chain, 2, ranges, func(int) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	for i, want := range [][]string{{"archive-1a", "archive-1b"}, {"archive-2a", "archive-2b"}, {"node-1", "node-2"}} {
		leg := f.legs()[i]
		var got []string
		for _, n := range f.holders(leg.Begin) {
			got = append(got, n.name)
			if trace := n.Status().Trace; trace.Begin != leg.Begin || trace.End != min(leg.End, 101) {
				t.Errorf("%s of leg %v has the traces %v", n.name, leg, trace)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("leg %v is served by %v, want %v", leg, got, want)
		}
	}

	cfg, _, err := config.Parse("fleet.hcl", []byte(f.text()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, f.text())
	}
	l := cfg.Listeners[0]
	if !l.Stitched() || len(l.Servers) != len(f.nodes) {
		t.Fatalf("stitched %v, %d servers", l.Stitched(), len(l.Servers))
	}
	for i, s := range l.Servers {
		n := f.nodes[i]
		if frozen := s.Role == config.Frozen; s.Name != n.name || s.Endpoint != n.Addr() || frozen == n.blocks.Empty() ||
			frozen && ship.Range(*s.Range) != n.blocks {
			t.Errorf("server %+v stands for %s with %v", s, n.name, n.blocks)
		}
	}
}

func TestFleetThatDoesNotStart(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 100})
	taken, err := startFleet(chain, 1, nil, func(int) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	defer taken.close()
	if _, err := startFleet(chain, 2, nil, func(i int) string { return []string{"", taken.nodes[0].Addr()}[i] }); err == nil {
		t.Error("two nodes share a port")
	}
}
