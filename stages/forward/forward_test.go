package forward_test

import (
	"bytes"
	"testing"

	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/forward"
	"flotilla/stages/stagetest"
)

func up(x *pipeline.Exchange) pipeline.Step {
	return forward.New(nil).(pipeline.Upward).Up(x)
}

func down(x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
	return forward.New(nil).(pipeline.Downward).Down(x, r)
}

// unknown takes a message of an unknown variant up.
func unknown(x *pipeline.Exchange, message []byte) pipeline.Step {
	x.Cause, x.Request, x.Message = pipeline.Received, ship.Request{Variant: 9}, message
	return up(x)
}

// TestPending covers S34: what waits for a link, and how much of it may.
func TestPending(t *testing.T) {
	closing := pipeline.Closing(1008, "pending client buffer exceeded")
	for _, c := range []struct {
		name  string
		up    bool
		sizes []int
		want  pipeline.Step
	}{
		{"up to the limit", false, []int{1, 65535}, pipeline.Step{}},
		{"one byte too many", false, []int{1, 65536}, closing},
		{"one large message", false, []int{65537}, closing},
		{"a link is there, so it does not wait", true, []int{65537}, pipeline.Step{}},
		{"a link that takes nothing any more", true, []int{65536, 1}, closing},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := stagetest.Exchange()
			x.Link.Up = c.up
			for i, size := range c.sizes {
				message := bytes.Repeat([]byte{byte(9 + i)}, size)
				step := unknown(x, message)
				if i < len(c.sizes)-1 && step != (pipeline.Step{}) {
					t.Fatalf("message %d ends with %+v", i, step)
				} else if i == len(c.sizes)-1 && step != c.want {
					t.Fatalf("the last message ends with %+v, want %+v", step, c.want)
				}
				clear(message) // the reader's buffer is used again
			}
			if c.want != (pipeline.Step{}) {
				return
			}
			if len(x.Pending) != len(c.sizes) {
				t.Fatalf("%d messages wait, want %d", len(x.Pending), len(c.sizes))
			}
			for i, m := range x.Pending {
				if len(m) != c.sizes[i] || m[0] != byte(9+i) {
					t.Errorf("message %d has %d bytes and begins with %d", i, len(m), m[0])
				}
			}
		})
	}
}

// A message costs one byte of the limit at least, so that empty ones cannot
// pile up. (An empty message does not get past the decode stage today.)
func TestPendingCountsEmptyMessages(t *testing.T) {
	x := stagetest.Exchange()
	for i := range 65536 {
		if step := unknown(x, nil); step != (pipeline.Step{}) {
			t.Fatalf("message %d ends with %+v", i, step)
		}
	}
	if step := unknown(x, nil); step.Do != pipeline.CloseClient {
		t.Errorf("message 65537 ends with %+v", step)
	}
}

// Known messages other than get_blocks ask nothing of the link.
func TestUpLeavesTheLink(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause pipeline.Cause
		r     ship.Request
	}{
		{"ack", pipeline.Received, ship.Request{Variant: ship.AckRequestV0, Ack: 1}},
		{"status v0", pipeline.Received, ship.Request{Variant: ship.StatusRequestV0}},
		{"status v1", pipeline.Received, ship.Request{Variant: ship.StatusRequestV1}},
		{"connect", pipeline.Connect, ship.Request{Variant: ship.BlocksRequestV0}},
		{"replace", pipeline.Replace, ship.Request{Variant: ship.BlocksRequestV0}},
	} {
		x := stagetest.Exchange(stagetest.Node("a"))
		x.Cause, x.Request, x.Relink = c.cause, c.r, pipeline.Redial
		if step := up(x); step != (pipeline.Step{}) || x.Relink != pipeline.KeepLink || x.Asked || len(x.Pending) > 0 {
			t.Errorf("%s: ends with %+v, relink %d, asked %v, %d pending", c.name, step, x.Relink, x.Asked, len(x.Pending))
		}
	}
}

// linked is an exchange with a link whose request goes on at block 50.
func linked() *pipeline.Exchange {
	x := stagetest.Exchange(stagetest.Node("a"))
	x.Asked, x.Want, x.Cursor, x.Credit = true, ship.BlocksRequest{Start: 50, End: 2000}, 50, 3
	x.Link = pipeline.Link{Up: true, Requested: true, End: 2000, Cursor: 50, Exact: true}
	return x
}

// TestClassify covers S22: what a result stands for, and where the link's
// cursor is after it.
func TestClassify(t *testing.T) {
	uncertain := func(l *pipeline.Link) { l.Exact = false }
	irreversible := func(l *pipeline.Link) { l.Irreversible = true }
	for _, c := range []struct {
		name   string
		change func(l *pipeline.Link)
		r      *pipeline.Result
		kind   pipeline.Kind
		num    uint32
		cursor uint32
		exact  bool
	}{
		{"a block", nil, stagetest.Result(stagetest.Pos(50), stagetest.Pos(49)), pipeline.Block, 50, 51, true},
		{"a block above", nil, stagetest.Result(stagetest.Pos(70), stagetest.Pos(69)), pipeline.Block, 70, 71, true},
		{"a block below", nil, stagetest.Result(stagetest.Pos(40), stagetest.Pos(39)), pipeline.Block, 40, 41, true},
		{"a block after positions", uncertain, stagetest.Result(stagetest.Pos(45), stagetest.Pos(44)), pipeline.Block, 45, 46, true},
		{"a block beyond the end", func(l *pipeline.Link) { l.End = 50 }, stagetest.Result(stagetest.Pos(50), stagetest.Pos(49)), pipeline.Block, 50, 51, true},

		{"no id, head above", nil, stagetest.HeadOnly(60, 40), pipeline.Idless, 50, 51, true},
		{"no id, head at it", nil, stagetest.HeadOnly(50, 40), pipeline.Idless, 50, 51, true},
		{"no id, last one of the request", func(l *pipeline.Link) { l.End = 51 }, stagetest.HeadOnly(60, 40), pipeline.Idless, 50, 51, true},
		{"no id, irreversible, LIB at it", irreversible, stagetest.HeadOnly(60, 50), pipeline.Idless, 50, 51, true},

		{"head below: a keep-alive", nil, stagetest.HeadOnly(49, 40), pipeline.KeepAlive, 0, 50, true},
		{"request satisfied: a keep-alive", func(l *pipeline.Link) { l.End = 50 }, stagetest.HeadOnly(60, 40), pipeline.KeepAlive, 0, 50, true},
		{"irreversible, LIB below: a keep-alive", irreversible, stagetest.HeadOnly(60, 49), pipeline.KeepAlive, 0, 50, true},
		{"after positions: a keep-alive", uncertain, stagetest.HeadOnly(60, 40), pipeline.KeepAlive, 0, 50, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := linked()
			if c.change != nil {
				c.change(&x.Link)
			}
			if step := down(x, c.r); step != (pipeline.Step{}) {
				t.Fatalf("the stage ends with %+v", step)
			}
			if c.r.Kind != c.kind || c.r.Num != c.num {
				t.Errorf("kind %d, number %d; want %d, %d", c.r.Kind, c.r.Num, c.kind, c.num)
			}
			if x.Link.Cursor != c.cursor || x.Link.Exact != c.exact {
				t.Errorf("the link's cursor is %d, exact %v; want %d, %v", x.Link.Cursor, x.Link.Exact, c.cursor, c.exact)
			}
			if x.Link.KeepAlives != (c.kind == pipeline.KeepAlive) {
				t.Errorf("keep-alives seen: %v", x.Link.KeepAlives)
			}
			if x.Link.Head != c.r.Head.Num || x.Link.LIB != c.r.LIB.Num {
				t.Errorf("the link's head is %d, LIB %d", x.Link.Head, x.Link.LIB)
			}
			if x.Cursor != 50 {
				t.Errorf("the client's cursor moved to %d; that is for the dedup stage", x.Cursor)
			}
		})
	}
}

// TestCharge covers S20: every kind of result costs one; what comes without
// credit is passed on and told.
func TestCharge(t *testing.T) {
	for name, r := range map[string]*pipeline.Result{
		"block":      stagetest.Result(stagetest.Pos(50), stagetest.Pos(49)),
		"no id":      stagetest.HeadOnly(60, 40),
		"keep-alive": stagetest.HeadOnly(40, 30),
	} {
		for _, credit := range []uint32{2, 1, 0} {
			x := linked()
			x.Credit = credit
			result := *r
			if step := down(x, &result); step != (pipeline.Step{}) {
				t.Errorf("%s, credit %d: ends with %+v", name, credit, step)
			}
			if x.Credit != max(credit, 1)-1 || result.Uncredited != (credit == 0) {
				t.Errorf("%s: credit %d became %d, uncredited %v", name, credit, x.Credit, result.Uncredited)
			}
		}
	}
}

// Results that nobody asked for are dropped and cost nothing (1.6), but their
// head and LIB are what the link has.
func TestNothingRequested(t *testing.T) {
	x := linked()
	x.Link.Requested = false
	r := stagetest.Result(stagetest.Pos(50), stagetest.Pos(49))
	if step := down(x, r); step != (pipeline.Step{Do: pipeline.Done}) {
		t.Errorf("the stage ends with %+v", step)
	}
	if x.Credit != 3 || x.Cursor != 50 || x.Link.Cursor != 50 {
		t.Errorf("credit %d, cursor %d, the link's %d", x.Credit, x.Cursor, x.Link.Cursor)
	}
	if x.Link.Head != stagetest.Head || x.Link.LIB != stagetest.LIB {
		t.Errorf("the link's head is %d, LIB %d", x.Link.Head, x.Link.LIB)
	}
}
