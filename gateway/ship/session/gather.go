package session

import (
	"sync"
	"time"

	"flotilla/gateway/ship"
	"flotilla/stages/forward"
)

// A client that acks each block of a fast stream would wake the session for each
// of them, although only every so many are told to the upstream. Its acks are
// left to come together in the kernel (frame.Conn.WaitFor) while they come fast
// and nothing else does.
const (
	// gatherTime is the time in which acks may come together, so that no credit is
	// held back for longer.
	gatherTime = 500 * time.Microsecond
	// guardTime is how often it is looked whether the acks still come. Whatever else
	// the client sends waits so long, twice at most, if it is shorter than the acks.
	guardTime = 5 * time.Millisecond
	// firstReads is how many reads in a row have to bring nothing but acks, each
	// within gatherTime of the one before. It doubles up to maxReads with each time
	// that the acks stop, and halves with each that they go on for as long.
	firstReads, maxReads = 16, 1 << 12
	// few acks may come together even if they bring more than half a window.
	few = 3
	// maxGathered bounds what is left to the kernel, in bytes.
	maxGathered = 4096
)

// acks are those that one read of the client has brought.
type acks struct {
	n, bytes int
	credit   uint64
	// others: something else came too.
	others bool
}

// add counts a message of so many bytes on the wire.
func (a *acks) add(q *ship.Request, size int) {
	if q.Variant != ship.AckRequestV0 {
		a.others = true
		return
	}
	a.n++
	a.bytes += size
	a.credit += uint64(q.Ack)
}

// gathered is the connection whose acks come together.
type gathered interface {
	WaitFor(bytes int) bool
	LastRead() time.Time
}

// gathering is how the acks of a client come that streams. Its methods want mu to
// be held, which is the session's lock.
type gathering struct {
	mu     sync.Locker
	client gathered
	// waits is how many bytes are to come together, 0 for none.
	waits int
	// reads of late have brought the acks, from since to last.
	reads       int
	wants       int // how many reads tell how fast acks come; 0 is firstReads
	acks        acks
	since, last time.Time
	guard       *time.Timer
	// seen is when the client was last read, as the guard saw it.
	seen time.Time
	// turn counts how often the guard was set up; armed waits for all of them.
	turn  int
	armed sync.WaitGroup
}

// took decides after each read of the client whether its acks are to come
// together in a window of so much credit, 0 for none.
func (g *gathering) took(a *acks, window uint32, now time.Time) {
	if a.others || window == 0 {
		g.begin(now)
		g.stop()
		return
	}
	if !g.saw(a, now) {
		return
	}
	n := g.bytesFor(window)
	g.begin(now)
	if g.waits > 0 {
		g.wants /= 2
	}
	switch {
	case n == 0:
		g.stop()
	case n > g.waits*3/4 && n < g.waits*5/4:
		// It is not worth a system call.
	case g.client.WaitFor(n):
		if g.waits == 0 {
			g.seen = g.client.LastRead()
			g.armed.Add(1)
			g.turn++
			turn := g.turn
			g.guard = time.AfterFunc(guardTime, func() { g.look(turn) })
		}
		g.waits = n
	}
}

// begin forgets what was seen until now.
func (g *gathering) begin(now time.Time) { g.reads, g.acks, g.since, g.last = 0, acks{}, now, now }

// saw takes in the acks that a read has brought, and reports whether by now it is
// known how fast they come. Fewer reads than the wanted ones, or pauses that are
// longer than acks may wait, tell nothing.
func (g *gathering) saw(a *acks, now time.Time) bool {
	pause := gatherTime
	if g.waits > 0 {
		pause = guardTime
	}
	if a.n == 0 || now.Sub(g.last) > pause {
		g.begin(now)
		return false
	}
	g.reads++
	g.acks.n += a.n
	g.acks.bytes += a.bytes
	g.acks.credit += a.credit
	g.last = now
	return g.reads >= max(g.wants, firstReads)
}

// bytesFor is how many bytes of acks like those of late may come together in a
// window of credit: those that bring half of it, or a few that bring more. One at
// least has to be left that still comes when the upstream has spent all its credit.
// Less than two acks are not worth it.
func (g *gathering) bytesFor(window uint32) int {
	a := &g.acks
	took := max(g.last.Sub(g.since), 1)
	fits := uint64(window) * uint64(a.n) / max(a.credit, 1)
	n := min(max(fits/2, few), max(fits, 1)-1, uint64(a.n)*uint64(gatherTime)/uint64(took), maxGathered)
	if n < 2 {
		return 0
	}
	return min(int(n)*a.bytes/a.n, maxGathered)
}

// stop has the client's messages read as they come again.
func (g *gathering) stop() {
	if g.waits == 0 {
		return
	}
	g.waits = 0
	// A failure means that the client is gone, which makes it readable too.
	g.client.WaitFor(1)
	if g.guard.Stop() {
		g.armed.Done()
	}
}

// look stops waiting for acks that do not come.
func (g *gathering) look(turn int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turn == turn && g.waits > 0 {
		if last := g.client.LastRead(); last != g.seen {
			g.seen = last
			g.guard.Reset(guardTime)
			return
		}
		g.wants = min(2*max(g.wants, firstReads), maxReads)
		g.stop()
	}
	g.armed.Done()
}

// end stops it for good and waits for its timer. The lock must not be held.
func (g *gathering) end() {
	g.mu.Lock()
	g.stop()
	g.mu.Unlock()
	g.armed.Wait()
}

// gather takes in the acks of a read. The caller holds the lock.
func (s *Session) gather(a *acks) {
	window := forward.Gatherable(&s.x)
	if s.closed {
		window = 0
	}
	if s.gathering == nil {
		if window == 0 {
			return
		}
		// Not before it streams: it is not for the many that are idle.
		s.gathering = &gathering{mu: &s.mu, client: s.client}
	}
	s.gathering.took(a, window, s.x.Now)
}
