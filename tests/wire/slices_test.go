package wire

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// cuts are the ways to cut a stream of n bytes: in two at each byte, and in
// pieces of one byte.
func cuts(n int64) (all []Shape) {
	for i := int64(1); i < n; i++ {
		all = append(all, Shape{Slices: []int{int(i), math.MaxInt}})
	}
	return append(all, Shape{Slices: []int{1}})
}

// bytesRead is how many bytes have come out of a line.
func bytesRead(l *Line) int64 {
	l.link.mu.Lock()
	defer l.link.mu.Unlock()
	return l.got
}

// lesson is a script for a node with all that can be in a stream, and what a
// client sees of it.
type lesson struct {
	node *scripted
	// stream is what the client sends, view what it gets.
	stream, view []byte
	pongs        []string
}

const scriptedAddress = "scripted:8080"

func newLesson(t *testing.T, w *world) *lesson {
	pos := func(n uint32) ship.Pos { return ship.Pos{Num: n, ID: w.Chain.Pos(n).ID} }
	const headerEnd = 1 + 4*36 + 2 // of a v0 result with both positions
	result := func(n, head uint32, size int) []byte {
		r := ship.Block{BlockHeader: ship.BlockHeader{Head: pos(head), HasThis: true, This: pos(n), HasPrev: true, Prev: pos(n - 1)}}
		for i, field := range []*[]byte{&r.Block, &r.Traces, &r.Deltas} {
			*field = simulator.AppendPayload([]byte{}, simulator.Field(i+1), r.This.ID, size)
		}
		return ship.AppendBlock(nil, &r)
	}
	// The lengths of the frames of Spring for such a result: variant, fixed part
	// with the block, and prefix and body of traces and deltas.
	spring := func(size int) []int {
		return []int{1, headerEnd - 1 + 2 + size, 2, size, 2}
	}
	tiny := slices.Repeat([]int{1, 2, 7}, 15)
	whole := func(message []byte) []byte { return frame.Append(nil, frame.Binary, message) }
	ping := frame.Append(nil, frame.Ping, []byte("are you there"))
	pong := frame.Append(nil, frame.Pong, []byte("nobody asked"))

	// LIB 0 keeps the gateway from answering the client's status itself.
	status := ship.Status{V1: true, Head: pos(10), Trace: ship.Range{Begin: 1, End: 11}, ChainState: ship.Range{Begin: 1, End: 11}, HasChainID: true, ChainID: w.Chain.ID()}
	unasked := status
	unasked.Head = pos(8)
	unknown := whole([]byte("\x7fnothing that anybody knows"))

	l := &lesson{pongs: []string{"are you there"}}
	l.node = &scripted{t: t, abi: []byte(`{"version":"eosio::abi/1.1","structs":[],"variants":[]}`), status: status}
	l.node.script = slices.Concat(
		fragments(result(2, 10, 40), ping, spring(40)...),
		whole(result(3, 10, 5)),
		whole(ship.AppendStatus(nil, &unasked)),
		pong,
		fragments(result(4, 9, 1), pong, tiny...),
		whole(result(5, 10, 100)),
		fragments(result(5, 10, 100), nil, spring(100)...),
		unknown,
		fragments(result(6, 10, 0), nil, spring(0)...),
	)
	l.stream = slices.Concat([]byte(upgradeRequest), masked(ship.AppendStatusRequest(nil, true)), blocksRequest(ship.BlocksRequest{
		Start: 2, End: 7, MaxInFlight: 100, FetchBlock: true, FetchTraces: true, FetchDeltas: true,
	}))
	l.view = slices.Concat(
		[]byte(upgradeAnswer),
		frame.Append(nil, frame.Text, l.node.abi),
		whole(ship.AppendStatus(nil, &status)),
		fragments(result(2, 10, 40), nil, spring(40)...),
		whole(result(3, 10, 5)),
		// Its head is not let fall.
		fragments(result(4, 10, 1), nil, tiny...),
		whole(result(5, 10, 100)),
		unknown,
		fragments(result(6, 10, 0), nil, spring(0)...),
	)
	return l
}

// attend runs the client once and checks what it sees and what the node gets.
func (l *lesson) attend(w *world, up, down Shape) {
	w.T.Helper()
	got := w.view(up, down, l.stream, len(l.view))
	if !bytes.Equal(got, l.view) {
		w.T.Fatalf("the client gets\n%q, due was\n%q", got, l.view)
	}
	if pongs := l.node.takePongs(); !slices.Equal(pongs, l.pongs) {
		w.T.Fatalf("the node gets the pongs %q", pongs)
	}
}

// TestSlicesAtEveryByte cuts the streams between client, gateway and node at
// every byte: the client sees no difference.
func TestSlicesAtEveryByte(t *testing.T) {
	t.Run("from the node", func(t *testing.T) {
		inLesson(t, nil, func(w *world, l *lesson) {
			var uncut *Link
			w.net.OnDial(scriptedAddress, func(l *Link) { uncut = l })
			l.attend(w, Shape{}, Shape{})
			n := bytesRead(uncut.Down)
			if n < int64(len(l.node.script)) {
				w.T.Fatalf("the gateway has read %d bytes only", n)
			}
			for _, shape := range cuts(n) {
				w.net.OnDial(scriptedAddress, func(l *Link) { l.Down.Shape(shape) })
				l.attend(w, Shape{}, Shape{})
				if w.T.Failed() {
					w.T.Fatalf("cut at %v of %d bytes", shape.Slices, n)
				}
			}
		})
	})
	t.Run("everywhere in single bytes", func(t *testing.T) {
		single := Shape{Slices: []int{1}}
		plan := func(l *Link) {
			l.Up.Shape(single)
			l.Down.Shape(single)
		}
		// The monitor's link is cut too.
		inLesson(t, plan, func(w *world, l *lesson) { l.attend(w, single, single) })
	})
	for _, o := range []simulator.Options{{}, {Whole: true}} {
		t.Run(fmt.Sprintf("from the client, whole results %v", o.Whole), func(t *testing.T) { cutTheClient(t, o) })
	}
}

// inLesson runs a gateway in front of a scripted node. plan may be nil.
func inLesson(t *testing.T, plan func(*Link), test func(*world, *lesson)) {
	inBubble(t, 1, simulator.ChainOptions{}, func(t *testing.T, w *world) {
		l := newLesson(t, w)
		defer l.node.start(w, scriptedAddress)()
		w.Config.Servers = append(w.Config.Servers, scene.Server(scriptedAddress))
		w.net.OnDial(scriptedAddress, plan)
		defer w.Start()()
		test(w, l)
	})
}

func cutTheClient(t *testing.T, o simulator.Options) {
	chain := simulator.ChainOptions{Head: 20, Sizes: simulator.Sizes{Block: 10, Traces: 20, Deltas: 30}}
	inBubble(t, 1, chain, func(t *testing.T, w *world) {
		w.node(o)
		defer w.Start()()
		stream, want := conversation(w)
		var first []byte
		for i, shape := range append([]Shape{{}}, cuts(int64(len(stream)))...) {
			got := w.view(shape, Shape{}, stream, len(first))
			if i == 0 {
				first = got
				if kinds := messages(t, got); !slices.Equal(kinds, want) {
					t.Fatalf("the client gets %v, due was %v", kinds, want)
				}
			}
			if !bytes.Equal(got, first) {
				t.Fatalf("cut at %v of %d bytes: the client gets\n%q, without the cut\n%q", shape.Slices, len(stream), got, first)
			}
		}
	})
}

// conversation is all that a client can say, and what it is answered.
func conversation(w *world) (stream []byte, answers []string) {
	q := scene.Everything(2, 12, 3)
	request := ship.AppendRequest(nil, &q)
	fragment := func(op frame.Opcode, last bool, part []byte) []byte {
		b := frame.AppendMasked(nil, op, part)
		if !last {
			b[0] &^= 0x80
		}
		return b
	}
	stream = slices.Concat(
		[]byte(upgradeRequest),
		masked(ship.AppendStatusRequest(nil, false)),
		frame.AppendMasked(nil, frame.Ping, []byte("one")),
		masked(ship.AppendStatusRequest(nil, true)),
		fragment(frame.Binary, false, request[:1]),
		fragment(frame.Continuation, false, request[1:7]),
		frame.AppendMasked(nil, frame.Ping, nil),
		fragment(frame.Continuation, false, request[7:]),
		fragment(frame.Continuation, true, nil),
		masked(ship.AppendAck(nil, 1)),
		frame.AppendMasked(nil, frame.Text, ship.AppendAck(nil, 2)),
	)
	answers = []string{"ABI", "status v0", "pong one", "status v1", "pong "}
	// Three and one and two results are credited.
	for n := uint32(2); n < 8; n++ {
		answers = append(answers, fmt.Sprint("block ", n, " ", w.Chain.Pos(n).ID))
	}
	return stream, answers
}

// messages names the messages in what a client gets, the answer to the
// handshake first.
func messages(t *testing.T, view []byte) (names []string) {
	t.Helper()
	rest, ok := bytes.CutPrefix(view, []byte(upgradeAnswer))
	if !ok {
		t.Fatalf("the handshake is answered with %q", view)
	}
	r := frame.NewReader(nil, 1<<20, false, rest)
	defer r.Release()
	var m frame.Message
	for {
		ok, err := r.Next(&m)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			if r.Buffered() > 0 {
				t.Fatalf("%d bytes are left", r.Buffered())
			}
			return names
		}
		names = append(names, name(&m))
	}
}

func name(m *frame.Message) string {
	payload := m.Payload(nil)
	var status ship.Status
	var block ship.Block
	switch {
	case m.Op == frame.Text:
		return "ABI"
	case m.Op == frame.Pong:
		return "pong " + string(payload)
	case m.Op == frame.Binary && ship.DecodeStatus(payload, &status) == nil && status.V1:
		return "status v1"
	case m.Op == frame.Binary && ship.DecodeStatus(payload, &status) == nil:
		return "status v0"
	case m.Op == frame.Binary && ship.DecodeBlock(payload, &block) == nil:
		return fmt.Sprint("block ", block.This.Num, " ", block.This.ID)
	}
	return fmt.Sprintf("frame with opcode %d", m.Op)
}
