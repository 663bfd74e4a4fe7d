package statehistory

import (
	"context"
	"errors"
	"sync"

	"github.com/gorilla/websocket"

	"flotilla/gateway/ship"
)

// maxRequest is the message limit of nodeos, in bytes.
const maxRequest = 16 << 20

// session is one client: one request, one credit, one cursor.
type session struct {
	archive *Archive
	ws      *websocket.Conn
	wake    chan struct{}

	mu       sync.Mutex
	req      ship.BlocksRequest
	credit   uint32
	cursor   uint32
	statuses []bool // true is v1
	pongs    []string
	bye      int // the code of the client's Close frame
}

func newSession(a *Archive, ws *websocket.Conn) *session {
	s := &session{archive: a, ws: ws, wake: make(chan struct{}, 1)}
	ws.SetReadLimit(maxRequest)
	// All that goes out is written by one goroutine, so the answers are queued.
	ws.SetPingHandler(func(data string) error {
		s.do(func() { s.pongs = append(s.pongs, data) })
		return nil
	})
	ws.SetCloseHandler(func(code int, _ string) error {
		if code == websocket.CloseNoStatusReceived {
			code = websocket.CloseNormalClosure
		}
		s.do(func() { s.bye = code })
		return nil
	})
	return s
}

// run serves the client until its connection or ctx ends. The error is that of
// the archive's own data; how clients go is nobody's concern. The connection
// ends without a Close frame unless the client has sent one.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.ws.NetConn().Close() })
	defer stop()
	var reader sync.WaitGroup
	reader.Go(func() {
		if err := s.read(); err != nil {
			cancel()
		}
	})
	err := s.write(ctx)
	cancel()
	_ = s.ws.NetConn().Close()
	reader.Wait()
	return err
}

// do changes the state and wakes the writer.
func (s *session) do(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// read takes requests until the connection ends. It returns nil when the client
// has sent a Close frame, which the writer then answers.
func (s *session) read() error {
	for {
		_, msg, err := s.ws.ReadMessage()
		if err == nil {
			err = s.take(msg)
		}
		var bye *websocket.CloseError
		if errors.As(err, &bye) && bye.Code != websocket.CloseAbnormalClosure {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) take(msg []byte) error {
	var r ship.Request
	if err := ship.DecodeRequest(msg, &r); err != nil {
		return err
	}
	switch r.Variant {
	case ship.AckRequestV0:
		s.do(func() { s.credit += r.Ack })
	case ship.StatusRequestV0, ship.StatusRequestV1:
		s.do(func() { s.statuses = append(s.statuses, r.Variant == ship.StatusRequestV1) })
	case ship.BlocksRequestV0, ship.BlocksRequestV1:
		// The new request replaces all there was of the one before.
		s.do(func() { s.req, s.credit, s.cursor = r.Blocks, r.Blocks.MaxInFlight, r.Blocks.Start })
	default:
		return errors.New("an unknown request")
	}
	return nil
}

// write sends the ABI, and then whatever is due.
func (s *session) write(ctx context.Context) error {
	if err := s.ws.WriteMessage(websocket.TextMessage, s.archive.ABI()); err != nil {
		return nil
	}
	var out []byte
	for {
		kind, msg, err := s.next(out[:0])
		if err != nil {
			return err
		}
		if kind == 0 {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		if s.ws.WriteMessage(kind, msg) != nil || kind == websocket.CloseMessage {
			return nil
		}
		if kind == websocket.BinaryMessage {
			out = msg
		}
	}
}

// next is the message that is due, in the order of nodeos: whatever is not a
// block goes before the next block. Kind 0 is none. The message may be in out.
func (s *session) next(out []byte) (kind int, msg []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.bye != 0:
		return websocket.CloseMessage, websocket.FormatCloseMessage(s.bye, ""), nil
	case len(s.pongs) > 0:
		msg, s.pongs = []byte(s.pongs[0]), s.pongs[1:]
		return websocket.PongMessage, msg, nil
	case len(s.statuses) > 0:
		status := s.archive.Status(s.statuses[0])
		s.statuses = s.statuses[1:]
		return websocket.BinaryMessage, ship.AppendStatus(out, &status), nil
	}
	if err := s.goBack(); err != nil {
		return 0, nil, err
	}
	if s.credit == 0 || s.cursor >= min(s.req.End, s.archive.Range().End) {
		return 0, nil, nil
	}
	r, err := s.archive.Result(s.cursor, &s.req)
	if err != nil {
		return 0, nil, err
	}
	s.credit--
	s.cursor++
	return websocket.BinaryMessage, ship.AppendBlock(out, r), nil
}

// goBack moves the cursor of a new request to the lowest of its positions that
// is not a block of this archive.
func (s *session) goBack() error {
	for _, p := range s.req.Have {
		if p.Num >= s.cursor {
			continue
		}
		own, ok, err := s.archive.position(p.Num)
		if err != nil {
			return err
		}
		if !ok || own != p {
			s.cursor = p.Num
		}
	}
	s.req.Have = nil
	return nil
}
