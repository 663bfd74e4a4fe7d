package stages_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages"
	"flotilla/stages/forward"
	"flotilla/stages/rewrite"
	"flotilla/stages/stagetest"
)

// client checks what it gets as a strict reader would.
type client struct {
	// granted is the credit that it gave for its request, got how many
	// results it has had.
	granted, got uint32
	// expected is the block that has to come next, unless a fork goes back.
	expected uint32
	// chain are the blocks of its request, each the one after the one before,
	// behind those that the client says it has: the first claimed of them.
	chain     []ship.Pos
	claimed   int
	head, lib uint32
}

func (c *client) ask(q *ship.BlocksRequest) {
	c.granted, c.got, c.expected = q.MaxInFlight, 0, q.Start
	c.chain, c.claimed = slices.Clone(q.Have), len(q.Have)
}

func (c *client) tip(t *rapid.T, head, lib uint32) {
	if head < c.head || lib < c.lib || lib > head {
		t.Fatalf("the client is told head %d, LIB %d after head %d, LIB %d", head, lib, c.head, c.lib)
	}
	c.head, c.lib = head, lib
}

func (c *client) take(t *rapid.T, h *ship.BlockHeader) {
	c.got++
	c.tip(t, h.Head.Num, h.LIB.Num)
	if !h.HasThis {
		return
	}
	n := h.This.Num
	if n > c.expected {
		t.Fatalf("the client gets block %d after block %d", n, c.expected-1)
	}
	keep := 0
	for keep < len(c.chain) && c.chain[keep].Num < n {
		keep++
	}
	// What it only claims to have it may get: nodes behind send that natively.
	if keep < len(c.chain) && keep >= c.claimed && c.chain[keep] == h.This {
		t.Fatalf("the client gets block %d again, of the same fork", n)
	}
	if c.chain = c.chain[:keep]; keep > 0 && c.chain[keep-1] != h.Prev {
		t.Fatalf("block %d of fork %d follows %v, the client has %v", n, h.This.ID[31], h.Prev, c.chain[keep-1])
	}
	c.chain, c.claimed, c.expected = append(c.chain, h.This), min(c.claimed, keep), n+1
}

// link is a connection to a node, with what is under way on it.
type link struct {
	*node
	requests []upward
	results  [][]byte
}

// upward is one message to a node: a request, or else an ack.
type upward struct {
	request *ship.BlocksRequest
	ack     uint32
}

// gateway is a session around the stages, as far as they need one: it carries
// messages and links and decides nothing.
type gateway struct {
	*chain
	pipe   *pipeline.Pipeline
	x      *pipeline.Exchange
	link   *link
	seam   bool
	client client
	seen   *events
}

// events counts what came to pass, so that the test knows that it tested it.
type events struct {
	resumed, dropped, forks, keepAlives, reused, redialed, patched, irreversible, rewound int
}

func newGateway(t *rapid.T, seen *events) *gateway {
	pipe, err := stages.Pipeline(&config.Listener{})
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{chain: newChain(t), pipe: pipe, seen: seen}
	g.x = stagetest.Exchange(stagetest.Node("a"), stagetest.Node("b"), stagetest.Node("c"))
	return g
}

// up takes a message of the client through the stages.
func (g *gateway) up(t *rapid.T, message []byte) {
	g.x.Tip.Head.Num, g.x.Tip.LIB.Num = g.highest()
	g.x.Cause, g.x.Message = pipeline.Received, message
	if step := g.pipe.Up(g.x); step != (pipeline.Step{}) {
		t.Fatalf("a message of the client ends with %+v", step)
	}
}

// ask is a request of the client.
func (g *gateway) ask(t *rapid.T, q *ship.BlocksRequest) {
	g.client.ask(q)
	g.up(t, ship.AppendRequest(nil, q))
	switch g.x.Relink {
	case pipeline.SendRequest:
		g.seen.reused++
		if len(g.link.results) > 0 || g.link.send(true) != nil {
			t.Fatalf("the link takes another request while results of the old one can come")
		}
		g.send(false)
	case pipeline.Redial:
		g.seen.redialed++
		i := g.x.Link.Upstream
		g.disconnect()
		g.seam = false
		g.connect(i)
	case pipeline.Move:
		t.Fatalf("a request moves to another node, none of which is better")
	}
}

// ack is an ack of the client.
func (g *gateway) ack(t *rapid.T, n uint32) {
	g.up(t, ship.AppendAck(nil, n))
	g.client.granted += n
}

// send sends the request in force on the link.
func (g *gateway) send(seam bool) {
	q := forward.Build(g.x)
	if !g.x.Fresh {
		g.seen.resumed++
	}
	g.link.requests = append(g.link.requests, upward{request: &q})
	forward.Sent(g.x, &q, seam)
}

// connect brings a link up.
func (g *gateway) connect(i int) {
	n := g.nodes[i]
	n.requested = false
	g.link = &link{node: n}
	g.x.Current = i
	g.x.Link = pipeline.Link{Up: true, Upstream: i, OnlyV0: n.old}
	if g.x.Asked && !g.x.Empty() {
		g.send(g.seam)
	}
	g.seam = true
}

// disconnect loses the link and all that is under way on it.
func (g *gateway) disconnect() {
	g.link.requested = false
	g.link = nil
	g.x.Link = pipeline.Link{Upstream: pipeline.None}
	g.x.Ack = 0
	g.x.Current = pipeline.None
}

// lose loses the link, if there is one, to a failure.
func (g *gateway) lose(t *rapid.T) {
	if g.link != nil {
		forward.Ended(g.x, rapid.SampledFrom([]fleet.End{fleet.EndUnclean, fleet.EndClean, fleet.EndStall, fleet.EndSilent}).Draw(t, "end"), forward.Owed(g.x))
		g.disconnect()
	}
}

// reconnect brings a link up, if there is none.
func (g *gateway) reconnect(i int) {
	if g.link == nil {
		g.connect(i)
	}
}

// flush acks what is to be acked.
func (g *gateway) flush() {
	if g.link != nil && g.x.Ack > 0 {
		g.link.requests = append(g.link.requests, upward{ack: g.x.Ack})
		g.x.Ack = 0
	}
}

// arrive hands the node the next message that is under way to it.
func (g *gateway) arrive() bool {
	if g.link == nil || len(g.link.requests) == 0 {
		return false
	}
	m := g.link.requests[0]
	g.link.requests = g.link.requests[1:]
	if m.request == nil {
		g.link.credit += m.ack
		return true
	}
	g.link.take(*m.request)
	if g.link.cursor < m.request.Start {
		g.seen.rewound++
	}
	return true
}

// produce has the node send its next result.
func (g *gateway) produce(keepAlive bool) bool {
	if g.link == nil {
		return false
	}
	message := g.link.send(keepAlive)
	if message != nil {
		g.link.results = append(g.link.results, message)
	}
	return message != nil
}

// relay takes the next result down through the stages.
func (g *gateway) relay(t *rapid.T) bool {
	if g.link == nil || len(g.link.results) == 0 {
		return false
	}
	message := g.link.results[0]
	g.link.results = g.link.results[1:]
	r := &pipeline.Result{Size: len(message)}
	// The nodes of this model send results without payload.
	r.Parts = ship.Parts{Block: true, Traces: true, Deltas: true, Finality: true}
	if !ship.DecodeBlockHeader(message, &r.BlockHeader) {
		t.Fatalf("a result of %d bytes cannot be decoded", len(message))
	}
	g.x.Tip.Head.Num, g.x.Tip.LIB.Num = g.highest()
	fresh := g.x.Fresh
	step := g.pipe.Down(g.x, r)
	switch {
	case step == pipeline.Step{Do: pipeline.Done}:
		g.seen.dropped++
		return true
	case step != pipeline.Step{}:
		t.Fatalf("block %d ends with %+v", r.Num, step)
	case r.Jump || r.Uncredited:
		t.Fatalf("block %d: jump %v, uncredited %v", r.Num, r.Jump, r.Uncredited)
	case r.Broken && !fresh:
		t.Fatalf("block %d does not continue what the request has brought", r.Num)
	}
	count := func(n *int, happened bool) {
		if happened {
			*n++
		}
	}
	count(&g.seen.forks, r.Fork)
	count(&g.seen.keepAlives, r.Kind == pipeline.KeepAlive)
	count(&g.seen.patched, r.Patched)
	count(&g.seen.irreversible, g.x.Want.Irreversible)
	g.client.take(t, &r.BlockHeader)
	return true
}

// status answers a status request of the client as the session does.
func (g *gateway) status(t *rapid.T) {
	h, l := g.highest()
	head, lib := g.at(g.latest(), h), g.at(g.latest(), l)
	rewrite.Raise(&g.x.Position, &head, &lib)
	g.client.tip(t, head.Num, lib.Num)
}

// check holds at any moment.
func (g *gateway) check(t *rapid.T) {
	x := g.x
	if want := g.client.granted - g.client.got; x.Asked && x.Credit != want {
		t.Fatalf("credit %d; the client granted %d and got %d", x.Credit, g.client.granted, g.client.got)
	}
	if g.link == nil || !x.Link.Requested {
		return
	}
	// What the node may send once it has got all that is under way to it (S21).
	credit := g.link.credit + uint32(len(g.link.results))
	for _, m := range g.link.requests {
		if m.request != nil {
			credit = m.request.MaxInFlight
		}
		credit += m.ack
	}
	if credit+x.Ack != x.Credit {
		t.Fatalf("the node's credit comes to %d, the client's is %d", credit+x.Ack, x.Credit)
	}
}

// settle ends all forks and lets everything arrive; the client then has to
// have the canonical chain.
func (g *gateway) settle(t *rapid.T) {
	head, _ := g.highest()
	// A new version may be shorter than one that the client has read.
	head = max(head, g.client.expected) + 3
	for _, n := range g.nodes {
		n.follow(g.latest(), head)
	}
	for _, n := range g.nodes {
		n.lib = head - 1
	}
	if g.link == nil {
		g.connect(0)
	}
	// From here on the client acks each result, with some to spare.
	g.ack(t, rapid.Uint32Range(1, 8).Draw(t, "window"))
	for moved := true; moved; {
		got := g.client.got
		moved = g.arrive() || g.produce(false) || g.relay(t)
		if g.client.got > got {
			g.ack(t, 1)
		}
		if !moved {
			// An ack that is not due must not be what the node waits for.
			if moved = g.link != nil && forward.AckDue(g.x); moved {
				g.flush()
			}
		}
		g.check(t)
	}
	for _, p := range g.client.chain {
		if want := g.at(g.latest(), p.Num); p != want {
			t.Fatalf("in the end the client has block %d of fork %d, canonical is fork %d", p.Num, p.ID[31], want.ID[31])
		}
	}
	if !g.x.Asked || g.x.Empty() {
		return
	}
	gate := head
	if g.x.Want.Irreversible {
		gate--
	}
	if last := min(g.x.Want.End-1, gate); g.client.expected <= last {
		t.Fatalf("in the end the client waits for block %d, the request has blocks up to %d", g.client.expected, last)
	}
}

// request draws a request: from somewhere on the chain, with some positions of
// some version.
func (g *gateway) request(t *rapid.T) *ship.BlocksRequest {
	head, _ := g.highest()
	q := &ship.BlocksRequest{
		V1:           rapid.Bool().Draw(t, "v1"),
		Start:        rapid.Uint32Range(1, head+3).Draw(t, "start"),
		End:          1<<32 - 1,
		MaxInFlight:  rapid.Uint32Range(0, 20).Draw(t, "credit"),
		Irreversible: rapid.IntRange(0, 4).Draw(t, "irreversible") == 4,
		FetchTraces:  true,
	}
	switch rapid.IntRange(0, 9).Draw(t, "end") {
	case 8:
		q.End = q.Start
	case 9:
		q.End = q.Start + rapid.Uint32Range(1, 5).Draw(t, "blocks")
	}
	version := rapid.IntRange(0, g.latest()).Draw(t, "version")
	for n := max(q.Start, 5) - min(rapid.Uint32Range(0, 4).Draw(t, "positions"), q.Start-1); n < q.Start; n++ {
		q.Have = append(q.Have, g.at(version, n))
	}
	return q
}

// TestStream drives one session over a chain with forks, through links that
// end at any moment, to nodes that replay as their rules have them. The client
// has to get the canonical chain: no gap, no block twice, no credit lost, head
// and LIB never back.
func TestStream(t *testing.T) {
	var seen events
	for range rounds {
		rapid.Check(t, func(t *rapid.T) { stream(t, &seen) })
	}
	if t.Failed() {
		return
	}
	for what, n := range map[string]int{
		"resumed requests": seen.resumed, "dropped results": seen.dropped, "fork deliveries": seen.forks, "keep-alives": seen.keepAlives,
		"reused links": seen.reused, "redials": seen.redialed, "patched results": seen.patched, "irreversible streams": seen.irreversible,
		"requests that went back": seen.rewound,
	} {
		if n == 0 {
			t.Errorf("there were no %s: the test has lost its point", what)
		}
	}
	t.Logf("%+v", seen)
}

// rounds of 100 streams each hold every rare event many times.
const rounds = 30

// stream is one session from its first request to the end of all forks.
func stream(t *rapid.T, seen *events) {
	g := newGateway(t, seen)
	some := rapid.IntRange(1, 6)
	node := rapid.IntRange(0, len(g.nodes)-1)
	g.connect(node.Draw(t, "node"))
	g.ask(t, g.request(t))
	t.Repeat(map[string]func(*rapid.T){
		"grow": func(t *rapid.T) { g.nodes[node.Draw(t, "node")].grow(t) },
		"fork": func(t *rapid.T) {
			if rarely(t) {
				g.nodes[node.Draw(t, "node")].fork(t)
			}
		},
		"settle": func(t *rapid.T) { g.nodes[node.Draw(t, "node")].settle(t) },
		"ask": func(t *rapid.T) {
			if rarely(t) {
				g.ask(t, g.request(t))
			}
		},
		"status": g.status,
		"ack":    func(t *rapid.T) { g.ack(t, rapid.Uint32Range(1, 10).Draw(t, "n")) },
		"arrive": func(t *rapid.T) { times(some.Draw(t, "messages"), g.arrive) },
		"produce": func(t *rapid.T) {
			times(some.Draw(t, "results"), func() bool { return g.produce(rapid.Bool().Draw(t, "keep-alive")) })
		},
		"relay": func(t *rapid.T) { times(some.Draw(t, "results"), func() bool { return g.relay(t) }) },
		"run": func(t *rapid.T) {
			times(some.Draw(t, "rounds"), func() bool {
				g.flush()
				return g.arrive() || g.produce(false) || g.relay(t)
			})
		},
		"lose":     func(t *rapid.T) { g.lose(t) },
		"connect":  func(t *rapid.T) { g.reconnect(node.Draw(t, "node")) },
		"failover": func(t *rapid.T) { g.lose(t); g.reconnect(node.Draw(t, "node")); g.arrive() },
		"":         g.check,
	})
	g.settle(t)
}

// rarely is true so seldom that a stream gets somewhere in between.
func rarely(t *rapid.T) bool { return rapid.IntRange(0, 7).Draw(t, "now") == 7 }

// times calls f until it has nothing to do, n times at most.
func times(n int, f func() bool) {
	for range n {
		if !f() {
			return
		}
	}
}
