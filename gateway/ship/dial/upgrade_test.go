package dial

import (
	"bytes"
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

const proof = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

func TestCheckAnswer(t *testing.T) {
	good := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + proof + "\r\n\r\n"
	for _, c := range []struct {
		name, from, to string
		want           string // part of the error
	}{
		{"as it should be", "", "", ""},
		{"other cases", "Upgrade: websocket", "UPGRADE: WebSocket", ""},
		{"no space", "Connection: Upgrade", "connection:upgrade", ""},
		{"a list", "Connection: Upgrade", "Connection: keep-alive, Upgrade", ""},
		{"two lines", "Connection: Upgrade", "Connection: keep-alive\r\nConnection: Upgrade", ""},
		{"no text", "101 Switching Protocols", "101", ""},
		{"HTTP/1.0", "HTTP/1.1", "HTTP/1.0", ""},
		{"busy", "101 Switching Protocols", "503 Full", "503"},
		{"not found", "101 Switching Protocols", "404 Not Found", `"404 Not Found"`},
		{"another proof", proof, "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "no WebSocket handshake"},
		{"no proof", "Sec-WebSocket-Accept", "X", "no WebSocket handshake"},
		{"no upgrade", "Upgrade: websocket\r\n", "", "no WebSocket handshake"},
		{"half a token", "Connection: Upgrade", "Connection: Upgrades", "no WebSocket handshake"},
		{"HTTP/2", "HTTP/1.1", "HTTP/2", "does not speak HTTP"},
		{"another protocol", good, "SSH-2.0-x\r\n\r\n", "does not speak HTTP"},
		{"nothing", good, "", "does not speak HTTP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := good
			if c.from != "" {
				if head = strings.Replace(good, c.from, c.to, 1); head == good {
					t.Fatal("nothing was replaced")
				}
			}
			err := checkAnswer([]byte(head), proof)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if errors.Is(err, errBusy) != (c.want == "503") {
				t.Errorf("busy is wrong: %v", err)
			}
		})
	}
}

// pieces is a connection that delivers what it has in pieces of n bytes.
type pieces struct {
	net.Conn
	rest []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	n := copy(b, p.rest[:min(p.n, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

// However the answer is cut, the head ends at the empty line, and nothing of
// what follows is lost.
func FuzzReadHead(f *testing.F) {
	f.Add("HTTP/1.1 101 x\r\nA: b", "the ABI", 1)
	f.Add("\r\n\r", "\r\n\r\n", 3)
	f.Add(strings.Repeat("x", 5000), "y", 4096)
	f.Fuzz(func(t *testing.T, before, behind string, n int) {
		sent := []byte(before + "\r\n\r\n" + behind)
		end := bytes.Index(sent, []byte("\r\n\r\n")) + 4
		conn := &pieces{rest: sent, n: max(n, 1)}
		head, rest, err := readHead(conn)
		switch {
		case err != nil && end <= maxHead:
			t.Fatal(err)
		case err != nil:
			return
		case !bytes.Equal(head, sent[:end]):
			t.Fatalf("the head is %q", head)
		case !bytes.HasPrefix(sent[end:], rest) || !bytes.Equal(append(rest, conn.rest...), sent[end:]):
			t.Fatalf("%q and %q are left of %q", rest, conn.rest, sent[end:])
		}
	})
}

func FuzzCheckAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 101\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"), "x")
	f.Add([]byte("HTTP/1.1 503"), "")
	f.Fuzz(func(t *testing.T, head []byte, accept string) {
		if checkAnswer(head, accept) == nil && (accept != "" && !bytes.Contains(head, []byte(accept)) || !bytes.Contains(head, []byte("101"))) {
			t.Errorf("%q passes for %q", head, accept)
		}
	})
}

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
func (c *cutOff) Close() error                { c.closed.Store(true); return nil }

// TestDialCalledOff is for the race detector: the dial returns while the
// connection is being closed because of its context.
func TestDialCalledOff(t *testing.T) {
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		conn := &cutOff{callOff: cancel}
		d := Dialer{Timeout: time.Minute, Connect: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
		if got, _, err := d.upgrade(ctx, "ws://node:8080/"); got != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, %v", got, err)
		}
		if !conn.closed.Load() {
			t.Fatal("the connection is left open")
		}
	}
}
