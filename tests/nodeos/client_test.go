//go:build nodeos

package nodeos

import (
	"encoding/binary"
	"strings"
	"testing"

	"flotilla/gateway/ship"
)

// A client that overlooks a fault would make every other test here worthless.
func TestClientNotices(t *testing.T) {
	pos := func(num uint32) ship.Pos {
		p := ship.Pos{Num: num}
		binary.BigEndian.PutUint32(p.ID[:], num)
		return p
	}
	// A client that has taken block 9 and waits for 10.
	client := func() *Client {
		return &Client{req: Everything(5, 20), next: 10, credit: 1, last: pos(9), whole: true, head: 15, lib: 14, Results: make([]Result, 5)}
	}
	result := func(num uint32) Result {
		return Result{Block: ship.Block{
			BlockHeader: ship.BlockHeader{Head: pos(15), LIB: pos(14), HasThis: true, This: pos(num), HasPrev: true, Prev: pos(num - 1)},
			Block:       []byte("block"), Traces: []byte("traces"), Deltas: []byte("deltas"),
		}}
	}
	tests := []struct {
		name   string
		change func(*Client, *Result)
		want   string // a part of the complaint; empty when there is none
	}{
		{"nothing", func(*Client, *Result) {}, ""},
		{"a gap", func(_ *Client, r *Result) { *r = result(11) }, "gap"},
		{"a duplicate", func(_ *Client, r *Result) { *r = result(8) }, "again"},
		{"the block before with another id", func(_ *Client, r *Result) { *r = result(9); r.This.ID[31]++ }, "again"},
		{"the block before once more", func(_ *Client, r *Result) { *r = result(9) }, ""}, // for CheckRepeats to judge
		{"no deltas at first", func(c *Client, r *Result) { c.whole = false; *r = result(9) }, ""},
		{"no deltas for good", func(c *Client, _ *Result) { c.whole = false }, "not sent again"},
		{"a block beyond the end", func(c *Client, _ *Result) { c.req.End = 10 }, "beyond the end"},
		{"no credit", func(c *Client, _ *Result) { c.credit = 0 }, "without credit"},
		{"v1", func(_ *Client, r *Result) { r.V1 = true }, "version 1"},
		{"no this_block", func(_ *Client, r *Result) { r.HasThis = false }, "without this_block"},
		{"the id of another block", func(_ *Client, r *Result) { r.This.ID = pos(12).ID }, "has id"},
		{"no prev_block", func(_ *Client, r *Result) { r.HasPrev = false }, "prev_block"},
		{"a broken link", func(_ *Client, r *Result) { r.Prev.ID[31]++ }, "links to"},
		{"an older head", func(_ *Client, r *Result) { r.Head = pos(14) }, "back"},
		{"an older LIB", func(_ *Client, r *Result) { r.LIB = pos(13) }, "back"},
		{"LIB above head", func(_ *Client, r *Result) { r.LIB = pos(16) }, "LIB 16"},
		{"a reversible block", func(c *Client, r *Result) { c.req.Irreversible, c.lib, r.LIB = true, 9, pos(9) }, "not irreversible"},
		{"no block", func(_ *Client, r *Result) { r.Block.Block = nil }, "0 bytes of block"},
		{"deltas not asked for", func(c *Client, _ *Result) { c.req.FetchDeltas = false }, "6 of deltas"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, r := client(), result(10)
			tt.change(c, &r)
			r.Message = ship.AppendBlock(nil, &r.Block)
			complains(t, c.check(&r), tt.want)
		})
	}
	t.Run("a byte too many", func(t *testing.T) {
		r := result(10)
		r.Message = append(ship.AppendBlock(nil, &r.Block), 0)
		complains(t, client().check(&r), "bytes that the protocol does not")
	})
}

// A result that lacks something may pass, but is not enough.
func TestClientWantsTheWholeBlock(t *testing.T) {
	c := &Client{req: Everything(1, 20)}
	r := Result{Block: ship.Block{BlockHeader: ship.BlockHeader{This: ship.Pos{Num: 2}}, Block: []byte("b"), Traces: []byte("t"), Deltas: []byte("d")}}
	if !c.complete(&r) {
		t.Error("a whole block is said to lack something")
	}
	r.Traces = nil
	if c.complete(&r) {
		t.Error("a block without traces is said to be whole")
	}
	if r.This.Num = 1; !c.complete(&r) {
		t.Error("block 1 is said to lack traces, which it never has")
	}
	if r.Deltas = nil; c.complete(&r) {
		t.Error("a block without deltas is said to be whole")
	}
}

func complains(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("a complaint about a good result: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%v; want a complaint with %q", err, want)
	}
}
