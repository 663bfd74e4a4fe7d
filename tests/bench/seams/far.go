package main

import (
	"net"
	"sync"
	"time"
)

// farListener accepts connections whose peer is a trip away: what it sends
// arrives that much later.
type farListener struct {
	net.Listener
	trip time.Duration
}

func (l *farListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	f := &farConn{Conn: c, trip: l.trip}
	f.changed.L = &f.mu
	go f.pump()
	return f, nil
}

// farConn delays what is read from it. Its goroutine ends with the connection.
type farConn struct {
	net.Conn
	trip time.Duration

	mu      sync.Mutex
	changed sync.Cond
	pieces  []piece
	err     error
}

type piece struct {
	at   time.Time
	data []byte
}

func (c *farConn) pump() {
	for {
		buf := make([]byte, 32<<10)
		n, err := c.Conn.Read(buf)
		c.mu.Lock()
		if n > 0 {
			c.pieces = append(c.pieces, piece{time.Now().Add(c.trip), buf[:n]})
		}
		c.err = err
		c.changed.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *farConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	for len(c.pieces) == 0 && c.err == nil {
		c.changed.Wait()
	}
	if len(c.pieces) == 0 {
		defer c.mu.Unlock()
		return 0, c.err
	}
	first := c.pieces[0]
	c.mu.Unlock()
	time.Sleep(time.Until(first.at))
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(p, first.data)
	if c.pieces[0].data = first.data[n:]; n == len(first.data) {
		c.pieces = c.pieces[1:]
	}
	return n, nil
}
