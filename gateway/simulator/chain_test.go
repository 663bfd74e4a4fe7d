package simulator

import (
	"encoding/binary"
	"testing"

	"flotilla/gateway/ship"
)

func TestChainIsDeterministic(t *testing.T) {
	a, b := NewChain(ChainOptions{Seed: "x", Head: 50}), NewChain(ChainOptions{Seed: "x"})
	other := NewChain(ChainOptions{Seed: "y", Head: 50})
	b.Advance(49)
	if a.Head() != b.Head() || a.LIB() != b.LIB() || a.ID() != b.ID() {
		t.Error("equal seeds make different chains")
	}
	if a.Pos(7) == other.Pos(7) || a.ID() == other.ID() {
		t.Error("different seeds make equal chains")
	}
	for _, c := range []*Chain{a, b} {
		if err := c.Fork(45, 52); err != nil {
			t.Fatal(err)
		}
	}
	if a.Head() != b.Head() {
		t.Error("equal forks differ")
	}
	if p := a.Pos(1234567); binary.BigEndian.Uint32(p.ID[:]) != p.Num || p.Num != 1234567 {
		t.Errorf("the id %v does not begin with its number", p.ID)
	}
}

func TestFork(t *testing.T) {
	for _, tt := range []struct {
		name       string
		from, head uint32
		works      bool
	}{
		{"the newest block", 100, 100, true},
		{"longer", 95, 110, true},
		{"shorter", 89, 90, true},
		{"just above LIB", 89, 100, true},
		{"at LIB", 88, 100, false},
		{"above the head", 101, 102, false},
		{"no block", 95, 94, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := NewChain(ChainOptions{Head: 100, LIBLag: 12})
			before := make([]ship.Pos, 120)
			for i := range before {
				before[i] = c.Pos(uint32(i))
			}
			old := c.view()
			err := c.Fork(tt.from, tt.head)
			if (err == nil) != tt.works {
				t.Fatalf("error %v", err)
			}
			if !tt.works {
				return
			}
			if c.Head().Num != tt.head || c.LIB().Num < 88 {
				t.Errorf("head %d, LIB %d", c.Head().Num, c.LIB().Num)
			}
			for n := range before {
				same := c.Pos(uint32(n)) == before[n]
				if want := uint32(n) < tt.from; same != want {
					t.Errorf("block %d is the same: %v, want %v", n, same, want)
				}
				if old.pos(uint32(n)) != before[n] {
					t.Errorf("a view that was taken before changed at block %d", n)
				}
			}
			now := c.view()
			if n, ok := old.firstNew(&now); !ok || n != tt.from {
				t.Errorf("first new block %d, %v", n, ok)
			}
		})
	}
}

func TestForkOnFork(t *testing.T) {
	c := NewChain(ChainOptions{Head: 100, LIBLag: 50})
	var views []view
	views = append(views, c.view())
	for _, from := range []uint32{90, 95, 80, 99} {
		if err := c.Fork(from, 100); err != nil {
			t.Fatal(err)
		}
		views = append(views, c.view())
	}
	for _, tt := range []struct {
		from, to int
		want     uint32
	}{{0, 1, 90}, {1, 2, 95}, {0, 2, 90}, {2, 3, 80}, {3, 4, 99}, {0, 4, 80}} {
		if n, ok := views[tt.from].firstNew(&views[tt.to]); n != tt.want || !ok {
			t.Errorf("from view %d to %d: first new block %d, want %d", tt.from, tt.to, n, tt.want)
		}
	}
	if n, ok := views[4].firstNew(&views[4]); ok {
		t.Errorf("block %d is new although nothing changed", n)
	}
}

func TestReorg(t *testing.T) {
	c := NewChain(ChainOptions{Head: 100, LIBLag: 12})
	if from, err := c.Reorg(3); err != nil || from != 98 || c.Head().Num != 101 {
		t.Errorf("from %d, head %d, %v", from, c.Head().Num, err)
	}
	for _, depth := range []uint32{0, 50, 1000} {
		if _, err := c.Reorg(depth); err == nil {
			t.Errorf("a fork of %d blocks works", depth)
		}
	}
}
