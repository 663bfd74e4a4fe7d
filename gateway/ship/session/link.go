package session

import (
	"context"
	"sync/atomic"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/ship/frame"
	"flotilla/stages/forward"
)

// left is why the session itself gave up a link; the zero value is that it did
// not, so that an end of the stream is the upstream's doing.
type left int

const (
	notLeft left = iota
	// leftClosed: the session is over.
	leftClosed
	// leftRedial: a new request wants a fresh link to the same upstream.
	leftRedial
	// leftMove: a new request goes to another upstream.
	leftMove
	// leftFailed: the session found the upstream at fault; why is the End.
	leftFailed
	// leftSlow: the client does not take what it is sent.
	leftSlow
	// leftLeg: the leg on it is over, or is not wanted any more.
	leftLeg
)

// link is one connection to an upstream. Its times are read without the
// session's lock; everything else needs it.
type link struct {
	*dial.Node
	upstream int

	// left and failed say why the session gave it up.
	left   left
	failed fleet.End

	// opened is when it came up; the times below count from it. 0 is never.
	opened time.Time
	// data is when bytes came that are more than the answer to our ping.
	data atomic.Int64
	// ping is when the ping was sent that nothing has come after.
	ping atomic.Int64

	// head and lib are those of its last result.
	head, lib ship.Pos

	progress time.Time
	lost     time.Time // since when the monitor has the upstream offline
	probed   atomic.Bool
	kept     bool // the stall was warned of
	owed     bool
	closing  bool // the upstream has sent a Close frame; its reader's own
	framed   bool // something came on it
	standby  bool // it stood by before it was needed
	// asked is the request that was sent on it while it stood by; nil for none.
	asked *ship.BlocksRequest
	// blockless: an archive has sent a result on it that lacks the block.
	blockless bool
	// short: it was asked for more than what is taken from it.
	short   bool
	relayed []relayed
}

func newLink(n *dial.Node, upstream int) *link {
	now := time.Now()
	return &link{Node: n, upstream: upstream, opened: now, progress: now}
}

func (l *link) since() int64 { return int64(time.Since(l.opened)) }

// clock is the times that the silence rules want.
func (l *link) clock() forward.Clock {
	at := func(v int64) time.Time {
		if v == 0 {
			return time.Time{}
		}
		return l.opened.Add(time.Duration(v))
	}
	return forward.Clock{
		Byte: l.LastRead(), Data: at(l.data.Load()), Progress: l.progress,
		Ping: at(l.ping.Load()), Lost: l.lost, Probed: l.probed.Load(),
	}
}

// leave gives the link up; its reader notices at once. The first reason stays.
// The upstream gets a Close frame if it takes one without delay.
func (l *link) leave(why left) {
	if l.left != notLeft {
		return
	}
	l.left = why
	// The upstream may be dead; then nothing is lost.
	_ = l.Writer.WriteMasked(frame.Close, frame.ClosePayload(frame.CloseNormal, ""))
	_ = l.SetReadDeadline(time.Unix(1, 0))
}

// partTime is how long an upstream has to take a Close frame and answer it.
const partTime = time.Second

// part closes a link that was left, once the upstream has seen why: what it had
// sent on the way would turn an immediate close into a reset, which can overtake
// the Close frame.
func part(l *link) {
	if l.SetReadDeadline(time.Now().Add(partTime)) == nil {
		l.Reader.Discard()
		for l.Reader.Fill() == nil {
			l.Reader.Discard()
		}
	}
	l.Reader.Release()
	l.Node.Close()
}

// parting is a link that the session has left and that its upstream may count
// among its sessions until done is closed.
type parting struct {
	upstream int
	done     chan struct{}
}

// partLater parts with a link in the background.
func (s *Session) partLater(l *link) {
	p := &parting{l.upstream, make(chan struct{})}
	s.mu.Lock()
	s.parting = p
	s.mu.Unlock()
	s.racers.Go(func() {
		defer close(p.done)
		part(l)
	})
}

// parted waits until upstream i, if it has a limit of sessions, does not count
// the link that the session has just left any more.
func (s *Session) parted(ctx context.Context, i int) {
	s.mu.Lock()
	p := s.parting
	s.mu.Unlock()
	if p == nil || p.upstream != i || s.Fleet.View().Upstreams[i].Server.MaxSessions == 0 {
		return
	}
	select {
	case <-p.done:
	case <-ctx.Done():
	}
}

// fail gives the link up because of the upstream.
func (l *link) fail(end fleet.End) {
	if l.left == notLeft {
		l.failed = end
	}
	l.leave(leftFailed)
}

// send sends one message to the upstream.
func (l *link) send(message []byte) error {
	return l.Writer.WriteMasked(frame.Binary, message)
}

// pingPayload tells the answers to our pings from pongs that nobody asked for.
var pingPayload = []byte("flotilla-liveness")

// sendPing asks the upstream for a sign of life.
func (l *link) sendPing() {
	l.ping.Store(max(l.since(), 1))
	// A failure shows as the end of the stream.
	_ = l.Writer.WriteMasked(frame.Ping, pingPayload)
}

// sendAck gives the upstream credit.
func (l *link) sendAck(n uint32) {
	var message [5]byte
	// A failure shows as the end of the stream.
	_ = l.send(ship.AppendAck(message[:0], n))
}
