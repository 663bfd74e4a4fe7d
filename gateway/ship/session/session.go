// Package session serves one SHiP client: it owns the client's connection and
// the link to an upstream, runs the pipeline for what comes from either side,
// and replaces the link when it fails.
//
// A session has two goroutines. One reads the client (client.go); the other
// finds an upstream, reads it, and finds the next (upstream.go, relay.go). The
// listener's ticker looks at it now and then (tick.go). What they share is
// guarded by one lock.
package session

import (
	"context"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship/frame"
	"flotilla/policies"
)

// Host is what the sessions of a listener have in common.
type Host struct {
	Fleet    *fleet.Fleet
	Pipeline *pipeline.Pipeline
	Log      *slog.Logger
	// Looks is when the listener has to look at its sessions.
	Looks *Looks
}

// Session is one client connection.
type Session struct {
	*Host
	logging sync.Once
	logger  *slog.Logger

	client *frame.Conn
	reader *frame.Reader
	out    *frame.Writer

	// ended is done when the session has to end, whoever wants it.
	ended context.Context
	end   context.CancelFunc
	// wake makes the upstream goroutine look again: the client's queue has
	// drained.
	wake chan struct{}
	// served is closed when the client has its ABI and is to be read.
	served chan struct{}

	// due is when the ticker has to look next, in nanoseconds of Host.Looks.
	due     atomic.Int64
	started time.Time
	// asked is when the client was last pinged while it is held, checked when it
	// was last looked whether it is still there.
	asked, checked time.Time

	mu sync.Mutex
	x  pipeline.Exchange
	// link is nil while there is none.
	link *link
	// cancelDial calls the dials in progress off, nil when there are none; the
	// session then picks anew.
	cancelDial context.CancelFunc
	// racers waits for the dials, those that have lost their race too.
	racers sync.WaitGroup
	state  fleet.SessionState
	// purpose is why the next link is dialed, seam whether it goes on where
	// another ended.
	purpose fleet.Purpose
	seam    bool
	// stitched: the fleet is range-split; leg and standby are about that.
	stitched bool
	leg      leg
	standby  *standby
	// parting is the link that was left last.
	parting *parting
	// redial is the upstream that the next link goes to again, or None.
	redial   int
	statuses statusQueue
	// gathering is nil until the client has streamed.
	gathering *gathering
	// abi is the fingerprint of the ABI that the client got.
	abi string
	// closed is set once the session is ending; code is that of the Close
	// frame that was sent, 0 for none.
	closed bool
	code   int
	why    string
	tally  tally
}

// tally is what the session's last log line tells.
type tally struct {
	results, failovers, handoffs, duplicates, keepAlives, reroutes, patched, bytes uint64
}

// New makes the session of a client whose handshake is over. early are bytes
// that came with the handshake, which New copies; headers are those
// of it that the policy wants.
func New(h *Host, id uint64, conn net.Conn, early []byte, headers map[string]string) *Session {
	c := frame.NewConn(conn)
	s := &Session{
		Host: h, client: c,
		reader: frame.NewReader(c, h.Fleet.Config().MaxClientMessage, true, early),
		out:    frame.NewWriter(c),
		wake:   make(chan struct{}, 1), served: make(chan struct{}),
		started: time.Now(), purpose: fleet.Initial, redial: pipeline.None,
	}
	s.x.Session = id
	s.x.Client = pipeline.Client{Address: policies.Host(conn.RemoteAddr()), Headers: headers}
	s.stitched = h.Fleet.Config().Stitched()
	s.x.Stitched = s.stitched
	s.x.Current, s.x.Pick, s.x.Soft = pipeline.None, pipeline.None, pipeline.None
	s.x.Retained, s.x.Standby = pipeline.None, pipeline.None
	s.x.Link.Upstream = pipeline.None
	s.due.Store(math.MaxInt64)
	s.out.OnDrain = s.nudge
	// A client that is reset may show in a write only.
	c.ReadOnce()
	s.out.OnError = func() { _ = c.SetReadDeadline(time.Unix(1, 0)) }
	s.ended, s.end = context.WithCancel(context.Background())
	return s
}

// log names the session in each line. It is made for the first one, as most
// sessions have nothing to tell before they end.
func (s *Session) log() *slog.Logger {
	s.logging.Do(func() { s.logger = s.Log.With("session", s.x.Session, "client", s.client.RemoteAddr().String()) })
	return s.logger
}

// Run serves the client until it leaves or the session has to close it. It
// returns when all of the session is over.
func (s *Session) Run() {
	defer s.end()
	s.setPhase(fleet.Dialing)
	s.look()
	s.log().Debug("a client is connected")
	var upstream sync.WaitGroup
	if s.stitched {
		upstream.Go(s.stitch)
	} else {
		upstream.Go(s.serve)
	}
	s.readClient()
	s.finish(0, "the client is gone")
	upstream.Wait()
	if s.gathering != nil {
		s.gathering.end()
	}
	// The answer to a Close may still be queued.
	_ = s.client.SetWriteDeadline(time.Now().Add(linger))
	s.out.Wait()
	s.client.Close()
	s.reader.Release()
	s.move("")
	s.Fleet.Stats.Closed(s.code)
	s.log().Info("a session ended", "reason", s.why, "code", s.code, "results", s.tally.results, "failovers", s.tally.failovers, "handoffs", s.tally.handoffs,
		"duplicates", s.tally.duplicates, "keepalives", s.tally.keepAlives, "reroutes", s.tally.reroutes, "patched", s.tally.patched,
		"duration", time.Since(s.started).Round(time.Millisecond))
}

// ShutDown closes the client with 1001.
func (s *Session) ShutDown() { s.Close(frame.CloseGoingAway, "server shutting down") }

// Kill ends the session at once, without a Close frame.
func (s *Session) Kill() {
	s.finish(0, "killed")
	s.client.Close()
}

// Close ends the session with a Close frame. Only the first call counts.
func (s *Session) Close(code int, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked(code, reason)
}

// linger is how long the session waits for the client to take the Close frame
// and answer it. Closing a socket with unread input at once would reset it, and
// the reset can overtake the frame.
const linger = time.Second

// closeLocked sends a Close frame and begins the end of the session: the
// client's goroutine waits for the client to go, for a moment.
func (s *Session) closeLocked(code int, reason string) {
	if s.closed {
		return
	}
	s.endLocked(code, reason)
	// A failure means that the client is gone, which is where this leads.
	_ = s.out.WriteFrame(frame.Close, frame.ClosePayload(code, reason))
	s.out.Finish()
	_ = s.client.SetReadDeadline(time.Now().Add(linger))
}

// finish begins the end of the session without a Close frame.
func (s *Session) finish(code int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(code, why)
}

func (s *Session) endLocked(code int, why string) {
	if s.closed {
		return
	}
	s.closed, s.code, s.why = true, code, why
	if s.gathering != nil {
		s.gathering.stop()
	}
	s.end()
	if s.link != nil {
		s.link.leave(leftClosed)
	}
}

// move counts the session into another phase. The lock need not be held by the
// last call.
func (s *Session) move(to fleet.SessionState) {
	s.Fleet.Stats.Move(s.state, to)
	s.state = to
}

// refresh gives the exchange the present view and time.
func (s *Session) refresh() {
	s.x.View = s.Fleet.View()
	s.x.Tip = s.Fleet.Pair()
	s.x.Now = time.Now()
}

// nudge makes the upstream goroutine look at the client's queue again.
func (s *Session) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
