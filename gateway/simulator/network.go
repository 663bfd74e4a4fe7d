package simulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Network is a network in memory, for tests in a synctest bubble. Connections
// hold some bytes in each direction, as sockets do, and know deadlines.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener
	port      int
}

// NewNetwork makes an empty network.
func NewNetwork() *Network {
	return &Network{listeners: map[string]*memoryListener{}, port: 10000}
}

// Listen takes host:port; port 0 picks a free one. It fits Options.Listen.
func (n *Network) Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == "0" {
		n.port++
		address = net.JoinHostPort(host, fmt.Sprint(n.port))
	}
	if n.listeners[address] != nil {
		return nil, &net.OpError{Op: "listen", Net: "memory", Err: syscall.EADDRINUSE}
	}
	l := &memoryListener{network: n, address: memoryAddr(address), conns: make(chan net.Conn), done: make(chan struct{})}
	n.listeners[address] = l
	return l, nil
}

// DialContext connects to a listener of this network; when there is none it is
// refused at once. The network argument is ignored, so that it fits dialers.
func (n *Network) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	near, far := memoryPipe(l.address)
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, refused
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: ctx.Err()}
	}
}

type memoryAddr string

func (a memoryAddr) Network() string { return "memory" }
func (a memoryAddr) String() string  { return string(a) }

type memoryListener struct {
	network *Network
	address memoryAddr
	conns   chan net.Conn
	done    chan struct{}
	once    sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Addr() net.Addr { return l.address }

func (l *memoryListener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, string(l.address))
		l.network.mu.Unlock()
		close(l.done)
	})
	return nil
}

// memoryBuffer is how many bytes are under way in one direction at most.
const memoryBuffer = 256 << 10

func memoryPipe(addr memoryAddr) (near, far net.Conn) {
	a, b := newStream(), newStream()
	return &memoryConn{in: a, out: b, addr: addr}, &memoryConn{in: b, out: a, addr: addr}
}

type memoryConn struct {
	in, out *stream
	addr    memoryAddr
}

func (c *memoryConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *memoryConn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *memoryConn) LocalAddr() net.Addr         { return c.addr }
func (c *memoryConn) RemoteAddr() net.Addr        { return c.addr }

func (c *memoryConn) Close() error {
	c.in.closeReader()
	c.out.closeWriter()
	return nil
}

func (c *memoryConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *memoryConn) SetReadDeadline(t time.Time) error  { c.in.reader.set(c.in, t); return nil }
func (c *memoryConn) SetWriteDeadline(t time.Time) error { c.out.writer.set(c.out, t); return nil }

// stream is one direction of a connection.
type stream struct {
	mu             sync.Mutex
	cond           *sync.Cond
	buf            []byte // what is under way begins at start
	start          int
	writing        bool
	noReader       bool
	noWriter       bool
	reader, writer deadline
}

func newStream() *stream {
	s := &stream{}
	s.cond = sync.NewCond(&s.mu)
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.noReader:
			return 0, net.ErrClosed
		case s.reader.passed:
			return 0, os.ErrDeadlineExceeded
		case len(s.buf) > s.start:
			n := copy(p, s.buf[s.start:])
			if s.start += n; s.start >= len(s.buf) || s.start >= memoryBuffer {
				s.buf, s.start = append(s.buf[:0], s.buf[s.start:]...), 0
			}
			s.cond.Broadcast()
			return n, nil
		case s.noWriter:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		s.cond.Wait()
	}
}

func (s *stream) write(p []byte) (done int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Writers take turns: the bytes of one call stay together.
	for s.writing {
		if err := s.writeError(); err != nil {
			return 0, err
		}
		s.cond.Wait()
	}
	s.writing = true
	defer func() { s.writing = false; s.cond.Broadcast() }()
	for {
		if err := s.writeError(); err != nil {
			return done, err
		}
		n := min(len(p)-done, memoryBuffer-(len(s.buf)-s.start))
		s.buf = append(s.buf, p[done:done+n]...)
		if done += n; n > 0 {
			s.cond.Broadcast()
		}
		if done == len(p) {
			return done, nil
		}
		s.cond.Wait()
	}
}

func (s *stream) writeError() error {
	switch {
	case s.noWriter:
		return net.ErrClosed
	case s.noReader:
		return syscall.EPIPE
	case s.writer.passed:
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (s *stream) closeReader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noReader, s.buf, s.start = true, nil, 0
	s.reader.stop()
	s.cond.Broadcast()
}

func (s *stream) closeWriter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noWriter = true
	s.writer.stop()
	s.cond.Broadcast()
}

// deadline is guarded by the mutex of its stream.
type deadline struct {
	passed bool
	timer  *time.Timer
	// turn tells a timer that fired from one that was replaced meanwhile.
	turn int
}

func (d *deadline) stop() {
	d.turn++
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (d *deadline) set(s *stream, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.stop()
	wait := time.Until(t)
	d.passed = !t.IsZero() && wait <= 0
	if !t.IsZero() && wait > 0 {
		turn := d.turn
		d.timer = time.AfterFunc(wait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if turn == d.turn {
				d.passed = true
				s.cond.Broadcast()
			}
		})
	}
	s.cond.Broadcast()
}
