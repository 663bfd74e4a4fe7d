package pool

import (
	"net"
	"testing"
	"time"

	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// TestAcksThatStop: a client acks each block of a fast stream, so that its acks
// come together in the kernel, and then no more of them. What it sends instead,
// which is shorter than they were, is read all the same.
func TestAcksThatStop(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 20_000})
	addr := onSockets(t, scene.Listener(), socketNode(t, chain, simulator.Options{}))
	for round := range 5 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		br := upgrade(t, conn)
		early, err := br.Peek(br.Buffered())
		if err != nil {
			t.Fatal(err)
		}
		r := frame.NewReader(frame.NewConn(conn), 1<<20, false, early)
		defer r.Release()
		next := func() *frame.Message {
			var m frame.Message
			for {
				ok, err := r.Next(&m)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					return &m
				}
				if err := r.Fill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		send := func(b []byte) {
			if _, err := conn.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		q := scene.Everything(2, 15_000, 50)
		send(request(&q))
		ack := frame.AppendMasked(nil, frame.Binary, ship.AppendAck(nil, 1))
		got := 0
		for got < 5000+round {
			if next().Op == frame.Binary {
				send(ack)
				got++
			}
		}
		asked := time.Now()
		send(frame.AppendMasked(nil, frame.Binary, []byte{ship.StatusRequestV0}))
		for {
			if m := next(); m.Op == frame.Binary && ship.IsStatus(m.Payload(nil)[0], m.Size) {
				break
			}
		}
		send(frame.AppendMasked(nil, frame.Close, frame.ClosePayload(frame.CloseNormal, "")))
		for next().Op != frame.Close {
		}
		// It takes 10 ms at most; a busy machine takes its own time.
		if took := time.Since(asked); took > 2*time.Second {
			t.Errorf("a status and a Close were answered after %v", took)
		}
	}
}
