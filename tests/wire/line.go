package wire

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"time"
)

// Shape is how one direction of a link carries what is written. The zero value
// carries it at once and whole.
type Shape struct {
	// Latency is how long each byte is under way. Jitter adds up to as much
	// again, at random for each write; bytes never overtake each other.
	Latency, Jitter time.Duration
	// Bandwidth is bytes a second, 0 is no limit.
	Bandwidth int
	// Slices are the sizes of the pieces that the stream is cut into, in turn
	// and then from the front again; all are above 0. No read goes beyond the
	// end of a piece. Nil does not cut.
	Slices []int
}

// capacity is how many bytes are under way in one direction at most, as in the
// buffers of two sockets.
const capacity = 256 << 10

// packet is the most bytes that arrive at one moment where the bandwidth is
// limited.
const packet = 4 << 10

// never is the offset of a reset that is not due.
const never = -1

// Line is one direction of a Link.
type Line struct {
	link *Link
	rng  *rand.Rand
	// changed is closed at the next change; nil while nobody waits.
	changed chan struct{}

	shape Shape
	// left are the bytes up to the next cut, next is the slice behind it.
	left, next int
	// free is when the bandwidth lets the next byte go, last when the newest
	// one arrives.
	free, last time.Time

	pieces []piece
	// held is the room that is taken: by the pieces, and by what was lost.
	held int
	// got counts the bytes that were read; at resetAt of them the link is
	// reset.
	got, resetAt int64
	// end is when the end of the stream arrives; zero while there is none.
	end time.Time

	// finished is that the end was made here: what is written vanishes.
	lost, stalled, finished bool
	readerGone, writerGone  bool
	writing                 bool
	readBy, writeBy         time.Time
}

// piece is bytes that arrive at one moment. A read ends behind it if it is cut.
type piece struct {
	bytes []byte
	at    time.Time
	cut   bool
}

func newLine(l *Link, rng *rand.Rand) *Line { return &Line{link: l, rng: rng, resetAt: never} }

// change changes the line under its lock and wakes whoever waits for it.
func (l *Line) change(f func()) {
	l.link.mu.Lock()
	defer l.link.mu.Unlock()
	f()
	l.announce()
}

// Shape is how the line carries what is written from now on. The first cut is
// so many bytes from here as the first slice is long.
func (l *Line) Shape(s Shape) {
	l.change(func() {
		l.shape, l.next, l.left = s, 0, 0
		if n := len(l.pieces); n > 0 && s.Slices != nil {
			l.pieces[n-1].cut = true
		}
	})
}

// Stall holds back what arrives, the end included, until it is called with
// false. The writer notices when there is no more room.
func (l *Line) Stall(on bool) { l.change(func() { l.stalled = on }) }

// Lose has all bytes vanish that are under way or come later, and the end too.
// They are never taken, so the writer blocks when there is no more room.
func (l *Line) Lose() {
	l.change(func() {
		l.lost = true
		l.drop()
	})
}

// Finish is a half-close: the reader gets the end behind what is under way.
// The writer does not learn of it; what it writes vanishes.
func (l *Line) Finish() {
	l.change(func() {
		l.finish()
		l.finished = true
	})
}

// ResetAfter resets the link, both directions of it, when n more bytes have
// been read. The reader gets them all first.
func (l *Line) ResetAfter(n int64) {
	l.change(func() {
		l.resetAt = l.got + n
		l.resetIfDue()
	})
}

func (l *Line) resetIfDue() {
	if l.got == l.resetAt {
		l.link.resetLocked()
	}
}

func (l *Line) finish() {
	if l.end.IsZero() {
		l.end = l.arrival(time.Now(), l.shape.Latency)
	}
}

// drop forgets what is under way.
func (l *Line) drop() { l.pieces = nil }

func (l *Line) closeReader() {
	l.change(func() {
		l.readerGone = true
		l.drop()
	})
}

func (l *Line) closeWriter() {
	l.change(func() {
		l.writerGone = true
		l.finish()
	})
}

func (l *Line) setDeadline(which *time.Time, t time.Time) { l.change(func() { *which = t }) }

func (l *Line) announce() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// wait lets go of the lock until something changes or one of the moments comes;
// zero is none.
func (l *Line) wait(moments ...time.Time) {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	changed := l.changed
	var first time.Time
	for _, t := range moments {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	l.link.mu.Unlock()
	defer l.link.mu.Lock()
	if first.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(first))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func passed(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

func (l *Line) read(p []byte) (int, error) {
	l.link.mu.Lock()
	defer l.link.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case l.readerGone:
			return 0, net.ErrClosed
		case l.link.reset:
			return 0, errReadReset
		case passed(l.readBy, now):
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case l.stalled || l.lost:
			l.wait(l.readBy)
			continue
		}
		if n := l.take(p, now); n > 0 {
			l.announce()
			return n, nil
		}
		arrives := l.end
		if len(l.pieces) > 0 {
			arrives = l.pieces[0].at
		} else if passed(l.end, now) {
			return 0, io.EOF
		}
		l.wait(l.readBy, arrives)
	}
}

// take moves what has arrived to p, up to a cut.
func (l *Line) take(p []byte, now time.Time) (n int) {
	if l.resetAt != never {
		p = p[:min(int64(len(p)), l.resetAt-l.got)]
	}
	for n < len(p) && len(l.pieces) > 0 && passed(l.pieces[0].at, now) {
		first := &l.pieces[0]
		m := copy(p[n:], first.bytes)
		n += m
		if first.bytes = first.bytes[m:]; len(first.bytes) > 0 {
			break
		}
		cut := first.cut
		if l.pieces = l.pieces[1:]; cut {
			break
		}
	}
	l.got += int64(n)
	l.held -= n
	l.resetIfDue()
	return n
}

func (l *Line) write(p []byte) (done int, err error) {
	l.link.mu.Lock()
	defer l.link.mu.Unlock()
	// Writers take turns: the bytes of one call stay together.
	for l.writing {
		if err := l.writeError(); err != nil {
			return 0, err
		}
		l.wait(l.writeBy)
	}
	l.writing = true
	defer func() { l.writing = false; l.announce() }()
	delay := l.shape.Latency
	if l.shape.Jitter > 0 {
		delay += time.Duration(l.rng.Int64N(int64(l.shape.Jitter)))
	}
	for {
		if err := l.writeError(); err != nil {
			return done, err
		}
		n := l.send(p[done:], delay)
		if done += n; done == len(p) {
			return done, nil
		}
		if n > 0 {
			l.announce()
		}
		l.wait(l.writeBy)
	}
}

func (l *Line) writeError() error {
	switch {
	case l.writerGone:
		return net.ErrClosed
	case l.link.reset:
		return errWriteReset
	case l.readerGone && !l.lost:
		return errPipe
	case passed(l.writeBy, time.Now()):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// send puts as much of p under way as there is room for.
func (l *Line) send(p []byte, delay time.Duration) int {
	if l.finished {
		return len(p)
	}
	p = p[:min(len(p), capacity-l.held)]
	l.held += len(p)
	if l.lost {
		return len(p)
	}
	now := time.Now()
	for rest := bytes.Clone(p); len(rest) > 0; {
		n, cut := l.pieceSize(len(rest))
		if l.shape.Bandwidth > 0 {
			if l.free.Before(now) {
				l.free = now
			}
			l.free = l.free.Add(time.Duration(n) * time.Second / time.Duration(l.shape.Bandwidth))
		}
		l.pieces = append(l.pieces, piece{bytes: rest[:n:n], at: l.arrival(now, delay), cut: cut})
		rest = rest[n:]
	}
	return len(p)
}

// pieceSize is how many of n bytes go in one piece, and whether a cut is behind
// it.
func (l *Line) pieceSize(n int) (size int, cut bool) {
	if l.shape.Bandwidth > 0 {
		n = min(n, packet)
	}
	if l.shape.Slices == nil {
		return n, false
	}
	if l.left == 0 {
		l.left = l.shape.Slices[l.next%len(l.shape.Slices)]
		l.next++
	}
	n = min(n, l.left)
	l.left -= n
	return n, l.left == 0
}

// arrival is when what is sent now arrives, after everything before it.
func (l *Line) arrival(now time.Time, delay time.Duration) time.Time {
	if l.shape.Bandwidth > 0 && l.free.After(now) {
		now = l.free
	}
	if at := now.Add(delay); at.After(l.last) {
		l.last = at
	}
	return l.last
}
