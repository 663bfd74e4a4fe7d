// Package dial opens connections to SHiP nodes: TCP, TLS, the WebSocket
// upgrade and the ABI message (spec "ship" 1.3, 1.4 and F14).
package dial

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
	"flotilla/gateway/ship/handshake"
)

// Reason is why a dial failed, as metrics label it.
type Reason string

// The reasons (spec "observability" 3.1, dial_failures_total).
const (
	// Busy is HTTP 503 at the upgrade: the node is full, not broken.
	Busy Reason = "busy"
	// Unreachable is a TCP failure or timeout.
	Unreachable Reason = "unreachable"
	// Handshake is a TLS or upgrade failure or timeout.
	Handshake Reason = "handshake"
	// BadABI is no ABI in time, or none that can be used.
	BadABI Reason = "abi"
)

// Error is a failed dial.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Reason, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Trust gives the TLS settings for a wss node.
type Trust interface {
	Config(serverName string) (*tls.Config, error)
}

// Dialer opens connections to nodes. It is safe for concurrent use.
type Dialer struct {
	// Trust is asked for each wss dial.
	Trust Trust
	// Timeout bounds connect, TLS and upgrade together, and then once more the
	// wait for the ABI.
	Timeout time.Duration
	// MaxMessage bounds each message and frame of the node, in bytes.
	MaxMessage int64
	// Connect makes the connection below TLS and WebSocket; nil is TCP.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
	// Known returns an ABI that was parsed before when its text is the given
	// one, else nil. It saves the parsing; nil is allowed.
	Known func(text []byte) *ship.ABI
}

// Node is a connection to a node that has sent its ABI. Its owner closes it.
type Node struct {
	*frame.Conn
	Reader *frame.Reader
	Writer *frame.Writer
	ABI    *ship.ABI
}

// Close closes the connection and waits for what still wants to write to it.
func (n *Node) Close() {
	n.Conn.Close()
	n.Writer.Wait()
}

// Open connects to target, a ws or wss URL, and reads the ABI. The error is an
// *Error, or ctx's when that ended first.
func (d *Dialer) Open(ctx context.Context, target string) (*Node, error) {
	conn, u, err := d.connect(ctx, target)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	// Reads and writes do not look at ctx.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	n, err := d.greet(conn, u)
	if !stop() {
		if n != nil {
			n.Close()
		}
		conn.Close()
		return nil, ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return n, nil
}

// greet asks for the WebSocket and reads the ABI. It leaves conn open when it
// fails.
func (d *Dialer) greet(conn net.Conn, u *url.URL) (*Node, error) {
	head, err := handshake.Client(conn, u)
	switch {
	case errors.Is(err, handshake.ErrBusy):
		return nil, &Error{Busy, err}
	case err != nil:
		return nil, &Error{Handshake, err}
	}
	c := frame.NewConn(conn)
	n := &Node{Conn: c, Reader: frame.NewReader(c, d.MaxMessage, false, head.Rest), Writer: frame.NewWriter(c)}
	head.Release()
	if n.ABI, err = d.readABI(n); err != nil {
		n.Reader.Release()
		return nil, &Error{BadABI, err}
	}
	return n, nil
}

func (d *Dialer) secure(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	cfg, err := d.Trust.Config(host)
	if err != nil {
		conn.Close()
		return nil, err
	}
	t := tls.Client(conn, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return t, nil
}

// readABI waits for the first message, which has to be Text (A4). One deadline
// covers the whole wait, so that pings cannot stretch it.
func (d *Dialer) readABI(n *Node) (*ship.ABI, error) {
	if err := n.SetDeadline(time.Now().Add(d.Timeout)); err != nil {
		return nil, err
	}
	var m frame.Message
	for {
		ok, err := n.Reader.Next(&m)
		if err != nil {
			return nil, err
		}
		if !ok {
			if err := n.Reader.Fill(); err != nil {
				return nil, fmt.Errorf("no ABI came: %w", err)
			}
			continue
		}
		switch m.Op {
		case frame.Ping, frame.Pong:
		case frame.Text:
			if err := n.SetDeadline(time.Time{}); err != nil {
				return nil, err
			}
			return d.parse(m.Payload(nil))
		case frame.Close:
			return nil, errors.New("the node closed the connection instead of sending its ABI")
		default:
			return nil, errors.New("the node's first message is no text")
		}
	}
}

// parse parses text, unless it is known. It does not keep text.
func (d *Dialer) parse(text []byte) (*ship.ABI, error) {
	if d.Known != nil {
		if a := d.Known(text); a != nil {
			return a, nil
		}
	}
	return ship.ParseABI(bytes.Clone(text))
}
