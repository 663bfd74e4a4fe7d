package forward_test

import (
	"math"
	"testing"

	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/forward"
	"flotilla/stages/stagetest"
)

// TestAck covers S19.
func TestAck(t *testing.T) {
	const most = math.MaxUint32
	for _, c := range []struct {
		name      string
		requested bool
		credit    uint32
		acks      []uint32
		want, ack uint32
	}{
		{"nothing", true, 5, []uint32{0}, 5, 0},
		{"some", true, 5, []uint32{3}, 8, 3},
		{"several are summed", true, 5, []uint32{3, 4, 1}, 13, 8},
		{"from none", true, 0, []uint32{1}, 1, 1},
		{"to the most", true, most - 3, []uint32{3}, most, 3},
		{"beyond the most: only the rise", true, most - 3, []uint32{10}, most, 3},
		{"at the most: no rise", true, most, []uint32{10}, most, 0},
		{"all at once from none", true, 0, []uint32{most}, most, most},
		{"twice the most", true, 1, []uint32{most, most}, most, most - 1},
		{"no request on a link: it goes with the next", false, 5, []uint32{3, 4}, 12, 0},
		{"no request on a link, beyond the most", false, most - 1, []uint32{3}, most, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := stagetest.Exchange(stagetest.Node("a"))
			x.Credit, x.Link.Up, x.Link.Requested = c.credit, true, c.requested
			for _, n := range c.acks {
				x.Cause, x.Request = pipeline.Received, ship.Request{Variant: ship.AckRequestV0, Ack: n}
				if step := up(x); step != (pipeline.Step{}) {
					t.Fatalf("ack %d ends with %+v", n, step)
				}
			}
			if x.Credit != c.want || x.Ack != c.ack {
				t.Errorf("credit %d, to be acked %d; want %d, %d", x.Credit, x.Ack, c.want, c.ack)
			}
		})
	}
}

// Acks that come before any request count for none: the request brings its own
// credit (S7).
func TestAckBeforeARequest(t *testing.T) {
	x := stagetest.Exchange(stagetest.Node("a"))
	x.Cause, x.Request = pipeline.Received, ship.Request{Variant: ship.AckRequestV0, Ack: 9}
	up(x)
	ask(x, ship.BlocksRequest{Start: 1, End: 9, MaxInFlight: 2})
	if x.Credit != 2 {
		t.Errorf("credit %d, want that of the request", x.Credit)
	}
}

// TestAckDue: the upstream is told of credit when it has half or less of the
// most that the client ever gave, a quarter at the head of the chain, so it never
// runs out of what the client has.
func TestAckDue(t *testing.T) {
	for _, c := range []struct {
		name                string
		window, credit, ack uint32
		due, atHead         bool
	}{
		{"nothing to tell", 10, 3, 0, false, false},
		{"more than half is left", 10, 9, 3, false, false},
		{"half is left", 10, 9, 4, true, false},
		{"none is left", 10, 4, 4, true, true},
		{"a credit of one", 1, 1, 1, true, true},
		{"given by acks only", 0, 5, 5, true, true},
		{"refunds beyond the credit", 10, 0, 3, true, true},
		{"endless credit", math.MaxUint32, math.MaxUint32, 1000, false, false},
		{"a quarter is left", 12, 12, 9, true, true},
		{"more than a quarter is left", 12, 12, 8, true, false},
	} {
		for _, at := range []struct {
			name string
			head uint32
			due  bool
		}{{"behind the head", 1000, c.due}, {"at the head", 999, c.atHead}} {
			x := stagetest.Exchange(stagetest.Node("a"))
			x.Link.Exact, x.Link.Cursor, x.Link.Head = true, 1000, at.head
			x.Credit, x.Ack, x.Link.Window = c.credit, c.ack, c.window
			if got := forward.AckDue(x); got != at.due {
				t.Errorf("%s, %s: due is %v", c.name, at.name, got)
			}
		}
	}
}

// TestGatherable: acks may come together where nobody waits for a single one.
func TestGatherable(t *testing.T) {
	for _, c := range []struct {
		name string
		link pipeline.Link
		want uint32
	}{
		{"history", pipeline.Link{Requested: true, Exact: true, Cursor: 10, Head: 100, End: 1000, Window: 50}, 50},
		{"the newest block", pipeline.Link{Requested: true, Exact: true, Cursor: 100, Head: 100, End: 1000, Window: 50}, 50},
		{"at the head", pipeline.Link{Requested: true, Exact: true, Cursor: 101, Head: 100, End: 1000, Window: 50}, 0},
		{"before the first block", pipeline.Link{Requested: true, Cursor: 10, Head: 100, End: 1000, Window: 50}, 0},
		{"all is sent", pipeline.Link{Requested: true, Exact: true, Cursor: 50, Head: 100, End: 50, Window: 50}, 0},
		{"nothing is asked", pipeline.Link{Exact: true, Cursor: 10, Head: 100, End: 1000, Window: 50}, 0},
	} {
		if got := forward.Gatherable(&pipeline.Exchange{Link: c.link}); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
