//go:build nodeos

package nodeos

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"flotilla/gateway/ship"
)

// NoEnd is the end of a request that goes on for ever.
const NoEnd = 1<<32 - 1

// silence is how long a client waits for a message. A chain of one producer
// pauses for 1.1 s between its rounds, and a gateway may take some seconds to
// find out that a node hangs.
const silence = 20 * time.Second

// Client is a SHiP client that takes nothing on trust: it fails its test on
// the first message that a single healthy node of a chain without forks would
// not have sent. It is for one goroutine.
//
// One oddity of the nodes is let pass, see Repeats.
type Client struct {
	// ABI is the first message.
	ABI []byte
	// Results are the blocks since the last request, each one once.
	Results []Result
	// Repeats are the blocks that came twice in a row. When something makes a
	// node look for work while it is writing a new block into its logs, it sends
	// what is there, possibly without traces or deltas, and the whole block once
	// it is written. The later one counts. Fleet.CheckRepeats tells such a repeat
	// from one of the gateway's making.
	Repeats []uint32

	t      testing.TB
	conn   *websocket.Conn
	req    ship.BlocksRequest
	next   uint32 // the block that has to come next; 0 when any may
	credit int64
	last   ship.Pos // this_block of the result before
	noPrev uint32   // the block without prev_block
	falls  bool     // whether head and LIB may go back; see directly
	whole  bool     // whether the result before had all that was asked for
	head   uint32
	lib    uint32
}

// Result is one block result as it came.
type Result struct {
	ship.Block
	Message []byte
}

// Dial connects to a SHiP port and takes its ABI. The connection ends with the
// test.
func Dial(t testing.TB, addr string) *Client {
	t.Helper()
	d := websocket.Dialer{HandshakeTimeout: silence}
	conn, resp, err := d.Dial("ws://"+addr, nil)
	if err != nil {
		t.Fatalf("connect to %s: %v", addr, err)
	}
	_ = resp.Body.Close()
	c := &Client{t: t, conn: conn, noPrev: 1}
	t.Cleanup(c.Close)
	kind, abi := c.read()
	if kind != websocket.TextMessage {
		t.Fatalf("the ABI came in a message of type %d, not as text", kind)
	}
	if _, err := ship.ParseABI(abi); err != nil {
		t.Fatal(err)
	}
	c.ABI = abi
	return c
}

// Close ends the connection.
func (c *Client) Close() { _ = c.conn.Close() }

// Everything is a v0 request for blocks, traces and deltas of [start, end),
// with a credit of 20.
func Everything(start, end uint32) ship.BlocksRequest {
	return ship.BlocksRequest{Start: start, End: end, MaxInFlight: 20, FetchBlock: true, FetchTraces: true, FetchDeltas: true}
}

// Ask sends a blocks request. An earlier one must have been served in full.
func (c *Client) Ask(q ship.BlocksRequest) {
	c.t.Helper()
	c.req, c.next, c.last, c.whole, c.credit = q, max(q.Start, 1), ship.Pos{}, true, int64(q.MaxInFlight)
	c.Results = nil
	c.write(ship.AppendRequest(nil, &q))
}

// Status asks for a v0 status. Only for a client that is owed no blocks.
func (c *Client) Status() ship.Status {
	c.t.Helper()
	c.write(ship.AppendStatusRequest(nil, false))
	_, msg := c.read()
	var s ship.Status
	if err := ship.DecodeStatus(msg, &s); err != nil {
		c.t.Fatalf("status: %v", err)
	}
	if again := ship.AppendStatus(nil, &s); !bytes.Equal(again, msg) {
		c.t.Fatalf("a status of %d bytes has something that the protocol does not: %x", len(msg), msg)
	}
	return s
}

// Until takes and acks results up to block last.
func (c *Client) Until(last uint32) {
	c.t.Helper()
	for c.last.Num < last || !c.whole {
		c.take()
	}
}

// More takes and acks the next n blocks.
func (c *Client) More(n uint32) {
	c.t.Helper()
	c.Until(c.next + n - 1)
}

// take reads one result, checks it, keeps it and acks it.
func (c *Client) take() {
	c.t.Helper()
	kind, msg := c.read()
	if kind != websocket.BinaryMessage {
		c.t.Fatalf("a result came in a message of type %d, not as binary", kind)
	}
	r := Result{Message: msg}
	if err := ship.DecodeBlock(msg, &r.Block); err != nil {
		c.t.Fatalf("a result of %d bytes in place of block %d: %v", len(msg), c.next, err)
	}
	if err := c.check(&r); err != nil {
		c.t.Fatal(err)
	}
	if c.repeats(&r) {
		c.Repeats = append(c.Repeats, r.This.Num)
		c.Results[len(c.Results)-1] = r
	} else {
		c.Results = append(c.Results, r)
	}
	c.next, c.last, c.whole, c.head, c.lib = r.This.Num+1, r.This, c.complete(&r), r.Head.Num, r.LIB.Num
	c.credit--
	c.ack(1)
}

// repeats reports whether a result is the block before once more.
func (c *Client) repeats(r *Result) bool { return len(c.Results) > 0 && r.This == c.last }

// surplus reports whether a result has what was not asked for.
func (c *Client) surplus(r *Result) bool {
	return r.Block.Block != nil && !c.req.FetchBlock || r.Traces != nil && !c.req.FetchTraces || r.Deltas != nil && !c.req.FetchDeltas
}

// complete reports whether a result has what was asked for.
func (c *Client) complete(r *Result) bool {
	traces := c.req.FetchTraces && r.This.Num > 1 // no log has traces of block 1
	return (r.Block.Block != nil) == c.req.FetchBlock && (r.Traces != nil) == traces && (r.Deltas != nil) == c.req.FetchDeltas
}

func (c *Client) ack(n uint32) {
	c.t.Helper()
	c.credit += int64(n)
	c.write(ship.AppendAck(nil, n))
}

// check holds a result against the request and the result before.
func (c *Client) check(r *Result) error {
	if again := ship.AppendBlock(nil, &r.Block); !bytes.Equal(again, r.Message) {
		return fmt.Errorf("the result in place of block %d has bytes that the protocol does not", c.next)
	}
	if !r.HasThis {
		return fmt.Errorf("a result without this_block in place of block %d", c.next)
	}
	n := r.This.Num
	switch {
	case r.V1 != c.req.V1:
		return fmt.Errorf("block %d: a result of version 1: %v; the request: %v", n, r.V1, c.req.V1)
	case c.credit < 1:
		return fmt.Errorf("block %d came without credit", n)
	case !c.whole && !c.repeats(r):
		return fmt.Errorf("block %d came without all that was asked for, and was not sent again", c.last.Num)
	case n > c.next:
		return fmt.Errorf("gap: block %d in place of %d", n, c.next)
	case n < c.next && !c.repeats(r):
		return fmt.Errorf("block %d again, in place of %d", n, c.next)
	case n >= c.req.End:
		return fmt.Errorf("block %d is beyond the end of the request, %d", n, c.req.End)
	case binary.BigEndian.Uint32(r.This.ID[:]) != n:
		return fmt.Errorf("block %d has id %s", n, r.This.ID)
	case r.HasPrev != (n > c.noPrev):
		return fmt.Errorf("block %d: prev_block is there: %v", n, r.HasPrev)
	case n == c.last.Num+1 && r.HasPrev && r.Prev != c.last:
		return fmt.Errorf("block %d links to %d %s, but %s was sent", n, r.Prev.Num, r.Prev.ID, c.last.ID)
	case !c.falls && (r.Head.Num < c.head || r.LIB.Num < c.lib):
		return fmt.Errorf("block %d: head and LIB went from %d and %d back to %d and %d", n, c.head, c.lib, r.Head.Num, r.LIB.Num)
	case r.LIB.Num > r.Head.Num || r.Head.Num < n:
		return fmt.Errorf("block %d with head %d and LIB %d", n, r.Head.Num, r.LIB.Num)
	case c.req.Irreversible && n > r.LIB.Num:
		return fmt.Errorf("block %d is not irreversible yet: LIB is %d", n, r.LIB.Num)
	case r.Block.Block == nil && c.req.FetchBlock || c.surplus(r):
		return fmt.Errorf("block %d: %d bytes of block, %d of traces, %d of deltas, for the request %+v", n, len(r.Block.Block), len(r.Traces), len(r.Deltas), c.req)
	}
	return nil
}

func (c *Client) read() (kind int, msg []byte) {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
		c.t.Fatal(err)
	}
	kind, msg, err := c.conn.ReadMessage()
	if err != nil {
		c.t.Fatalf("the connection ended, or was silent for %v, in place of block %d: %v", silence, c.next, err)
	}
	return kind, msg
}

func (c *Client) write(msg []byte) {
	c.t.Helper()
	if err := c.conn.WriteMessage(websocket.BinaryMessage, msg); err != nil {
		c.t.Fatalf("the connection ended before block %d: %v", c.next, err)
	}
}

// SameBlocks fails the test unless both hold the same blocks with the same
// bytes. Head and LIB are left out: they tell of the moment, not of the block.
func SameBlocks(t testing.TB, got, want []Result) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d blocks, but a node sends %d for the same range", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if g.This != w.This {
			t.Fatalf("block %d %s, but a node has %d %s", g.This.Num, g.This.ID, w.This.Num, w.This.ID)
		}
		if g.Message[0] != w.Message[0] || !bytes.Equal(g.Message[afterTip:], w.Message[afterTip:]) {
			t.Fatalf("block %d differs from what a node sends (%d and %d bytes)", g.This.Num, len(g.Message), len(w.Message))
		}
	}
}

// afterTip is the offset in a result at which head and LIB are over.
const afterTip = ship.PatchSize
