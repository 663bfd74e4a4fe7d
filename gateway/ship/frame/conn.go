package frame

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection after its handshake. Reading is for one goroutine, and
// so is writing; Close may be called by anyone, at any time.
type Conn struct {
	net.Conn
	// raw is nil where system calls cannot be made directly: TLS, and pipes in
	// tests.
	raw syscall.RawConn

	// opened is when the connection was taken over; the times below count from
	// it, so that a step of the wall clock does not touch them.
	opened time.Time
	// lastRead is when bytes last arrived, in nanoseconds since opened.
	lastRead atomic.Int64

	// The arguments and results of the system call in progress. They live
	// here, with the functions made once, so that a call allocates nothing.
	reading struct {
		call func(fd uintptr) bool
		buf  **[]byte
		at   int
		size int
		n    int
		err  error
	}
	serving struct {
		call   func(fd uintptr) bool
		reader *Reader
		take   func() bool
		err    error
	}
	// tellsRest: a read tells whether more is there, see ReadOnce.
	tellsRest bool
	control   [controlSize]byte
	// waitsFor is the argument of the last WaitFor, 0 for none.
	waitsFor atomic.Int32
	writing  struct {
		call func(fd uintptr)
		b    []byte
		n    int
		err  error
	}
}

// NewConn takes over c, whose TCP_NODELAY is set, as package net does: a block must
// not wait for the acknowledgement of the one before.
func NewConn(c net.Conn) *Conn {
	f := &Conn{Conn: c, opened: time.Now()}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return f
	}
	if raw, err := tcp.SyscallConn(); err == nil && directIO {
		f.raw = raw
		f.reading.call = f.tryRead
		f.serving.call = f.tryServe
		f.writing.call = f.tryWrite
	}
	return f
}

// ReadOnce has Reader.Serve read only once for each time that the connection
// becomes readable, unless it is busy, where the kernel tells what is left; else
// another read finds out each time. A reset that comes together with the last bytes is then not
// noticed before something is written, or Broken is asked: it is for a side whose
// end is not urgent.
func (c *Conn) ReadOnce() { c.tellsRest = c.raw != nil && askRest(c.raw) }

// WaitFor has the connection become readable only when n bytes are there, or its
// end; with 1, as it is at first, when anything is. What is less waits in the
// kernel, and a lower n makes it readable at once. It may be called by anyone, and
// reports false where it has no effect: it needs what ReadOnce needs.
func (c *Conn) WaitFor(n int) bool {
	if !c.tellsRest || !setLowWater(c.raw, n) {
		return false
	}
	c.waitsFor.Store(int32(n))
	return true
}

// Broken reports whether the connection was reset, unless a read or a write has
// told so already. It takes the error: what is not ended after it may wait for
// ever.
func (c *Conn) Broken() bool { return c.raw != nil && broken(c.raw) }

// Touch makes now the time of the last read.
func (c *Conn) Touch() { c.lastRead.Store(int64(c.age())) }

func (c *Conn) age() time.Duration { return time.Since(c.opened) }

// LastRead is when bytes last arrived.
func (c *Conn) LastRead() time.Time { return c.opened.Add(time.Duration(c.lastRead.Load())) }

// read waits for bytes and reads into *buf from at on. When *buf is nil a
// buffer of size bytes is taken, as late as can be: only when there is
// something to put into it.
func (c *Conn) read(buf **[]byte, at, size int) (int, error) {
	if c.raw == nil {
		if *buf == nil {
			*buf = takeBuffer(size)
		}
		n, err := c.Conn.Read((**buf)[at:])
		if n > 0 {
			c.Touch()
		}
		return n, err
	}
	r := &c.reading
	r.buf, r.at, r.size, r.n, r.err = buf, at, size, 0, nil
	if err := c.raw.Read(r.call); err != nil {
		return 0, err
	}
	if r.n > 0 {
		c.Touch()
	}
	return r.n, r.err
}

// serve is Reader.Serve where raw is not nil. All reads are made inside one call
// of the runtime, which keeps in mind what becomes readable meanwhile: so no read
// has to find nothing before each wait, see ReadOnce.
func (c *Conn) serve(r *Reader, take func() bool) error {
	s := &c.serving
	s.reader, s.take, s.err = r, take, nil
	err := c.raw.Read(s.call)
	s.reader, s.take = nil, nil
	if err != nil {
		return err
	}
	return s.err
}

// writeNow writes as much of b as the kernel takes at once. It returns 0 where
// direct system calls are not possible.
func (c *Conn) writeNow(b []byte) (int, error) {
	if c.raw == nil {
		return 0, nil
	}
	w := &c.writing
	w.b, w.n, w.err = b, 0, nil
	// Control and not Write, as nothing is waited for. The Writer orders writes.
	err := c.raw.Control(w.call)
	w.b = nil
	if err != nil {
		return 0, err
	}
	return w.n, w.err
}
