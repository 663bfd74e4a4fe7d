package session

import (
	"errors"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
	"flotilla/stages/forward"
)

// batch is what one read of a link brought for the client: places in the
// reader's buffer. Neighbours are joined, so that all of them mostly go out in
// one system call.
type batch struct {
	spans []span
	// results is how many of them are not accounted for yet.
	results uint64
}

// table is where a session takes a result apart. Sessions share them, as each
// needs one only while it looks at what one read has brought.
type table struct {
	result pipeline.Result
	head   [ship.HeaderSize]byte
	cursor frame.Cursor
}

// tables are those that nobody uses. It is no sync.Pool, which a collection
// empties: whoever makes a table waits for the collector, with a buffer in hand.
var tables = make(chan *table, 64)

func takeTable() *table {
	select {
	case t := <-tables:
		return t
	default:
		return new(table)
	}
}

// clear gives the table back, with nothing on it that would be kept from the
// garbage collector.
func (t *table) clear() {
	t.cursor.Done()
	select {
	case tables <- t:
	default:
	}
}

// span is a part of the reader's buffer or, where a message had to be made
// anew, a frame of its own.
type span struct {
	start, end int
	own        []byte
}

func (b *batch) add(m *frame.Message) {
	if n := len(b.spans); n > 0 && b.spans[n-1].end == m.Start && b.spans[n-1].own == nil {
		b.spans[n-1].end = m.End
		return
	}
	b.spans = append(b.spans, span{start: m.Start, end: m.End})
}

// relay passes on what the link brings until it ends. It returns how it ended
// on the upstream's side; what the session gave it up for is in link.left.
func (s *Session) relay(l *link) fleet.End {
	b := batch{spans: make([]span, 0, 4)}
	var end fleet.End
	more := func() bool {
		end = s.passOn(l, &b)
		return end == ""
	}
	// Something may have come with the ABI already.
	if more() && l.Reader.Serve(more) != nil {
		return fleet.EndUnclean
	}
	return end
}

// passOn passes on what has come on the link. It returns "" while the link goes
// on.
func (s *Session) passOn(l *link, b *batch) fleet.End {
	b.spans = b.spans[:0]
	s.mu.Lock()
	err := s.judge(l, b)
	over := l.left == leftLeg
	if len(b.spans) > 0 {
		// The client's side is taken before the session is let go, so that
		// a status answered in between cannot overtake these results.
		s.out.Lock()
		s.mu.Unlock()
		s.write(l, b.spans)
		s.out.Unlock()
	} else {
		s.mu.Unlock()
	}
	switch {
	case errors.Is(err, frame.ErrMessageTooLarge):
		s.tooLarge()
		return fleet.EndUnclean
	case err != nil:
		return fleet.EndUnclean
	case l.closing, over:
		return fleet.EndClean
	}
	if s.out.Queued() > s.Fleet.Config().ClientBuffer {
		s.mu.Lock()
		l.leave(leftSlow)
		s.mu.Unlock()
		return fleet.EndClean
	}
	return ""
}

// write passes a batch on. The caller has locked the client's side.
func (s *Session) write(l *link, spans []span) {
	for _, sp := range spans {
		// A failure shows as the end of the client's stream.
		if sp.own != nil {
			_ = s.out.WriteLocked(sp.own)
		} else {
			_ = s.out.WriteLocked(l.Reader.Bytes(sp.start, sp.end))
		}
	}
}

// judge deals with all whole messages that have come on the link. Its error is
// a breach of the WebSocket protocol, or ErrMessageTooLarge.
func (s *Session) judge(l *link, b *batch) error {
	if l.left != notLeft {
		return nil
	}
	s.refresh()
	t := takeTable()
	defer t.clear()
	var m frame.Message
	var seen, data bool
	for {
		ok, err := l.Reader.Next(&m)
		if err != nil {
			s.account(l, b)
			return err
		}
		if !ok {
			break
		}
		seen = true
		switch m.Op {
		case frame.Binary:
			data = true
			s.takeResult(l, &m, b, t)
		case frame.Ping:
			data = true
			_ = l.Writer.WriteMasked(frame.Pong, m.Payload(nil))
		case frame.Pong:
			data = data || string(m.Payload(nil)) != string(pingPayload)
		case frame.Close:
			data, l.closing = true, true
			_ = l.Writer.WriteMasked(frame.Close, m.Payload(nil))
		default:
			data = true
		}
		if l.left != notLeft || l.short && s.x.Link.Cursor >= s.x.Link.End {
			break
		}
	}
	if seen {
		l.framed = true
		l.ping.Store(0)
		l.probed.Store(false)
	}
	if data || l.Reader.Buffered() > 0 {
		l.data.Store(int64(l.LastRead().Sub(l.opened)))
	}
	s.account(l, b)
	if s.stitched && seen && !s.closed {
		s.advance(l)
	}
	s.flushLink()
	return nil
}

// account counts what goes to the client.
func (s *Session) account(l *link, b *batch) {
	var bytes uint64
	for _, sp := range b.spans {
		bytes += uint64(sp.end - sp.start + len(sp.own))
	}
	if bytes > 0 {
		live := s.x.View.Upstreams[l.upstream].Live
		live.Bytes.Add(bytes)
		live.Blocks.Add(b.results)
		s.tally.bytes += bytes
		s.tally.results += b.results
		b.results = 0
	}
}

// takeResult deals with one message of the upstream (spec "ship" 1.6).
func (s *Session) takeResult(l *link, m *frame.Message, b *batch, t *table) {
	head := m.Head(t.head[:0])
	r := &t.result
	*r = pipeline.Result{Size: m.Size}
	status := len(head) > 0 && ship.IsStatus(head[0], m.Size)
	if status || !ship.DecodeBlockHeader(head, &r.BlockHeader) {
		s.takeOther(l, m, b, status)
		return
	}
	if !s.x.Link.Frozen && !(r.Head.Is(&l.head) && r.LIB.Is(&l.lib)) {
		l.head, l.lib = r.Head, r.LIB
		s.Fleet.Observe(s.x.View, l.upstream, &r.Head, &r.LIB)
	}
	t.cursor.Read(m)
	var ok bool
	if r.Parts, ok = ship.ReadParts(m.Whole(), &t.cursor, m.Size, &r.BlockHeader); !ok {
		// What cannot be read is whole for a live node, and nothing for an archive.
		whole := !s.x.Link.Frozen
		r.Parts = ship.Parts{Block: true, Traces: whole, Deltas: whole, Finality: whole}
	}
	if s.x.Link.Frozen && s.withoutBlock(l, r) {
		return
	}
	step := s.Pipeline.Down(&s.x, r)
	l.progress, l.kept = s.x.Now, false
	switch step.Do {
	case pipeline.Done:
		if s.x.Link.Requested {
			s.Fleet.Stats.Duplicates.Add(1)
			s.tally.duplicates++
		}
	case pipeline.EndLink:
		if r.Violation != "" {
			s.breached(l, r.Violation)
			return
		}
		s.log().Warn("an upstream sent a result that must not be passed on", "server", s.x.View.Upstreams[l.upstream].Server.Name,
			"why", step.End(), "block", s.x.Cursor, "got", r.Num)
		l.fail(step.End())
	case pipeline.CloseClient:
		// What was passed on before goes first.
		s.account(l, b)
		s.out.Lock()
		s.write(l, b.spans)
		s.out.Unlock()
		b.spans = b.spans[:0]
		s.closeLocked(int(step.Code), step.Reason)
	default:
		s.pass(l, m, b, r, head)
	}
}

// takeOther deals with a message that is no block result (1.6). In a pool the
// client may know what the gateway does not.
func (s *Session) takeOther(l *link, m *frame.Message, b *batch, status bool) {
	switch {
	case s.x.Link.Frozen:
		s.breached(l, fleet.ViolationVariant)
	case s.stitched:
	case status:
		s.takeStatusResult(l, m.Payload(nil))
	default:
		b.add(m)
	}
}

// breached leaves an archive that has sent what it must not.
func (s *Session) breached(l *link, v fleet.Violation) {
	u := &s.x.View.Upstreams[l.upstream]
	u.Live.Violations.Inc(v)
	s.log().Warn("an archive broke its contract; what it sent is not passed on", "server", u.Server.Name, "kind", v, "block", s.x.Cursor)
	l.fail(fleet.EndViolation)
}

// pass sends a result on to the client and counts it.
func (s *Session) pass(l *link, m *frame.Message, b *batch, r *pipeline.Result, head []byte) {
	stats, live := s.Fleet.Stats, s.x.View.Upstreams[l.upstream].Live
	if r.Patched {
		ship.SetTip(head, &r.Head, &r.LIB)
		m.SetHead(head[:ship.PatchSize])
		stats.Patched.Add(1)
		s.tally.patched++
	}
	if r.FillPrev {
		payload := ship.InsertPrev(m.Payload(nil), &r.Prev)
		b.spans = append(b.spans, span{own: frame.Append(nil, frame.Binary, payload)})
		live.PrevFilled.Add(1)
	} else {
		b.add(m)
	}
	if s.leg.timed {
		s.leg.timed = false
		stats.HandoffLatency.Observe(s.x.Now.Sub(s.leg.since).Seconds())
	}
	b.results++
	if r.Kind == pipeline.KeepAlive {
		stats.KeepAlives.Add(1)
		s.tally.keepAlives++
	}
	if r.Uncredited {
		stats.CreditOverruns.Add(1)
	}
	if r.Fork {
		stats.ForkRedeliveries.Add(1)
	}
	if r.Jump {
		live.Jumps.Add(1)
		s.log().Warn("a stream skips blocks that no upstream has", "server", s.x.View.Upstreams[l.upstream].Server.Name, "block", r.Num)
	}
	if r.Broken {
		s.log().Error("a block does not follow the last one and is passed on, as no other upstream has a better one",
			"server", s.x.View.Upstreams[l.upstream].Server.Name, "block", r.Num, "prev", r.Prev.ID)
		forward.Lift(&s.x)
	}
	if s.x.Finished() {
		s.phase()
	}
}

// tooLarge ends the session over an upstream message above the limit.
func (s *Session) tooLarge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Fleet.Stats.TooLarge.Add(1)
	s.closeLocked(frame.CloseUnexpected, blockText(s.x.Cursor)+" exceeds max_message_bytes")
}
