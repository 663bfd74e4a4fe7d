package pipeline_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
)

func pos(n uint32, fork byte) ship.Pos {
	p := ship.Pos{Num: n}
	p.ID[0] = fork
	return p
}

func remember(numbers ...uint32) *pipeline.Positions {
	var p pipeline.Positions
	for _, n := range numbers {
		b := pos(n, 0)
		p.Add(&b)
	}
	return &p
}

func list(p *pipeline.Positions) []ship.Pos {
	var out []ship.Pos
	for i := range p.Len() {
		out = append(out, *p.At(i))
	}
	return out
}

func numbers(p *pipeline.Positions) []uint32 {
	out := []uint32{}
	for _, b := range list(p) {
		out = append(out, b.Num)
	}
	return out
}

func TestPositions(t *testing.T) {
	for _, c := range []struct {
		name string
		have []uint32
		do   func(p *pipeline.Positions)
		want []uint32
	}{
		{"zero value", nil, func(*pipeline.Positions) {}, []uint32{}},
		{"forget in the empty one", nil, func(p *pipeline.Positions) { p.Forget(0) }, []uint32{}},
		{"settle in the empty one", nil, func(p *pipeline.Positions) { p.Settle(9) }, []uint32{}},
		{"forget from a number that is there", []uint32{5, 6, 7}, func(p *pipeline.Positions) { p.Forget(6) }, []uint32{5}},
		{"forget from a number in a gap", []uint32{5, 9}, func(p *pipeline.Positions) { p.Forget(7) }, []uint32{5}},
		{"forget above the newest", []uint32{5, 6}, func(p *pipeline.Positions) { p.Forget(7) }, []uint32{5, 6}},
		{"forget all", []uint32{5, 6}, func(p *pipeline.Positions) { p.Forget(0) }, []uint32{}},
		{"a number again forgets what follows it", []uint32{5, 6, 7, 8}, func(p *pipeline.Positions) { b := pos(6, 1); p.Add(&b) }, []uint32{5, 6}},
		{"settle drops what is below the LIB", []uint32{5, 6, 7}, func(p *pipeline.Positions) { p.Settle(6) }, []uint32{6, 7}},
		{"settle keeps what is above it", []uint32{5, 6, 7}, func(p *pipeline.Positions) { p.Settle(4) }, []uint32{5, 6, 7}},
		{"settle keeps the newest", []uint32{5, 6, 7}, func(p *pipeline.Positions) { p.Settle(99) }, []uint32{7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := remember(c.have...)
			c.do(p)
			if got := numbers(p); !slices.Equal(got, c.want) {
				t.Errorf("remembered %v, want %v", got, c.want)
			}
		})
	}
}

func TestPositionsBound(t *testing.T) {
	var p pipeline.Positions
	for n := uint32(1); n <= pipeline.MaxPositions+10; n++ {
		b := pos(n, 0)
		p.Add(&b)
	}
	if p.Len() != pipeline.MaxPositions || p.At(0).Num != 11 || p.Last().Num != pipeline.MaxPositions+10 {
		t.Errorf("%d positions from %d to %d; want %d, the oldest ones gone", p.Len(), p.At(0).Num, p.Last().Num, pipeline.MaxPositions)
	}
	if p.Find(10) != nil || p.Find(11) == nil {
		t.Error("block 10 should be forgotten, block 11 not")
	}
}

// A stream that moves on with its LIB has to cost nothing.
func TestPositionsAllocateNothing(t *testing.T) {
	var p pipeline.Positions
	n := uint32(0)
	step := func() {
		n++
		b := pos(n, 0)
		p.Add(&b)
		p.Settle(max(n, 300) - 300)
	}
	for range 1000 {
		step()
	}
	if got := testing.AllocsPerRun(1000, step); got != 0 {
		t.Errorf("%v allocations a block", got)
	}
}

// TestPositionsModel compares Positions with a plain slice that is kept in the
// most obvious way.
func TestPositionsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pipeline.Positions
		var model []ship.Pos
		from := func(n uint32) int {
			for i, b := range model {
				if b.Num >= n {
					return i
				}
			}
			return len(model)
		}
		number := rapid.Custom(func(t *rapid.T) uint32 {
			low, high := uint32(0), uint32(3)
			if n := len(model); n > 0 {
				low, high = model[0].Num, model[n-1].Num+3
			}
			if low > 0 {
				low--
			}
			return rapid.Uint32Range(low, high).Draw(t, "number")
		})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				b := pos(number.Draw(t, "block"), rapid.Byte().Draw(t, "fork"))
				p.Add(&b)
				model = append(model[:from(b.Num)], b)
			},
			// A run of blocks brings the ring round and to its bound.
			"run": func(t *rapid.T) {
				next := uint32(0)
				if n := len(model); n > 0 {
					next = model[n-1].Num + 1
				}
				for range rapid.IntRange(1, 3000).Draw(t, "length") {
					b := pos(next, 0)
					p.Add(&b)
					model = append(model, b)
					next++
				}
			},
			"forget": func(t *rapid.T) {
				n := number.Draw(t, "from")
				p.Forget(n)
				model = model[:from(n)]
			},
			"settle": func(t *rapid.T) {
				lib := number.Draw(t, "lib")
				p.Settle(lib)
				for len(model) > 1 && model[0].Num < lib {
					model = model[1:]
				}
			},
			"find": func(t *rapid.T) {
				n := number.Draw(t, "block")
				got := p.Find(n)
				if i := from(n); i == len(model) || model[i].Num != n {
					if got != nil {
						t.Fatalf("found block %d, which was forgotten", n)
					}
				} else if got == nil || *got != model[i] {
					t.Fatalf("block %d is %v, want %v", n, got, model[i])
				}
			},
			"": func(t *rapid.T) {
				model = model[max(0, len(model)-pipeline.MaxPositions):]
				if got := list(&p); !slices.Equal(got, model) {
					t.Fatalf("remembered %d positions, want %d, or others than those", len(got), len(model))
				}
				if last := p.Last(); (last == nil) != (len(model) == 0) || last != nil && *last != model[len(model)-1] {
					t.Fatalf("the newest is %v", last)
				}
			},
		})
	})
}
