package health

import "testing"

func TestDoubtful(t *testing.T) {
	at := func(n uint64) *uint64 { return &n }
	for _, c := range []struct {
		name   string
		w      Witness
		height uint64
		want   bool
	}{
		{"alone", Witness{}, 1 << 40, false},
		{"with the others", Witness{Others: []uint64{100, 101}, Vouched: true, Before: 100}, 101, false},
		{"a little ahead", Witness{Others: []uint64{100, 100}}, 108, false},
		{"behind", Witness{Others: []uint64{100, 100}}, 5, false},
		{"absurd from the start, against two", Witness{Others: []uint64{100, 101}}, 1 << 40, true},
		{"absurd from the start, against one", Witness{Others: []uint64{100}}, 1 << 40, false},
		{"against two who do not agree either", Witness{Others: []uint64{100, 5000}}, 1 << 40, false},
		{"a jump, against one", Witness{Others: []uint64{100}, Vouched: true, Before: 100}, 5000, true},
		{"the reference is there, too", Witness{Others: []uint64{100, 100}, Vouched: true, Before: 100, Reference: at(4995)}, 5000, false},
		{"the reference is not", Witness{Others: []uint64{100, 100}, Vouched: true, Before: 100, Reference: at(101)}, 5000, true},
		{"block by block, past two that stopped", Witness{Others: []uint64{100, 100}, Vouched: true, Before: 108}, 109, false},
		{"once doubted, it takes more than to go on", Witness{Others: []uint64{100, 100}, Doubted: true, Before: 5000}, 5001, true},
		{"until the others have stood for long", Witness{Others: []uint64{100, 100}, Doubted: true, Before: 5000, OthersStand: true}, 5001, false},
		{"but not when it stands as well", Witness{Others: []uint64{100, 100}, Doubted: true, Before: 5000, OthersStand: true}, 5000, true},
		{"back to its senses", Witness{Others: []uint64{100, 100}, Doubted: true, Before: 5000}, 101, false},
	} {
		if got := c.w.Doubtful(c.height, 8); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestHistoryCompare(t *testing.T) {
	var a, b History
	for i := uint64(90); i <= 100; i++ {
		a.Add(i, "main")
		if i <= 97 {
			b.Add(i, "main")
		} else {
			b.Add(i, "fork")
		}
	}
	if same, known := a.Compare(&b, 100); same || !known {
		t.Fatal("block 98 is another one")
	}
	if same, known := a.Compare(&b, 99); !same || !known {
		t.Fatal("block 97 is the same one, and what is above may still change")
	}
	if _, known := a.Compare(&History{}, 100); known {
		t.Fatal("nothing is known of the other")
	}
	b.Add(98+recent, "far")
	if same, _ := a.Compare(&b, 99+recent); same {
		t.Fatal("the newest common block is 100, which differs")
	}
}
