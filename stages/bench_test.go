package stages_test

import (
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages"
	"flotilla/stages/forward"
	"flotilla/stages/stagetest"
)

// blockPath is a session that streams at the tip: every step takes one block
// result of a node, as bytes, down through the stages.
type blockPath struct {
	pipe   *pipeline.Pipeline
	x      *pipeline.Exchange
	r      pipeline.Result
	block  ship.Block
	bytes  []byte
	behind uint32
}

// newBlockPath makes one whose node has head and LIB behind blocks below what
// the client was told, so that every result is patched unless behind is 0.
func newBlockPath(t testing.TB, behind uint32) *blockPath {
	pipe, err := stages.Pipeline(&config.Listener{})
	if err != nil {
		t.Fatal(err)
	}
	p := &blockPath{pipe: pipe, x: stagetest.Exchange(stagetest.Node("a"), stagetest.Node("b")), behind: behind}
	p.block.V1, p.block.HasThis, p.block.HasPrev = true, true, true
	p.block.Block, p.block.Traces, p.block.Deltas = make([]byte, 60), make([]byte, 100), make([]byte, 60)
	p.x.Cause = pipeline.Received
	p.x.Message = ship.AppendRequest(nil, &ship.BlocksRequest{V1: true, Start: 1000, End: 1<<32 - 1, MaxInFlight: 1<<32 - 1, FetchTraces: true})
	if step := pipe.Up(p.x); step != (pipeline.Step{}) {
		t.Fatalf("the request ends with %+v", step)
	}
	p.x.Link.Up, p.x.Link.Upstream = true, 0
	q := forward.Build(p.x)
	forward.Sent(p.x, &q, false)
	// Until as many blocks are remembered as ever will be.
	for range 2000 {
		p.step(t)
	}
	return p
}

// Slice makes the path's message readable for ship.ReadParts.
func (p *blockPath) Slice(at, n int) []byte {
	return p.bytes[min(at, len(p.bytes)):min(at+n, len(p.bytes))]
}

// step is one block: LIB is 300 below head, as on a chain without instant
// finality.
func (p *blockPath) step(t testing.TB) {
	n := p.x.Cursor
	b := &p.block
	b.This, b.Prev = stagetest.Pos(n), stagetest.Pos(n-1)
	b.Head, b.LIB = stagetest.Pos(n-p.behind), stagetest.Pos(n-p.behind-300)
	if p.behind > 0 {
		p.x.HeadSent, p.x.LIBSent = stagetest.Pos(n), stagetest.Pos(n-300)
	}
	p.bytes = ship.AppendBlock(p.bytes[:0], b)
	p.r = pipeline.Result{Size: len(p.bytes)}
	if !ship.DecodeBlockHeader(p.bytes, &p.r.BlockHeader) {
		t.Fatal("the result cannot be decoded")
	}
	var ok bool
	if p.r.Parts, ok = ship.ReadParts(p.bytes, p, len(p.bytes), &p.r.BlockHeader); !ok || !p.r.Parts.Traces {
		t.Fatalf("the parts are %+v, %v", p.r.Parts, ok)
	}
	if step := p.pipe.Down(p.x, &p.r); step.Do != pipeline.Next || p.x.Cursor != n+1 || p.r.Patched != (p.behind > 0) {
		t.Fatalf("block %d ends with %+v, cursor %d, patched %v", n, step, p.x.Cursor, p.r.Patched)
	}
}

// TestBlockPathAllocatesNothing holds the block path to its promise.
func TestBlockPathAllocatesNothing(t *testing.T) {
	for _, behind := range []uint32{0, 5} {
		p := newBlockPath(t, behind)
		if got := testing.AllocsPerRun(10000, func() { p.step(t) }); got != 0 {
			t.Errorf("%d blocks behind: %v allocations a block", behind, got)
		}
	}
}

// TestAckAllocatesNothing: clients ack as often as blocks come.
func TestAckAllocatesNothing(t *testing.T) {
	p := newBlockPath(t, 0)
	p.x.Message = ship.AppendAck(nil, 1)
	if got := testing.AllocsPerRun(1000, func() {
		if step := p.pipe.Up(p.x); step.Do != pipeline.Next {
			t.Fatalf("an ack ends with %+v", step)
		}
	}); got != 0 {
		t.Errorf("%v allocations an ack", got)
	}
}

// BenchmarkBlock is one block result from its bytes to the decision to pass it
// on. Writing the bytes for it is part of the loop.
func BenchmarkBlock(b *testing.B) {
	for name, behind := range map[string]uint32{"as-it-is": 0, "patched": 5} {
		b.Run(name, func(b *testing.B) {
			p := newBlockPath(b, behind)
			b.ReportAllocs()
			for b.Loop() {
				p.step(b)
			}
		})
	}
}

// BenchmarkAck is one ack of a client.
func BenchmarkAck(b *testing.B) {
	p := newBlockPath(b, 0)
	p.x.Message = ship.AppendAck(nil, 1)
	b.ReportAllocs()
	for b.Loop() {
		p.pipe.Up(p.x)
	}
}
