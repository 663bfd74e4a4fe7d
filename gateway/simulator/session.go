package simulator

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"flotilla/gateway/ship"
)

const closeNormal = websocket.CloseNormalClosure

// batchSize is how many bytes a link gathers before it writes them.
const batchSize = 64 << 10

// session is one client of a node: one request, one credit, one cursor (N1).
type session struct {
	node  *Node
	conn  *conn
	ws    *websocket.Conn
	wake  chan struct{}
	began time.Time
	// asked is whether there is a get_blocks request, spoke any request.
	asked, spoke atomic.Bool

	mu     sync.Mutex
	req    ship.BlocksRequest
	credit uint32
	cursor uint32
	// fresh is true until something was sent for the request.
	fresh bool
	// update is that a node with keep-alives has something to tell.
	update   bool
	trouble  trouble
	seen     view
	statuses []bool // true is v1
	pongs    []string
	bye      int // Close code to end with
	ended    bool

	// What follows is the writer's own.
	greeted          bool
	message, payload []byte
}

func newSession(n *Node, c *conn, ws *websocket.Conn, g greeting) *session {
	s := &session{
		node: n, conn: c, ws: ws, wake: make(chan struct{}, 1), began: time.Now(), seen: n.observe().view,
		trouble: trouble{greeting: g}, payload: []byte{},
	}
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
	switch code {
	case closeNormal:
		s.node.closes.Add(1)
	case websocket.CloseNoStatusReceived:
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
	s.spoke.Store(true)
	switch r.Variant {
	case ship.AckRequestV0:
		s.node.acks.Add(1)
		s.do(func() { s.credit += r.Ack; s.update = true })
	case ship.StatusRequestV0, ship.StatusRequestV1:
		s.node.statuses.Add(1)
		s.do(func() { s.statuses = append(s.statuses, r.Variant == ship.StatusRequestV1) })
	default:
		s.node.remember(&r.Blocks)
		o := s.node.observe()
		s.do(func() { s.ask(&r.Blocks, &o) })
	}
	return nil
}

// ask replaces request, credit and cursor (N1, N2).
func (s *session) ask(q *ship.BlocksRequest, o *observation) {
	s.req, s.credit, s.cursor, s.seen = *q, q.MaxInFlight, q.Start, o.view
	for _, p := range q.Have {
		if !s.node.isArchive() && p.Num < s.cursor && !(o.knows(p.Num) && o.view.pos(p.Num) == p) {
			s.cursor = p.Num
		}
	}
	if s.node.opt.RaiseStart {
		s.cursor = max(s.cursor, o.logs.first())
	}
	s.fresh, s.update = true, true
	s.trouble.judged, s.trouble.twist = [moments]judged{}, twist{}
	s.req.Have = nil
	s.asked.Store(true)
}

// follow moves to a newer view. Applying a block below the cursor moves the
// cursor back to it (N4); an archive applies none.
func (s *session) follow(v *view) {
	if n, ok := s.seen.firstNew(v); ok && !s.node.isArchive() {
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
		var err error
		if len(out) > 0 {
			err = s.send(out)
		}
		if then := s.trouble.then; then != nil {
			s.trouble.then = nil
			then()
		}
		if last || err != nil {
			return
		}
		if len(out) > 0 {
			if cap(out) > 4*batchSize {
				out = make([]byte, 0, batchSize)
			}
			continue
		}
		if !s.sleep(chain, node) {
			return
		}
	}
}

// sleep waits for something to do; it returns false when the connection ends.
func (s *session) sleep(chain, node <-chan struct{}) bool {
	var alarm <-chan time.Time
	s.mu.Lock()
	at := s.alarm()
	s.mu.Unlock()
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-chain:
	case <-node:
	case <-s.wake:
	case <-alarm:
	case <-s.conn.done:
		return false
	}
	return true
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
	o := s.node.observe()
	s.mu.Lock()
	defer s.mu.Unlock()
	t, now := &s.trouble, time.Now()
	t.pass(now)
	age := now.Sub(s.began)
	if t.idle > 0 && age >= t.idle && !s.spoke.Load() {
		if !t.mute {
			return out, true
		}
		t.silent = true
	}
	if t.silent || !s.greeted && (t.noABI || age < t.abiLate) {
		return out, s.ended
	}
	if !s.greeted {
		out = appendFrame(out, true, opText, t.abi)
		s.greeted, s.message = true, make([]byte, 0, 1024)
	}
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
		r := ship.Block{BlockHeader: ship.BlockHeader{V1: s.req.V1, Head: o.view.pos(o.view.head), LIB: o.view.pos(o.view.lib)}}
		for more := true; more && len(out) < batchSize; {
			if out, more, last = s.next(out, &o, &r); last {
				return out, true
			}
		}
	}
	if s.bye != 0 {
		return appendClose(out, s.bye), true
	}
	return out, s.ended
}

// next appends one block result, if one is due (N3). r is one without a block.
func (s *session) next(out []byte, o *observation, r *ship.Block) (_ []byte, more, last bool) {
	if s.trouble.resting() {
		return out, false, false
	}
	gate := o.view.head
	if s.req.Irreversible {
		gate = o.view.lib
	}
	m := due
	switch {
	case s.cursor > gate || s.cursor >= s.req.End:
		m = past
	case s.credit == 0:
		m = broke
	}
	if m == past && s.credit == 0 {
		return out, false, false
	}
	out, fate := s.suffer(m, out, o, r)
	switch {
	case fate == moved:
		return out, true, false
	case fate != goesOn:
		return out, false, fate == ends
	case m == past && s.node.opt.KeepAlives && s.update && s.credit > 0:
		s.update = false
		return s.emit(out, r, twist{}), false, false
	case m != due || s.credit == 0: // a fault may have taken the last credit
		return out, false, false
	}
	before, tear := len(out), s.trouble.twist.tear
	out = s.sendBlock(out, o, r)
	if tear {
		return out[:before+(len(out)-before)/2], false, true
	}
	return out, true, false
}

// sendBlock appends the result of the block at the cursor and moves on. r is
// one without a block.
func (s *session) sendBlock(out []byte, o *observation, r *ship.Block) []byte {
	block, t := *r, &s.trouble
	s.describe(&block, o)
	out = s.emit(out, &block, t.twist)
	s.cursor++
	s.fresh, s.update, t.twist = false, false, twist{}
	if t.pace > 0 {
		t.notBefore = time.Now().Add(t.pace)
	}
	return out
}

// describe fills in the block at the cursor, as far as the node has it.
func (s *session) describe(r *ship.Block, o *observation) {
	n, q := s.cursor, &s.req
	if !o.knows(n) {
		return
	}
	r.HasThis, r.This = true, o.view.pos(n)
	if n > 1 && o.knows(n-1) {
		r.HasPrev, r.Prev = true, o.view.pos(n-1)
	}
	s.payload = s.payload[:0]
	field := func(want bool, log ship.Range, f Field, size int) []byte {
		if !want || !log.Contains(n) {
			return nil
		}
		at := len(s.payload)
		s.payload = AppendPayload(s.payload, f, r.This.ID, size)
		return s.payload[at:len(s.payload):len(s.payload)]
	}
	sizes := &s.node.chain.sizes
	r.Block = field(q.FetchBlock, o.logs.Block, FieldBlock, sizes.Block)
	r.Traces = field(q.FetchTraces, o.logs.Trace, FieldTraces, sizes.Traces)
	r.Deltas = field(q.FetchDeltas, o.logs.State, FieldDeltas, sizes.Deltas)
	r.Finality = field(q.FetchFinality, o.logs.Finality, FieldFinality, sizes.Finality)
}

// emit appends a block result, wrong as w says, at the cost of one credit.
func (s *session) emit(out []byte, r *ship.Block, w twist) []byte {
	if w != (twist{}) {
		w.apply(r)
	}
	s.credit -= min(s.credit, 1)
	s.node.results.Add(1)
	s.message = ship.AppendBlock(s.message[:0], r)
	if w.truncate {
		return appendFrame(out, true, opBinary, s.message[:len(s.message)-1])
	}
	if s.node.opt.Whole {
		return appendFrame(out, true, opBinary, s.message)
	}
	return appendFragments(out, s.message, r)
}
