package dedup_test

import (
	"slices"
	"testing"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/dedup"
	"flotilla/stages/stagetest"
)

// at is block n of the chain that the client has, fork one of another.
func at(n uint32) ship.Pos   { return stagetest.Pos(n) }
func fork(n uint32) ship.Pos { return stagetest.Fork(n, 1) }

func down(x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
	return dedup.New(nil).(pipeline.Downward).Down(x, r)
}

// block is a result as the forward stage hands it on.
func block(p, prev ship.Pos) *pipeline.Result {
	r := stagetest.Result(p, prev)
	r.Kind, r.Num = pipeline.Block, p.Num
	return r
}

func idless(n uint32) *pipeline.Result {
	r := stagetest.HeadOnly(stagetest.Head, stagetest.LIB)
	r.Kind, r.Num = pipeline.Idless, n
	return r
}

func keepAlive() *pipeline.Result {
	r := stagetest.HeadOnly(stagetest.Head, stagetest.LIB)
	r.Kind = pipeline.KeepAlive
	return r
}

// streaming is a session on the first of two nodes that has delivered blocks
// 950 to 959 and expects 960. LIB was told as 955. Its credit, from which the
// forward stage has taken one, is 4.
func streaming() *pipeline.Exchange {
	x := stagetest.Exchange(stagetest.Node("a"), stagetest.Node("b"))
	x.Asked, x.Want = true, ship.BlocksRequest{Start: 950, End: 2000, FetchTraces: true}
	x.Cursor, x.Credit = 960, 4
	x.HeadSent, x.LIBSent, x.Settled = at(999), at(955), 955
	for n := uint32(950); n < 960; n++ {
		p := at(n)
		x.Delivered.Add(&p)
	}
	x.Link = pipeline.Link{Up: true, Upstream: 0, Requested: true, End: 2000, Cursor: 961, Exact: true}
	x.Current = 0
	return x
}

// resumed is streaming after a failover: the window is open, and the next
// result is the first one at the seam.
func resumed() *pipeline.Exchange {
	x := streaming()
	x.Link.First, x.Link.Seam = true, true
	x.Window, x.Floor = true, 960
	return x
}

func numbers(x *pipeline.Exchange) []uint32 {
	var out []uint32
	for i := range x.Delivered.Len() {
		out = append(out, x.Delivered.At(i).Num)
	}
	return out
}

// TestInOrder: the expected block is passed on and the cursor moves (S28).
func TestInOrder(t *testing.T) {
	for name, x := range map[string]*pipeline.Exchange{"streaming": streaming(), "resumed": resumed()} {
		x.Fresh = true
		r := block(at(960), at(959))
		if step := down(x, r); step != (pipeline.Step{}) {
			t.Fatalf("%s: the stage ends with %+v", name, step)
		}
		if r.Fork || r.Jump || r.Broken {
			t.Errorf("%s: fork %v, jump %v, broken %v", name, r.Fork, r.Jump, r.Broken)
		}
		if x.Cursor != 961 || x.Credit != 4 || x.Ack != 0 || x.Fresh || x.Window || x.Link.First {
			t.Errorf("%s: cursor %d, credit %d, ack %d, fresh %v, window %v, first %v",
				name, x.Cursor, x.Credit, x.Ack, x.Fresh, x.Window, x.Link.First)
		}
		if last := x.Delivered.Last(); *last != at(960) {
			t.Errorf("%s: the newest delivered block is %v", name, *last)
		}
	}
}

// TestBelow covers S24: what happens to a result below the cursor, and S21 for
// what is dropped.
func TestBelow(t *testing.T) {
	for _, c := range []struct {
		name   string
		window bool
		r      *pipeline.Result
		change func(x *pipeline.Exchange)
		drop   bool
	}{
		{"window: the block that the client has", true, block(at(957), at(956)), nil, true},
		{"window: the newest that the client has", true, block(at(959), at(958)), nil, true},
		{"window: another id", true, block(fork(957), at(956)), nil, false},
		{"window: forgotten, irreversible when it was delivered", true, block(at(940), at(939)), nil, true},
		{"window: forgotten, at the last irreversible one", true, block(at(955), at(954)), func(x *pipeline.Exchange) { x.Delivered.Settle(956) }, true},
		{"window: not remembered, reversible", true, block(at(956), at(955)), func(x *pipeline.Exchange) { x.Delivered.Settle(957) }, false},
		{"window: LIB told is above all that was delivered", true, block(at(959), at(958)), func(x *pipeline.Exchange) {
			x.Delivered.Forget(958)
			x.LIBSent, x.Settled = at(990), 990
		}, false},
		{"window: nothing delivered yet", true, block(at(940), at(939)), func(x *pipeline.Exchange) { x.Delivered.Forget(0) }, false},
		{"window: without an id", true, idless(957), nil, true},
		{"no window: the block that the client has", false, block(at(957), at(956)), nil, true},
		{"no window: another id", false, block(fork(957), at(956)), nil, false},
		{"no window: forgotten", false, block(at(940), at(939)), nil, false},
		{"no window: without an id", false, idless(957), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := resumed()
			x.Window = c.window
			if c.change != nil {
				c.change(x)
			}
			before := numbers(x)
			step := down(x, c.r)
			if c.drop {
				if step != (pipeline.Step{Do: pipeline.Done}) {
					t.Fatalf("the stage ends with %+v; the result is to be dropped", step)
				}
				if x.Credit != 5 || x.Ack != 1 {
					t.Errorf("credit %d, ack %d; the client gets its credit back, the node one more", x.Credit, x.Ack)
				}
				if x.Cursor != 960 || x.Window != c.window || !slices.Equal(numbers(x), before) {
					t.Errorf("cursor %d, window %v, delivered %v; nothing should have moved", x.Cursor, x.Window, numbers(x))
				}
				return
			}
			if step != (pipeline.Step{}) || !c.r.Fork {
				t.Fatalf("the stage ends with %+v, fork %v; the result is to be passed on as a fork", step, c.r.Fork)
			}
			if x.Credit != 4 || x.Ack != 0 {
				t.Errorf("credit %d, ack %d; it costs the client one", x.Credit, x.Ack)
			}
			if x.Cursor != c.r.Num+1 {
				t.Errorf("cursor %d, want %d", x.Cursor, c.r.Num+1)
			}
			for _, n := range numbers(x) {
				if n > c.r.Num || n == c.r.Num && c.r.Kind == pipeline.Idless {
					t.Errorf("delivered %v; blocks from %d on are replaced", numbers(x), c.r.Num)
					break
				}
			}
		})
	}
}

// A result that came without credit and is dropped gives no credit back that
// was not there (S20, S21).
func TestDropWithoutCredit(t *testing.T) {
	x := resumed()
	x.Credit = 0
	r := block(at(957), at(956))
	r.Uncredited = true
	if step := down(x, r); step.Do != pipeline.Done || x.Credit != 0 {
		t.Errorf("the stage ends with %+v, credit %d", step, x.Credit)
	}
}

// TestWindow: the window stays open until the first result at or above its
// floor is passed on (S28).
func TestWindow(t *testing.T) {
	x := resumed()
	for _, c := range []struct {
		r    *pipeline.Result
		drop bool
		open bool
	}{
		{block(at(957), at(956)), true, true},
		{block(fork(958), at(957)), false, true},
		// The node changes its mind: the old block is not what the client has.
		{block(at(958), at(957)), false, true},
		{block(at(959), at(958)), false, true},
		{keepAlive(), false, true},
		{block(at(960), at(959)), false, false},
		// Real nodes send a block twice now and then; the window has no part in it.
		{block(at(960), at(959)), true, false},
	} {
		if dropped := down(x, c.r).Do == pipeline.Done; dropped != c.drop {
			t.Fatalf("block %d %v: dropped is %v, want %v", c.r.Num, c.r.This.ID, dropped, c.drop)
		}
		if x.Window != c.open {
			t.Fatalf("after block %d the window is open: %v, want %v", c.r.Num, x.Window, c.open)
		}
	}
}

// TestKeepAlive: head-only results pass and move nothing.
func TestKeepAlive(t *testing.T) {
	x := resumed()
	x.StuckAt, x.Failed = 960, make([]int, 2)
	r := keepAlive()
	if step := down(x, r); step != (pipeline.Step{}) || r.Fork || r.Jump || r.Broken {
		t.Errorf("the stage ends with %+v; %+v", step, r)
	}
	if x.Cursor != 960 || !x.Window || len(x.Failed) != 2 || x.Delivered.Last().Num != 959 {
		t.Errorf("cursor %d, window %v, failures %d", x.Cursor, x.Window, len(x.Failed))
	}
}

// TestIdless: a result without an id takes its block's place; nothing is
// remembered for it.
func TestIdless(t *testing.T) {
	x := streaming()
	if step := down(x, idless(960)); step != (pipeline.Step{}) {
		t.Errorf("the stage ends with %+v", step)
	}
	if x.Cursor != 961 || x.Delivered.Last().Num != 959 {
		t.Errorf("cursor %d, newest delivered %d", x.Cursor, x.Delivered.Last().Num)
	}
}

// withoutOther makes the second node unable to serve the cursor.
func withoutOther(x *pipeline.Exchange) { x.View.Upstreams[1].Online = false }

// TestSeam covers S25 and S26: jumps and breaks of the chain.
func TestSeam(t *testing.T) {
	jump := func() *pipeline.Result { return block(at(970), at(969)) }
	broken := func() *pipeline.Result { return block(fork(960), fork(959)) }
	for _, c := range []struct {
		name   string
		r      *pipeline.Result
		change func(x *pipeline.Exchange)
		end    fleet.End
		jump   bool
		broken bool
	}{
		{"jump at a seam", jump(), nil, fleet.EndUncovered, false, false},
		{"jump at a seam, without an id", idless(970), nil, fleet.EndUncovered, false, false},
		{"jump at a seam, nobody else", jump(), withoutOther, "", true, false},
		{"jump at a seam of a request that got nothing yet", jump(), func(x *pipeline.Exchange) { x.Fresh = true }, fleet.EndUncovered, false, false},
		{"jump on a fresh link", jump(), func(x *pipeline.Exchange) { x.Link.Seam = false }, "", true, false},
		{"jump later", jump(), func(x *pipeline.Exchange) { x.Link.First = false }, "", true, false},
		{"the other left for a while", jump(), func(x *pipeline.Exchange) {
			x.Exclude(1, pipeline.Exclusion{Until: x.Now.Add(time.Second)})
		}, "", true, false},

		{"break at a seam", broken(), nil, fleet.EndDiscontinuity, false, false},
		{"break at a seam, nobody else", broken(), withoutOther, "", false, true},
		{"break at a seam of a request that got nothing yet", broken(), func(x *pipeline.Exchange) { x.Fresh = true }, "", false, true},
		{"such a break behind an irreversible block", broken(), func(x *pipeline.Exchange) {
			x.Fresh, x.LIBSent, x.Settled = true, at(959), 959
		}, fleet.EndDiscontinuity, false, false},
		{"such a break one above LIB", broken(), func(x *pipeline.Exchange) {
			x.Fresh, x.LIBSent, x.Settled = true, at(958), 958
		}, "", false, true},
		{"break on a fresh link", broken(), func(x *pipeline.Exchange) { x.Link.Seam = false }, "", false, false},
		{"break later", broken(), func(x *pipeline.Exchange) { x.Link.First = false }, "", false, false},
		{"no break: it continues", block(fork(960), at(959)), nil, "", false, false},
		{"no break: prev is not told", func() *pipeline.Result {
			r := broken()
			r.HasPrev = false
			return r
		}(), nil, "", false, false},
		{"no break: the last delivered block is another number", broken(), func(x *pipeline.Exchange) { x.Delivered.Forget(959) }, "", false, false},
		{"no break: nothing was delivered", broken(), func(x *pipeline.Exchange) { x.Delivered.Forget(0) }, "", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := resumed()
			if c.change != nil {
				c.change(x)
			}
			step := down(x, c.r)
			if c.end != "" {
				if step != pipeline.Leaving(c.end) {
					t.Fatalf("the stage ends with %+v, want the end %s", step, c.end)
				}
				// The result is not passed on, so it costs nothing.
				if x.Credit != 5 || x.Ack != 0 {
					t.Errorf("credit %d, ack %d; want the client's credit back, and no ack", x.Credit, x.Ack)
				}
				if x.Cursor != 960 || x.Delivered.Len() > 0 && x.Delivered.Last().Num != 959 {
					t.Errorf("cursor %d; nothing should have moved", x.Cursor)
				}
				return
			}
			if step != (pipeline.Step{}) || c.r.Jump != c.jump || c.r.Broken != c.broken {
				t.Fatalf("the stage ends with %+v, jump %v, broken %v; want jump %v, broken %v", step, c.r.Jump, c.r.Broken, c.jump, c.broken)
			}
			if x.Cursor != c.r.Num+1 || x.Credit != 4 {
				t.Errorf("cursor %d, credit %d; want %d, 4", x.Cursor, x.Credit, c.r.Num+1)
			}
		})
	}
}

// A result without credit that makes the session leave gives none back.
func TestLeaveWithoutCredit(t *testing.T) {
	x := resumed()
	x.Credit = 0
	r := block(at(970), at(969))
	r.Uncredited = true
	if step := down(x, r); step != pipeline.Leaving(fleet.EndUncovered) || x.Credit != 0 {
		t.Errorf("the stage ends with %+v, credit %d", step, x.Credit)
	}
}

// The first result counts, whatever it is.
func TestOnlyTheFirstIsAtTheSeam(t *testing.T) {
	for name, first := range map[string]*pipeline.Result{
		"a repetition": block(at(957), at(956)),
		"a keep-alive": keepAlive(),
		"a block":      block(at(960), at(959)),
	} {
		x := resumed()
		down(x, first)
		r := block(at(970), at(969))
		if step := down(x, r); step != (pipeline.Step{}) || !r.Jump {
			t.Errorf("after %s: the stage ends with %+v, jump %v", name, step, r.Jump)
		}
	}
}

// TestBudget: a block at or above the stuck one clears the budget (S28).
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		name    string
		r       *pipeline.Result
		stuckAt uint32
		cleared bool
	}{
		{"the stuck block", block(at(960), at(959)), 960, true},
		{"one above", block(at(960), at(959)), 959, true},
		{"a fork below", block(fork(958), at(957)), 960, false},
		{"a repetition", block(at(959), at(958)), 959, false},
	} {
		x := resumed()
		x.StuckAt, x.Failed = c.stuckAt, make([]int, 3)
		x.LeftAt, x.Left = c.stuckAt, make([]int, 2)
		down(x, c.r)
		if cleared := len(x.Failed) == 0; cleared != c.cleared || len(x.Left) == 0 != c.cleared {
			t.Errorf("%s: %d failures, %d left; cleared should be %v", c.name, len(x.Failed), len(x.Left), c.cleared)
		}
	}
}

// TestSeamLeft: who was left for a break is forgotten once somebody goes on.
// After a break that was passed on it is still needed, to lift the exclusions.
func TestSeamLeft(t *testing.T) {
	for _, c := range []struct {
		name string
		r    *pipeline.Result
		kept bool
	}{
		{"it goes on", block(at(960), at(959)), false},
		{"a break that is passed on", block(fork(960), fork(959)), true},
		{"a repetition", block(at(959), at(958)), true},
		{"a keep-alive", keepAlive(), true},
	} {
		x := resumed()
		withoutOther(x)
		x.SeamLeft = []int{1}
		down(x, c.r)
		if kept := len(x.SeamLeft) == 1; kept != c.kept {
			t.Errorf("%s: %v are remembered", c.name, x.SeamLeft)
		}
	}
}

// TestRemembers covers S16: reversible blocks are remembered, of the
// irreversible ones the newest only.
func TestRemembers(t *testing.T) {
	x := streaming()
	r := block(at(960), at(959))
	r.LIB = at(957)
	down(x, r)
	if got, want := numbers(x), []uint32{957, 958, 959, 960}; !slices.Equal(got, want) {
		t.Errorf("remembered %v, want %v", got, want)
	}
	r = block(at(961), at(960))
	r.LIB = at(990)
	down(x, r)
	if got, want := numbers(x), []uint32{961}; !slices.Equal(got, want) {
		t.Errorf("remembered %v, want %v", got, want)
	}
	// A node behind does not bring anything back into doubt.
	r = block(at(962), at(961))
	r.LIB = at(10)
	down(x, r)
	if got, want := numbers(x), []uint32{961, 962}; !slices.Equal(got, want) {
		t.Errorf("remembered %v, want %v", got, want)
	}
}

// TestStatusSettlesNothing: a LIB that the client knows from a status says
// nothing of the blocks that it has: they may be of a fork that the node of
// its link has not left yet.
func TestStatusSettlesNothing(t *testing.T) {
	x := resumed()
	x.LIBSent = at(990)
	r := block(fork(958), at(957))
	r.LIB = at(955)
	if step := down(x, r); step != (pipeline.Step{}) {
		t.Fatalf("the stage ends with %+v", step)
	}
	if got, want := numbers(x), []uint32{955, 956, 957, 958}; !slices.Equal(got, want) {
		t.Errorf("remembered %v, want %v", got, want)
	}
	// The node changes to a fork that begins lower.
	r = block(fork(956), at(955))
	r.LIB = at(955)
	if step := down(x, r); step != (pipeline.Step{}) || !r.Fork {
		t.Errorf("the stage ends with %+v, fork %v; a block of another fork is to be passed on", step, r.Fork)
	}
}

// TestSettled: a LIB says nothing of blocks above the result that it comes with,
// as the next one may be of another node, which is on a fork.
func TestSettled(t *testing.T) {
	x := streaming()
	r := block(at(960), at(959))
	r.LIB = at(990)
	down(x, r)
	x.Link.Upstream, x.Link.First, x.Link.Seam = 1, true, true
	for n := uint32(961); n < 964; n++ {
		r := block(fork(n), fork(n-1))
		if n == 961 {
			r.Prev = at(960)
		}
		r.LIB = at(955)
		if step := down(x, r); step != (pipeline.Step{}) {
			t.Fatalf("block %d ends with %+v", n, step)
		}
	}
	if got, want := numbers(x), []uint32{960, 961, 962, 963}; x.Settled != 960 || !slices.Equal(got, want) {
		t.Errorf("settled up to %d, remembered %v; want 960, %v", x.Settled, got, want)
	}
	// The first node again leads the client out.
	r = block(at(961), at(960))
	r.LIB = at(990)
	if step := down(x, r); step != (pipeline.Step{}) || !r.Fork || x.Settled != 961 {
		t.Errorf("the stage ends with %+v, fork %v, settled %d", step, r.Fork, x.Settled)
	}
}

// TestBehind: a block that the client was told is irreversible is taken from
// nobody for whom it is not yet, where clients are held.
func TestBehind(t *testing.T) {
	for _, c := range []struct {
		name      string
		told, lib uint32
		r         *pipeline.Result
		holds     bool
		leave     bool
	}{
		{"not yet irreversible for the node", 960, 959, block(at(960), at(959)), true, true},
		{"irreversible for it too", 960, 960, block(at(960), at(959)), true, false},
		{"the client was told of the block before", 959, 955, block(at(960), at(959)), true, false},
		{"nobody is held", 960, 959, block(at(960), at(959)), false, false},
		{"a fork", 990, 950, block(fork(957), at(956)), true, true},
		{"no block", 990, 950, idless(960), true, false},
	} {
		x := streaming()
		x.View.Holds, x.LIBSent = c.holds, at(c.told)
		c.r.LIB = at(c.lib)
		cursor, credit := x.Cursor, x.Credit
		step := down(x, c.r)
		if left := step == pipeline.Leaving(fleet.EndBehind); left != c.leave {
			t.Errorf("%s: the stage ends with %+v", c.name, step)
		}
		if c.leave && (x.Cursor != cursor || x.Credit != credit+1) {
			t.Errorf("%s: cursor %d, credit %d", c.name, x.Cursor, x.Credit)
		}
	}
}

// TestDeadBranch: what contradicts an irreversible block is never passed on,
// whether another upstream is there or not.
func TestDeadBranch(t *testing.T) {
	for _, c := range []struct {
		name  string
		first bool
		r     *pipeline.Result
		leave bool
	}{
		{"another block in the place of the last irreversible one", true, block(fork(955), fork(954)), true},
		{"on another block than the last irreversible one", true, block(fork(956), fork(955)), true},
		{"a node that falls back to it later", false, block(fork(956), fork(955)), true},
		{"a fork of reversible blocks", true, block(fork(957), fork(956)), false},
		{"a fork on the last irreversible one", true, block(fork(956), at(955)), false},
	} {
		x := resumed()
		withoutOther(x)
		x.Delivered.Forget(0)
		for n := uint32(955); n < 960; n++ {
			p := at(n)
			x.Delivered.Add(&p)
		}
		x.Link.First = c.first
		step := down(x, c.r)
		if left := step == pipeline.Leaving(fleet.EndDiscontinuity); left != c.leave {
			t.Errorf("%s: the stage ends with %+v", c.name, step)
		}
	}
}
