//go:build unix

package frame

import (
	"errors"
	"os"
	"syscall"
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
	for {
		n, err := syscall.Read(int(fd), (**r.buf)[r.at:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			if fresh {
				giveBuffer(*r.buf)
				*r.buf = nil
			}
			return false
		case err != nil:
			r.err = os.NewSyscallError("read", err)
		}
		r.n = max(n, 0)
		return true
	}
}

// tryWrite makes one attempt and never waits.
func (c *Conn) tryWrite(fd uintptr) bool {
	w := &c.writing
	for w.n < len(w.b) {
		n, err := syscall.Write(int(fd), w.b[w.n:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return true
		case err != nil:
			w.err = os.NewSyscallError("write", err)
			return true
		}
		w.n += n
	}
	return true
}
