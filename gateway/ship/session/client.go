package session

import (
	"errors"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
	"flotilla/stages/forward"
)

// readClient reads the client until it is gone, or until the session has
// closed it and it has answered, or the time for that is over.
func (s *Session) readClient() {
	select {
	case <-s.served:
	case <-s.ended.Done():
	}
	var scratch []byte
	more := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.takeClient(&scratch)
	}
	if more() {
		// However it ends, the client is gone.
		_ = s.reader.Serve(more)
	}
}

// takeClient deals with all messages that have come. It reports whether to go
// on reading. What the messages add up to is sent upstream at the end.
func (s *Session) takeClient(scratch *[]byte) bool {
	s.refresh()
	defer s.flushLink()
	var m frame.Message // of this call, so that nothing keeps its buffer while the client is silent
	var came acks
	for {
		ok, err := s.reader.Next(&m)
		if err != nil {
			return s.refuseFrame(err)
		}
		if !ok {
			s.gather(&came)
			return true
		}
		switch m.Op {
		case frame.Close:
			s.answerClose(frame.CloseCode(m.Payload(nil)))
			return false
		case frame.Ping:
			came.others = true
			// A client that pings and does not read gets no more than a few.
			if s.out.Queued() < maxQueuedPongs {
				_ = s.out.WriteFrame(frame.Pong, m.Payload(nil))
			}
		case frame.Text, frame.Binary:
			if s.closed {
				continue
			}
			// Nodes do not look at the opcode of a request either.
			if m.Size > len(*scratch) {
				*scratch = make([]byte, m.Size)
			}
			s.takeMessage(m.Payload(*scratch))
			came.add(&s.x.Request, m.End-m.Start)
		}
	}
}

// answerClose answers a Close frame of the client, unless it is itself the
// answer to ours.
func (s *Session) answerClose(code int) {
	if s.closed {
		return
	}
	s.closeLocked(code, "")
	s.why = "the client closed"
}

// maxQueuedPongs is how many bytes may wait for a client that gets a pong.
const maxQueuedPongs = 64 << 10

// refuseFrame ends the session over a breach of the WebSocket protocol. It
// reports whether to go on reading: to let the Close frame arrive, the rest of
// what the client sends has to be read, but it means nothing any more.
func (s *Session) refuseFrame(err error) bool {
	var breach *frame.Error
	switch {
	case errors.Is(err, frame.ErrMessageTooLarge):
		s.closeLocked(frame.CloseTooLarge, "message exceeds max_client_message_bytes")
	case errors.As(err, &breach):
		s.closeLocked(breach.Code, breach.Reason)
	}
	s.reader.Discard()
	return true
}

// takeMessage takes one client message up through the stages.
func (s *Session) takeMessage(message []byte) {
	s.x.Cause, s.x.Message = pipeline.Received, message
	step := s.Pipeline.Up(&s.x)
	s.x.Message = nil
	if step.Do == pipeline.CloseClient {
		if step.Code == frame.CloseInvalid {
			s.Fleet.Stats.ProtocolErrors.Inc(fleet.Malformed)
		}
		s.closeLocked(int(step.Code), step.Reason)
		return
	}
	if step.Do == pipeline.Done {
		return
	}
	switch s.x.Request.Variant {
	case ship.StatusRequestV0, ship.StatusRequestV1:
		s.askStatus(s.x.Request.Variant == ship.StatusRequestV1)
	case ship.AckRequestV0:
		s.askAhead()
		if s.x.Credit == s.x.Request.Ack {
			// There was no credit: the upstream may owe something now.
			s.look()
		}
	case ship.BlocksRequestV0, ship.BlocksRequestV1:
		if s.stitched {
			s.restart()
		} else {
			s.relink()
		}
		s.look()
	default:
		s.Fleet.Stats.ProtocolErrors.Inc(fleet.UnknownVariant)
		s.sendPending()
	}
}

// relink does for a new request what the forward stage decided.
func (s *Session) relink() {
	switch s.x.Relink {
	case pipeline.SendRequest:
		s.sendRequest(false)
	case pipeline.Redial:
		s.purpose, s.seam = fleet.Initial, false
		s.link.leave(leftRedial)
	case pipeline.Move:
		s.Fleet.Stats.Reroutes.Add(1)
		s.tally.reroutes++
		s.purpose, s.seam = fleet.Reroute, false
		s.log().Info("a request goes to another upstream, which has its blocks", "start", s.x.Want.Start,
			"from", s.x.View.Upstreams[s.x.Current].Server.Name, "to", s.x.View.Upstreams[s.x.Pick].Server.Name)
		if s.link != nil {
			s.link.leave(leftMove)
			if s.link.left == leftRedial {
				s.link.left = leftMove
			}
		} else if s.cancelDial != nil {
			s.cancelDial()
		}
	}
	s.phase()
}

// phase sets the phase of a session that has a link.
func (s *Session) phase() {
	if s.link == nil {
		return
	}
	if s.x.Asked && !s.x.Finished() {
		s.move(fleet.Streaming)
	} else {
		s.move(fleet.Idle)
	}
}

// flushLink tells the upstream of the credit that has come together, when it
// wants to know.
func (s *Session) flushLink() {
	if s.link != nil && s.link.left == notLeft && forward.AckDue(&s.x) {
		s.link.sendAck(s.x.Ack)
		s.x.Ack = 0
	}
}

// sendRequest sends the request in force on the link. seam tells that it goes
// on where another link ended.
func (s *Session) sendRequest(seam bool) {
	q := forward.Build(&s.x)
	err := s.link.send(ship.AppendRequest(nil, &q))
	forward.Sent(&s.x, &q, seam)
	s.link.progress = time.Now()
	s.link.kept = false
	if err != nil {
		s.link.fail(sendFailure(s.link))
		return
	}
	s.log().Debug("asked an upstream", "server", s.x.View.Upstreams[s.link.upstream].Server.Name,
		"start", q.Start, "end", q.End, "credit", q.MaxInFlight, "positions", len(q.Have))
}

// sendFailure is how a link ends that does not take a request: a fresh one was
// never any good, another one has broken (S17).
func sendFailure(l *link) fleet.End {
	if l.framed {
		return fleet.EndUnclean
	}
	return fleet.EndSend
}

// sendPending sends the messages of unknown variants that wait for a link.
func (s *Session) sendPending() {
	if s.link == nil || s.link.left != notLeft {
		return
	}
	for _, message := range s.x.Pending {
		// A failure shows as the end of the stream.
		_ = s.link.send(message)
		s.x.UnknownAt = s.x.Now
	}
	s.x.Pending, s.x.PendingBytes = nil, 0
}
