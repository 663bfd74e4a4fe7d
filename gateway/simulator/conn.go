package simulator

import (
	"bufio"
	"net"
	"net/http"
	"sync"
)

// conn is a connection of a node. It lets nothing through while the node is
// frozen.
type conn struct {
	net.Conn
	node *Node
	// ahead are bytes that were read already, to be read again first.
	ahead []byte
	// upgraded is whether it counts as a link, guarded by the node's mutex.
	upgraded bool
	done     chan struct{}
	once     sync.Once
}

func (c *conn) Read(p []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	n, readErr := c.Conn.Read(p)
	if err := c.pass(); err != nil {
		return 0, err
	}
	return n, readErr
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}

func (c *conn) pass() error {
	select {
	case <-c.node.whenThawed():
		return nil
	case <-c.done:
		return net.ErrClosed
	}
}

// hijack hands a connection to the WebSocket upgrader.
type hijack struct {
	conn   *conn
	header http.Header
}

func (h *hijack) Header() http.Header         { return h.header }
func (h *hijack) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader is called for a refused handshake only.
func (h *hijack) WriteHeader(status int) {
	r := http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: h.header, Close: true}
	_ = r.Write(h.conn)
}

func (h *hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}
