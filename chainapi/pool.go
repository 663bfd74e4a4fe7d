package chainapi

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"
)

// Dial makes a TCP connection to an upstream API.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Up to maxIdle idle connections are kept to each upstream API, each for
// idleTime (seed 003 "Connections"). Those beyond that have restTime to be used
// again: under load many are between two requests at any moment, and to close
// and open them all the time costs more than the requests do.
const (
	maxIdle  = 32
	idleTime = 5 * time.Second
	restTime = 100 * time.Millisecond
)

// readBuffer holds the head of an answer, and is what a large body is read in.
const readBuffer = 16 << 10

// client makes requests to one upstream API. It is safe for concurrent use.
type client struct {
	// address is host:port, which is also the Host header.
	address string
	dial    Dial

	mu     sync.Mutex
	idle   []*wire // the one used last is at the end
	sweep  *time.Timer
	closed bool
}

// wire is one connection to an upstream API.
type wire struct {
	net.Conn
	in *bufio.Reader
	// since is when it became idle.
	since time.Time
	// gap bounds each wait inside a body; 0 leaves the deadline that is set.
	gap time.Duration
}

// Read is what in reads from.
func (w *wire) Read(b []byte) (int, error) {
	if w.gap > 0 {
		if err := w.SetReadDeadline(time.Now().Add(w.gap)); err != nil {
			return 0, err
		}
	}
	return w.Conn.Read(b)
}

// endsWith has the connection closed when gone ends, until stop is called. A nil
// gone never ends.
func (w *wire) endsWith(gone context.Context) (stop func() bool) {
	if gone == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(gone, func() { w.Conn.Close() })
}

// get returns an idle connection, or nil.
func (c *client) get() *wire {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if n == 0 {
		return nil
	}
	w := c.idle[n-1]
	c.idle[n-1] = nil
	c.idle = c.idle[:n-1]
	return w
}

// open makes a new connection. A nil ctx never ends.
func (c *client) open(ctx context.Context, timeout time.Duration) (*wire, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := c.dial(ctx, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn}
	w.in = bufio.NewReaderSize(w, readBuffer)
	return w, nil
}

// put takes a connection back that may be used again.
func (c *client) put(w *wire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || w.in.Buffered() > 0 {
		w.Close()
		return
	}
	w.since = time.Now()
	c.idle = append(c.idle, w)
	switch {
	case c.sweep == nil:
		c.sweep = time.AfterFunc(c.patience(), c.expire)
	case len(c.idle) == maxIdle+1:
		c.sweep.Reset(restTime)
	}
}

// patience is how long the oldest idle connection may stay. The caller holds the
// lock.
func (c *client) patience() time.Duration {
	if len(c.idle) > maxIdle {
		return restTime
	}
	return idleTime
}

// expire closes the connections that were idle for too long.
func (c *client) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	// The older ones are in front: what is used goes in and out at the end.
	for len(c.idle) > 0 && now.Sub(c.idle[0].since) >= c.patience() {
		c.idle[0].Close()
		c.idle[0] = nil
		c.idle = c.idle[1:]
	}
	if len(c.idle) > 0 && !c.closed {
		c.sweep.Reset(c.idle[0].since.Add(c.patience()).Sub(now))
	} else {
		c.sweep = nil
	}
}

// forget closes the idle connections: those to a node that has failed are most
// likely dead as well.
func (c *client) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.idle {
		w.Close()
	}
	c.idle = nil
}

// close ends the idle connections, and those that come back later.
func (c *client) close() {
	c.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.sweep != nil {
		c.sweep.Stop()
		c.sweep = nil
	}
}
