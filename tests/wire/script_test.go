package wire

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
)

// scripted is a node that answers status requests, and every request for
// blocks with the same bytes.
type scripted struct {
	t      *testing.T
	abi    []byte
	status ship.Status
	script []byte
	done   sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	pongs []string
}

// start serves the node on address until the returned function is called.
func (s *scripted) start(w *world, address string) (stop func()) {
	s.t.Helper()
	l, err := w.net.Listen(address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			s.done.Go(func() {
				defer conn.Close()
				s.serve(conn)
			})
		}
	})
	return func() {
		l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.done.Wait()
	}
}

// serve ends with the connection; what goes wrong shows at the client.
func (s *scripted) serve(conn net.Conn) {
	br := bufio.NewReader(conn)
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	_, _ = conn.Write(frame.Append(nil, frame.Text, s.abi))
	early, _ := br.Peek(br.Buffered())
	r := frame.NewReader(frame.NewConn(conn), 1<<20, true, early)
	defer r.Release()
	var m frame.Message
	for {
		ok, err := r.Next(&m)
		if err != nil {
			s.t.Errorf("the gateway sends what is no WebSocket: %v", err)
			return
		}
		if !ok {
			if r.Fill() != nil {
				return
			}
			continue
		}
		_, _ = conn.Write(s.answer(&m))
	}
}

func (s *scripted) answer(m *frame.Message) []byte {
	switch m.Op {
	case frame.Ping:
		return frame.Append(nil, frame.Pong, m.Payload(nil))
	case frame.Pong:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pongs = append(s.pongs, string(m.Payload(nil)))
		return nil
	case frame.Close:
		return frame.Append(nil, frame.Close, m.Payload(nil))
	}
	var q ship.Request
	if err := ship.DecodeRequest(m.Payload(nil), &q); err != nil {
		s.t.Errorf("the gateway sends what is no request: %v", err)
		return nil
	}
	switch q.Variant {
	case ship.StatusRequestV0, ship.StatusRequestV1:
		return frame.Append(nil, frame.Binary, ship.AppendStatus(nil, &s.status))
	case ship.BlocksRequestV0, ship.BlocksRequestV1:
		return s.script
	}
	return nil
}

// takePongs returns the pongs that came since the last call.
func (s *scripted) takePongs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.pongs
	s.pongs = nil
	return taken
}

// fragments are the frames of a message that is cut at the given lengths, with
// what is left in the last but one and an empty last one, as Spring has it.
// between is put in behind the third.
func fragments(message, between []byte, lengths ...int) (b []byte) {
	op := frame.Binary
	for i := 0; i <= len(lengths); i++ {
		n := len(message)
		if i < len(lengths) {
			n = lengths[i]
		}
		at := len(b)
		b = frame.Append(b, op, message[:n])
		b[at] &^= 0x80 // not the last one
		message, op = message[n:], frame.Continuation
		if i == 2 {
			b = append(b, between...)
		}
	}
	return frame.Append(b, frame.Continuation, nil)
}
