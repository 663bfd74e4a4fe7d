package rewrite_test

import (
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/rewrite"
	"flotilla/stages/stagetest"
)

func at(n uint32) ship.Pos { return stagetest.Pos(n) }

// other is a block of the same number with another id.
func other(n uint32) ship.Pos { return stagetest.Fork(n, 1) }

// TestRaise covers S32, on the way down and for status replies alike.
func TestRaise(t *testing.T) {
	for _, c := range []struct {
		name              string
		headSent, libSent ship.Pos
		head, lib         ship.Pos
		wantHead, wantLIB ship.Pos
		changed           bool
	}{
		{name: "nothing told before", head: at(100), lib: at(90), wantHead: at(100), wantLIB: at(90)},
		{name: "both higher", headSent: at(99), libSent: at(89), head: at(100), lib: at(90), wantHead: at(100), wantLIB: at(90)},
		{name: "both the same", headSent: at(100), libSent: at(90), head: at(100), lib: at(90), wantHead: at(100), wantLIB: at(90)},
		{name: "same numbers, other ids: those of the node stand", headSent: other(100), libSent: other(90), head: at(100), lib: at(90), wantHead: at(100), wantLIB: at(90)},
		{name: "head lower: number and id are raised", headSent: other(105), libSent: at(90), head: at(100), lib: at(90), wantHead: other(105), wantLIB: at(90), changed: true},
		{name: "LIB lower: number and id are raised", headSent: at(100), libSent: other(95), head: at(100), lib: at(90), wantHead: at(100), wantLIB: other(95), changed: true},
		{name: "both lower", headSent: at(105), libSent: at(95), head: at(100), lib: at(90), wantHead: at(105), wantLIB: at(95), changed: true},
		{name: "head lower, LIB higher", headSent: at(105), libSent: at(85), head: at(100), lib: at(90), wantHead: at(105), wantLIB: at(90), changed: true},
		{name: "LIB above head: head is the cap, with its id", head: at(100), lib: other(101), wantHead: at(100), wantLIB: at(100), changed: true},
		{name: "LIB above the node's head, but not above that told", headSent: at(105), libSent: at(80), head: at(100), lib: at(103), wantHead: at(105), wantLIB: at(103), changed: true},
		{name: "LIB at head", head: at(100), lib: other(100), wantHead: at(100), wantLIB: other(100)},
		{name: "the node knows nothing", headSent: at(105), libSent: at(95), wantHead: at(105), wantLIB: at(95), changed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := stagetest.Exchange()
			x.HeadSent, x.LIBSent = c.headSent, c.libSent
			r := stagetest.Result(at(50), at(49))
			r.Head, r.LIB = c.head, c.lib
			if step := rewrite.New(&config.Listener{}).(pipeline.Downward).Down(x, r); step != (pipeline.Step{}) {
				t.Errorf("the stage ends with %+v", step)
			}
			if r.Head != c.wantHead || r.LIB != c.wantLIB {
				t.Errorf("head %v, LIB %v; want %v, %v", r.Head, r.LIB, c.wantHead, c.wantLIB)
			}
			if r.Patched != c.changed {
				t.Errorf("Patched is %v, want %v", r.Patched, c.changed)
			}
			if x.HeadSent != c.wantHead || x.LIBSent != c.wantLIB {
				t.Errorf("remembered head %v, LIB %v; want what was told", x.HeadSent, x.LIBSent)
			}

			head, lib := c.head, c.lib
			p := pipeline.Position{HeadSent: c.headSent, LIBSent: c.libSent}
			if changed := rewrite.Raise(&p, &head, &lib); changed != c.changed || head != c.wantHead || lib != c.wantLIB {
				t.Errorf("for a status: head %v, LIB %v, changed %v", head, lib, changed)
			}
		})
	}
}

// Whatever nodes tell, for a client head and LIB only rise, and LIB stays at
// or below head.
func TestNeverBack(t *testing.T) {
	var p pipeline.Position
	var lastHead, lastLIB uint32
	for _, told := range [][2]uint32{{100, 90}, {50, 40}, {101, 200}, {99, 98}, {0, 0}, {150, 20}, {120, 149}} {
		head, lib := at(told[0]), at(told[1])
		rewrite.Raise(&p, &head, &lib)
		if head.Num < lastHead || lib.Num < lastLIB || lib.Num > head.Num {
			t.Errorf("after %v the client is told head %d, LIB %d; it had %d, %d", told, head.Num, lib.Num, lastHead, lastLIB)
		}
		lastHead, lastLIB = head.Num, lib.Num
	}
}

// Only head and LIB are the stage's business.
func TestLeavesTheRest(t *testing.T) {
	x := stagetest.Exchange()
	x.HeadSent, x.LIBSent = at(2000), at(1900)
	r := stagetest.Result(at(50), at(49))
	want := *r
	rewrite.New(&config.Listener{}).(pipeline.Downward).Down(x, r)
	want.Head, want.LIB, want.Patched = at(2000), at(1900), true
	if *r != want {
		t.Errorf("the result became %+v, want %+v", *r, want)
	}
}
