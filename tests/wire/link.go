package wire

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// Link is one connection. All methods of it and of its lines may be called
// from any goroutine, and do nothing once it has ended.
type Link struct {
	// Number counts the dials to one address, from 1 on.
	Number int
	// Up goes from the one who dialed to the one who listens, Down goes back.
	Up, Down *Line

	// mu guards the link and both of its lines.
	mu    sync.Mutex
	reset bool
}

// Reset ends the link at once in both directions, as a TCP reset does: what is
// under way is lost, and both ends fail with ECONNRESET.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resetLocked()
}

func (l *Link) resetLocked() {
	l.reset = true
	for _, line := range []*Line{l.Up, l.Down} {
		line.drop()
		line.announce()
	}
}

// Lose makes the link half-open: from now on bytes vanish in both directions,
// and the ends of it do too. See Line.Lose.
func (l *Link) Lose() {
	l.Up.Lose()
	l.Down.Lose()
}

// Ended reports whether the link was reset, or closed by both ends.
func (l *Link) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reset || l.Up.readerGone && l.Down.readerGone
}

// conn is one end of a Link.
type conn struct {
	in, out *Line
	address net.Addr
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *conn) LocalAddr() net.Addr         { return c.address }
func (c *conn) RemoteAddr() net.Addr        { return c.address }

// Close ends both directions. The other end still gets what is under way.
func (c *conn) Close() error {
	c.in.closeReader()
	c.out.closeWriter()
	return nil
}

// CloseWrite ends the sending direction, as that of a TCP connection does.
func (c *conn) CloseWrite() error {
	c.out.closeWriter()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

var (
	errReadReset  = &net.OpError{Op: "read", Net: "wire", Err: syscall.ECONNRESET}
	errWriteReset = &net.OpError{Op: "write", Net: "wire", Err: syscall.ECONNRESET}
	errPipe       = &net.OpError{Op: "write", Net: "wire", Err: syscall.EPIPE}
)
