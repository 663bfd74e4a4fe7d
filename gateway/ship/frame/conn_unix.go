//go:build unix

package frame

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// directIO reports that sockets can be read and written by system calls of our
// own, between the runtime's waits for them.
const directIO = true

// tryRead is called by the runtime first at once and then whenever the socket
// has become readable. False waits on.
func (c *Conn) tryRead(fd uintptr) bool {
	r := &c.reading
	fresh := *r.buf == nil
	if fresh {
		*r.buf = takeBuffer(r.size)
	}
	n, _, err := c.receive(int(fd), (**r.buf)[r.at:])
	if errors.Is(err, syscall.EAGAIN) {
		if fresh {
			giveBuffer(*r.buf)
			*r.buf = nil
		}
		return false
	}
	if err != nil {
		r.err = os.NewSyscallError("read", err)
	}
	r.n = max(n, 0)
	return true
}

// lull is how far apart two reads are of a side that is not busy. With one that
// is, the next bytes may be there by now, and to find them is cheaper than to wait
// for them.
const lull = time.Millisecond

// tryServe reads, and has what came taken, until nothing is there. False waits
// on.
func (c *Conn) tryServe(fd uintptr) bool {
	s := &c.serving
	r := s.reader
	for {
		r.prepare()
		if r.buf == nil {
			r.buf = takeBuffer(r.readSize)
		}
		n, more, err := c.receive(int(fd), (*r.buf)[r.w:])
		switch {
		case errors.Is(err, syscall.EAGAIN):
			r.rest()
			return false
		case err != nil:
			s.err = os.NewSyscallError("read", err)
			return true
		case n == 0:
			s.err = io.EOF
			return true
		}
		before := c.lastRead.Load()
		c.Touch()
		busy := c.lastRead.Load()-before < int64(lull)
		r.took(n)
		if !s.take() {
			return true
		}
		if !more && (!busy || c.waitsFor.Load() > 1) {
			r.rest()
			return false
		}
	}
}

// tryWrite makes one attempt and never waits.
func (c *Conn) tryWrite(fd uintptr) {
	w := &c.writing
	for w.n < len(w.b) {
		n, err := writeSocket(int(fd), w.b[w.n:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return
		case err != nil:
			w.err = os.NewSyscallError("write", err)
			return
		}
		w.n += n
	}
}
