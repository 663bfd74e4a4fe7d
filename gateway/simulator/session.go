package simulator

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/gorilla/websocket"

	"flotilla/gateway/ship"
)

const closeNormal = websocket.CloseNormalClosure

// batchSize is how many bytes a link gathers before it writes them.
const batchSize = 64 << 10

// session is one client of a node: one request, one credit, one cursor (N1).
type session struct {
	node *Node
	conn *conn
	ws   *websocket.Conn
	wake chan struct{}
	// asked is whether there is a get_blocks request.
	asked atomic.Bool

	mu     sync.Mutex
	req    ship.BlocksRequest
	credit uint32
	cursor uint32
	// fresh is true until something was sent for the request.
	fresh bool
	// update is that a node with keep-alives has something to tell.
	update bool
	// judged is the block whose faults were taken already, when isJudged.
	judged   uint32
	isJudged bool
	seen     view
	statuses []bool // true is v1
	pongs    []string
	bye      int // Close code to end with
	ended    bool

	// What follows is the writer's own.
	message, payload []byte
}

func newSession(n *Node, c *conn, ws *websocket.Conn) *session {
	s := &session{node: n, conn: c, ws: ws, wake: make(chan struct{}, 1), seen: n.observe().view, payload: []byte{}}
	ws.SetPingHandler(s.ping)
	ws.SetCloseHandler(s.closed)
	return s
}

// run serves the link until it ends.
func (s *session) run() {
	var reader sync.WaitGroup
	reader.Go(s.read)
	s.write()
	_ = s.conn.Close()
	reader.Wait()
}

func (s *session) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// do changes the state under the lock and wakes the writer.
func (s *session) do(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	s.poke()
}

func (s *session) sayBye(code int) { s.do(func() { s.bye = code }) }

func (s *session) ping(data string) error {
	s.node.pings.Add(1)
	s.do(func() { s.pongs = append(s.pongs, data) })
	return nil
}

// closed answers with the client's own code, without its reason, as nodeos does.
func (s *session) closed(code int, _ string) error {
	if code == websocket.CloseNoStatusReceived {
		code = closeNormal
	}
	s.sayBye(code)
	return nil
}

func (s *session) read() {
	for {
		_, msg, err := s.ws.ReadMessage()
		if err == nil {
			err = s.take(msg)
		}
		if err == nil {
			continue
		}
		// After a Close frame the writer still has to answer it. Anything else
		// ends the connection at once and without one (N6).
		var bye *websocket.CloseError
		if !errors.As(err, &bye) || bye.Code == websocket.CloseAbnormalClosure {
			_ = s.conn.Close()
		}
		s.do(func() { s.ended = true })
		return
	}
}

var errUnknownRequest = errors.New("unknown request")

func (s *session) take(msg []byte) error {
	var r ship.Request
	if err := ship.DecodeRequest(msg, &r); err != nil {
		return err
	}
	if !r.Known() || s.node.opt.V0Only && r.Variant >= ship.BlocksRequestV1 {
		return errUnknownRequest
	}
	switch r.Variant {
	case ship.AckRequestV0:
		s.node.acks.Add(1)
		s.do(func() { s.credit += r.Ack; s.update = true })
	case ship.StatusRequestV0, ship.StatusRequestV1:
		s.node.statuses.Add(1)
		s.do(func() { s.statuses = append(s.statuses, r.Variant == ship.StatusRequestV1) })
	default:
		s.node.requests.Add(1)
		o := s.node.observe()
		s.do(func() { s.ask(&r.Blocks, o.view) })
	}
	return nil
}

// ask replaces request, credit and cursor (N1, N2).
func (s *session) ask(q *ship.BlocksRequest, v view) {
	s.req, s.credit, s.cursor, s.seen = *q, q.MaxInFlight, q.Start, v
	for _, p := range q.Have {
		if p.Num < s.cursor && !(s.node.knows(p.Num, &v) && v.pos(p.Num) == p) {
			s.cursor = p.Num
		}
	}
	if s.node.opt.RaiseStart {
		s.cursor = max(s.cursor, s.node.opt.First)
	}
	s.fresh, s.update, s.isJudged = true, true, false
	s.req.Have = nil
	s.asked.Store(true)
}

// follow moves to a newer view. Applying a block below the cursor moves the
// cursor back to it (N4).
func (s *session) follow(v *view) {
	if n, ok := s.seen.firstNew(v); ok {
		s.cursor = min(s.cursor, n)
		s.update = true
	}
	s.seen = *v
}

func (s *session) write() {
	out := make([]byte, 0, batchSize)
	for {
		// Both are taken before the state is looked at, so no change is missed.
		chain, node := s.node.chain.next(), s.node.next()
		var last bool
		out, last = s.fill(out[:0])
		if len(out) > 0 {
			if err := s.send(out); err != nil {
				return
			}
		}
		if last {
			return
		}
		if len(out) > 0 {
			if cap(out) > 4*batchSize {
				out = make([]byte, 0, batchSize)
			}
			continue
		}
		select {
		case <-chain:
		case <-node:
		case <-s.wake:
		case <-s.conn.done:
			return
		}
	}
}

func (s *session) send(out []byte) error {
	if s.node.opt.OneQueue {
		select {
		case s.node.queue <- struct{}{}:
			defer func() { <-s.node.queue }()
		case <-s.conn.done:
			return errors.New("the connection is closed")
		}
	}
	_, err := s.conn.Write(out)
	return err
}

// fill appends what is to be sent now, at most about a batch. When it reports
// last the link ends after it.
func (s *session) fill(out []byte) (_ []byte, last bool) {
	if s.message == nil {
		out = appendFrame(out, true, opText, s.node.abi)
		s.message = make([]byte, 0, 1024)
	}
	o := s.node.observe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow(&o.view)
	for _, p := range s.pongs {
		out = appendFrame(out, true, opPong, []byte(p))
	}
	s.pongs = s.pongs[:0]
	if !o.mute {
		for _, v1 := range s.statuses {
			status := s.node.status(&o, v1)
			s.message = ship.AppendStatus(s.message[:0], &status)
			out = appendFrame(out, true, opBinary, s.message)
		}
		s.statuses = s.statuses[:0]
	}
	if s.asked.Load() && !o.stall && s.bye == 0 && !s.ended {
		head, lib := o.view.pos(o.view.head), o.view.pos(o.view.lib)
		for more := true; more && len(out) < batchSize; {
			if out, more, last = s.next(out, &o.view, head, lib); last {
				return out, true
			}
		}
	}
	if s.bye != 0 {
		return appendClose(out, s.bye), true
	}
	return out, s.ended
}

// next appends one block result, if one is due (N3).
func (s *session) next(out []byte, v *view, head, lib ship.Pos) (_ []byte, more, last bool) {
	gate := v.head
	if s.req.Irreversible {
		gate = v.lib
	}
	if s.credit == 0 {
		return out, false, false
	}
	r := ship.Block{BlockHeader: ship.BlockHeader{V1: s.req.V1, Head: head, LIB: lib}}
	if s.cursor > gate || s.cursor >= s.req.End {
		if !s.node.opt.KeepAlives || !s.update {
			return out, false, false
		}
		s.update = false
		return s.emit(out, &r), false, false
	}
	tear, badPrev := false, false
	if !s.isJudged || s.judged != s.cursor {
		s.judged, s.isJudged = s.cursor, true
		for _, f := range s.node.strike(s.cursor, s.fresh) {
			switch f.Kind {
			case Drop:
				return out, false, true
			case CloseLink:
				return appendClose(out, closeNormal), false, true
			case Tear:
				tear = true
			case Replay:
				s.cursor -= min(f.Count, max(s.cursor, 1)-1)
			case Jump:
				s.cursor += f.Count
			case BreakPrev:
				badPrev = true
			case Hasten:
				hasty := r
				s.describe(&hasty, v)
				hasty.Traces, hasty.Deltas = nil, nil
				out = s.emit(out, &hasty)
			case Garbage:
				out = appendFrame(out, true, opBinary, []byte("\x7fnothing that anybody knows"))
			}
		}
		if s.cursor != s.judged {
			s.fresh = false
			return out, true, false
		}
	}
	s.describe(&r, v)
	if badPrev {
		r.Prev.ID[31] ^= 1
	}
	before := len(out)
	out = s.emit(out, &r)
	if tear {
		return out[:before+(len(out)-before)/2], false, true
	}
	s.cursor++
	s.fresh, s.update = false, false
	return out, true, false
}

// describe fills in the block at the cursor, as far as the node has it.
func (s *session) describe(r *ship.Block, v *view) {
	n, q, o := s.cursor, &s.req, &s.node.opt
	if !s.node.knows(n, v) {
		return
	}
	r.HasThis, r.This = true, v.pos(n)
	if n > 1 && s.node.knows(n-1, v) {
		r.HasPrev, r.Prev = true, v.pos(n-1)
	}
	s.payload = s.payload[:0]
	field := func(want bool, begin uint32, f Field, size int) []byte {
		if !want || n < begin {
			return nil
		}
		at := len(s.payload)
		s.payload = AppendPayload(s.payload, f, r.This.ID, size)
		return s.payload[at:len(s.payload):len(s.payload)]
	}
	sizes := &s.node.chain.sizes
	r.Block = field(q.FetchBlock, o.First, FieldBlock, sizes.Block)
	r.Traces = field(q.FetchTraces, o.TraceBegin, FieldTraces, sizes.Traces)
	r.Deltas = field(q.FetchDeltas, o.StateBegin, FieldDeltas, sizes.Deltas)
	r.Finality = field(q.FetchFinality, o.FinalityBegin, FieldFinality, sizes.Finality)
}

func (s *session) emit(out []byte, r *ship.Block) []byte {
	s.credit--
	s.node.results.Add(1)
	s.message = ship.AppendBlock(s.message[:0], r)
	if s.node.opt.Whole {
		return appendFrame(out, true, opBinary, s.message)
	}
	return appendFragments(out, s.message, r)
}
