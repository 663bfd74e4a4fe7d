// Package upstream speaks HTTP with one node: it keeps connections, sends a
// request as it came from a client, and reads the answer, or says at which
// point that failed. What to do about a failure is up to the caller.
package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// Network connects to nodes.
type Network interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Trust gives the TLS settings for a node.
type Trust interface {
	Config(serverName string) (*tls.Config, error)
}

// Client is the HTTP side of one node. It is safe for concurrent use.
type Client struct {
	// Label is what errors call the node; the endpoint when nothing else is set
	// before the first exchange.
	Label   string
	network Network
	trust   Trust
	secure  bool
	// address is what is dialed, name what certificates are for.
	address, name string
	// host is the Host header; base is what stands before each path, query what
	// is added to each query.
	host, base, query string
	headers           []header

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

type header struct{ key, value string }

// Limits of the connections to a node.
const (
	connectTimeout = 5 * time.Second
	// maxIdleTime is below what nodes and the balancers of providers allow.
	maxIdleTime = 25 * time.Second
	maxIdle     = 1024
	readBuffer  = 16 << 10
)

// New makes a client for an http or https URL; headers are added to each
// request in place of the client's. Nothing is dialed yet.
func New(endpoint string, headers map[string]string, network Network, trust Trust) (*Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	c := &Client{Label: endpoint, network: network, trust: trust, secure: u.Scheme == "https",
		name: u.Hostname(), host: u.Host, base: strings.TrimSuffix(u.EscapedPath(), "/"), query: u.RawQuery}
	port := u.Port()
	if port == "" {
		port = "80"
		if c.secure {
			port = "443"
		}
	}
	c.address = net.JoinHostPort(c.name, port)
	if u.User != nil {
		password, _ := u.User.Password()
		c.headers = append(c.headers, header{"Authorization", basic(u.User.Username(), password)})
	}
	for key, value := range headers {
		c.headers = append(c.headers, header{key, value})
	}
	return c, nil
}

// conn is one connection to the node.
type conn struct {
	net.Conn
	br *bufio.Reader
	// used is true after the first answer: a failure may mean only that the
	// node has closed it meanwhile.
	used bool
	last time.Time
}

// take returns the idle connection that was used last, or a new one.
func (c *Client) take(fresh bool, deadline time.Time) (*conn, error) {
	if !fresh {
		c.mu.Lock()
		if n := len(c.idle); n > 0 {
			k := c.idle[n-1]
			c.idle[n-1] = nil
			c.idle = c.idle[:n-1]
			c.mu.Unlock()
			return k, nil
		}
		c.mu.Unlock()
	}
	limit := time.Now().Add(connectTimeout)
	if deadline.Before(limit) {
		limit = deadline
	}
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	raw, err := c.network.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, &Error{Connecting, c.Label, err}
	}
	if c.secure {
		cfg, err := c.trust.Config(c.name)
		if err == nil {
			secure := tls.Client(raw, cfg)
			if err = secure.HandshakeContext(ctx); err == nil {
				return &conn{Conn: secure, br: bufio.NewReaderSize(secure, readBuffer)}, nil
			}
		}
		raw.Close()
		return nil, &Error{Connecting, c.Label, err}
	}
	return &conn{Conn: raw, br: bufio.NewReaderSize(raw, readBuffer)}, nil
}

// give puts a connection back whose answer has been read to its end.
func (c *Client) give(k *conn) {
	k.used, k.last = true, time.Now()
	c.mu.Lock()
	if !c.closed && len(c.idle) < maxIdle && k.br.Buffered() == 0 {
		c.idle = append(c.idle, k)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	k.Close()
}

// Trim closes connections that have been idle for long; call it now and then.
func (c *Client) Trim(now time.Time) {
	c.mu.Lock()
	old := 0
	for old < len(c.idle) && now.Sub(c.idle[old].last) > maxIdleTime {
		c.idle[old].Close()
		old++
	}
	if old > 0 {
		c.idle = append(c.idle[:0:0], c.idle[old:]...)
	}
	c.mu.Unlock()
}

// Close closes the idle connections. Exchanges that are under way end as they
// would have.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, k := range c.idle {
		k.Close()
	}
	c.idle = nil
}

// Stage is how far an exchange has come.
type Stage int

// The stages.
const (
	// Connecting: the node has had nothing of the request.
	Connecting Stage = iota
	// Exchanging: the node may have taken the request in.
	Exchanging
)

// Error is a failed exchange.
type Error struct {
	Stage Stage
	Label string
	Err   error
}

// Error is the text that erigon_proxy has for a failed connect, and one of our
// own for the rest.
func (e *Error) Error() string {
	if e.Stage == Connecting {
		return "Failed to connect to " + e.Label
	}
	return fmt.Sprintf("Request to %s failed: %s", e.Label, reason(e.Err))
}

// Explain is the error with its cause in full, for operators: it tells
// addresses, and what is wrong with a certificate.
func (e *Error) Explain() string {
	if e.Stage == Connecting {
		return fmt.Sprintf("cannot connect to %s: %v", e.Label, e.Err)
	}
	return e.Error()
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// reason is a cause in words that tell no client our addresses.
func reason(err error) string {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, fasthttp.ErrTimeout):
		return "no answer in time"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the end of the answer"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return "the answer cannot be read"
}
