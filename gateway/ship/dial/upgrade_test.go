package dial

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flotilla/gateway/ship"
)

// BenchmarkOpen is a dial to a node whose ABI is known, without the network. The
// node's side is in the figures too.
func BenchmarkOpen(b *testing.B) {
	d := newDialer()
	abi := text(abiText)
	parsed, err := ship.ParseABI([]byte(abiText))
	if err != nil {
		b.Fatal(err)
	}
	d.Known = func([]byte) *ship.ABI { return parsed }
	d.Connect = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			buf := make([]byte, 4096)
			n, err := far.Read(buf)
			if err != nil {
				return
			}
			_, key, _ := strings.Cut(string(buf[:n]), "Sec-WebSocket-Key: ")
			key, _, _ = strings.Cut(key, "\r\n")
			write(far, switching(&http.Request{Header: http.Header{"Sec-Websocket-Key": {key}}})+abi)
			_, _ = far.Read(buf)
		}()
		return near, nil
	}
	b.ReportAllocs()
	for b.Loop() {
		node, err := d.Open(context.Background(), "ws://node:1/")
		if err != nil {
			b.Fatal(err)
		}
		node.Close()
		node.Reader.Release()
	}
}

// cutOff is a connection that ends at the moment in which the dial is called off.
type cutOff struct {
	net.Conn
	callOff func()
	closed  atomic.Bool
}

func (c *cutOff) Write(p []byte) (int, error) { return len(p), nil }
func (c *cutOff) Read([]byte) (int, error)    { c.callOff(); return 0, io.EOF }
func (c *cutOff) SetDeadline(time.Time) error { return nil }
func (c *cutOff) Close() error                { c.closed.Store(true); return nil }

// TestDialCalledOff is for the race detector: the dial returns while the
// connection is being closed because of its context.
func TestDialCalledOff(t *testing.T) {
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		conn := &cutOff{callOff: cancel}
		d := Dialer{Timeout: time.Minute, Connect: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
		if got, err := d.Open(ctx, "ws://node:8080/"); got != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, %v", got, err)
		}
		if !conn.closed.Load() {
			t.Fatal("the connection is left open")
		}
	}
}
