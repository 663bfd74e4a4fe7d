package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
)

func text(s string) string   { return string(frame.Append(nil, frame.Text, []byte(s))) }
func binary(s string) string { return string(frame.Append(nil, frame.Binary, []byte(s))) }
func ping(s string) string   { return string(frame.Append(nil, frame.Ping, []byte(s))) }
func pong(s string) string   { return string(frame.Append(nil, frame.Pong, []byte(s))) }

// fragment is a frame without FIN.
func fragment(s string) string {
	b := []byte(s)
	b[0] &^= 0x80
	return string(b)
}

func continuation(s string) string {
	return string(frame.Append(nil, frame.Continuation, []byte(s)))
}

func newDialer() *Dialer { return &Dialer{Timeout: soon, MaxMessage: 1 << 20} }

func TestOpen(t *testing.T) {
	abi := text(abiText)
	results := []string{"first", "", "third"}
	behind := binary("first") + binary("") + binary("third")
	for _, c := range []struct {
		name  string
		first string
		parts []string
	}{
		{"all in one segment", abi + behind, nil},
		{"the ABI later", "", []string{abi, behind}},
		{"cut at bad places", abi[:1], []string{abi[1:3], abi[3:], behind[:1], behind[1:]}},
		{"results begin in the segment of the ABI", "", []string{abi + behind[:3], behind[3:]}},
		{"pings and pongs before it", ping("a") + pong("") + ping(""), []string{ping("b"), abi + behind}},
		{"in fragments", fragment(text(abiText[:1])) + fragment(continuation(abiText[1:7])), []string{ping("x"), continuation(abiText[7:]) + behind}},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := serve(t, behind101(t, c.first, c.parts...))
			o := wait(t, start(t.Context(), newDialer(), "ws://"+addr))
			if o.err != nil {
				t.Fatal(o.err)
			}
			defer o.node.Close()
			if string(o.node.ABI.Text) != abiText || o.node.ABI.Fingerprint != ship.Fingerprint([]byte(abiText)) || !o.node.ABI.Knows("get_status_request_v0") {
				t.Errorf("got ABI %q", o.node.ABI.Text)
			}
			for _, want := range results {
				if got := next(t, o.node); got != want {
					t.Fatalf("got %q behind the ABI, want %q", got, want)
				}
			}
		})
	}
}

// next is the next message of a node.
func next(t *testing.T, n *Node) string {
	t.Helper()
	for {
		var m frame.Message
		ok, err := n.Reader.Next(&m)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return string(m.Payload(nil))
		}
		if err := n.Reader.Fill(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpenLeavesNoDeadline waits until those of the dial would have passed.
func TestOpenLeavesNoDeadline(t *testing.T) {
	const timeout = 2 * time.Second
	wrote := make(chan struct{})
	addr := serve(t, func(c net.Conn) {
		write(c, switching(request(t, c))+text(abiText))
		time.Sleep(timeout + timeout/10)
		write(c, binary("late"))
		<-wrote
	})
	d := newDialer()
	d.Timeout = timeout
	o := wait(t, start(t.Context(), d, "ws://"+addr))
	if o.err != nil {
		t.Fatal(o.err)
	}
	if got := next(t, o.node); got != "late" {
		t.Errorf("got %q", got)
	}
	if err := o.node.Writer.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	close(wrote)
}

func TestConnectIsUsed(t *testing.T) {
	addr := serve(t, behind101(t, text(abiText)))
	d := newDialer()
	d.Connect = func(ctx context.Context, network, address string) (net.Conn, error) {
		if network != "tcp" || address != "node.example:80" {
			t.Errorf("got %s and %s", network, address)
		}
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	if o := wait(t, start(t.Context(), d, "ws://node.example")); o.err != nil {
		t.Error(o.err)
	}
	d.Connect = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way") }
	var failed *Error
	if o := wait(t, start(t.Context(), d, "ws://node.example")); !errors.As(o.err, &failed) || failed.Reason != Unreachable {
		t.Errorf("got %v", o.err)
	}
}

func TestUpgradeRequest(t *testing.T) {
	got := make(chan *http.Request, 1)
	addr := serve(t, func(c net.Conn) {
		req := request(t, c)
		got <- req
		write(c, switching(req)+text(abiText))
		untilClosed(t, c)
	})
	o := wait(t, start(t.Context(), newDialer(), "ws://"+addr+"/some/path?x=1"))
	if o.err != nil {
		t.Fatal(o.err)
	}
	req := <-got
	if req.Method != "GET" || req.RequestURI != "/some/path?x=1" || req.Proto != "HTTP/1.1" || req.Host != addr {
		t.Errorf("got %s %s %s to %s", req.Method, req.RequestURI, req.Proto, req.Host)
	}
	for name, want := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-Websocket-Version": "13",
		// Frames are passed on as they are: nothing may be negotiated.
		"Sec-Websocket-Extensions": "", "Sec-Websocket-Protocol": "", "Origin": "",
	} {
		if got := req.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestOpenFails(t *testing.T) {
	answer := func(head string) script {
		return func(c net.Conn) {
			request(t, c)
			write(c, head)
			untilClosed(t, c)
		}
	}
	abi := func(first string, parts ...string) script { return behind101(t, first, parts...) }
	for _, c := range []struct {
		name   string
		script script
		want   Reason
		// hangs: it fails no sooner than the timeout.
		hangs bool
	}{
		{"503", answer("HTTP/1.1 503 Service Unavailable\r\n\r\n"), Busy, false},
		{"503 with a body that does not come", answer("HTTP/1.1 503 Full\r\nContent-Length: 100\r\n\r\nfull"), Busy, false},
		{"200", answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), Handshake, false},
		{"301", answer("HTTP/1.1 301 Moved\r\nLocation: ws://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"), Handshake, false},
		{"400 in chunks", answer("HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n"), Handshake, false},
		{"500", answer("HTTP/1.1 500 Oops\r\n\r\n"), Handshake, false},
		{"100 before the answer", answer("HTTP/1.1 100 Continue\r\n\r\n"), Handshake, false},
		{"101 without the key's hash", answer("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), Handshake, false},
		{"101 to another protocol", func(c net.Conn) {
			write(c, strings.Replace(switching(request(t, c)), "websocket", "h2c", 1))
			untilClosed(t, c)
		}, Handshake, false},
		{"no HTTP", answer("SSH-2.0-OpenSSH_9.9\r\n\r\n"), Handshake, false},
		{"the end instead of an answer", func(c net.Conn) { request(t, c) }, Handshake, false},
		{"the end inside the answer", func(c net.Conn) {
			request(t, c)
			write(c, "HTTP/1.1 101 Swi")
		}, Handshake, false},
		{"an endless answer", func(c net.Conn) {
			request(t, c)
			write(c, "HTTP/1.1 101 Switching Protocols\r\n", strings.Repeat("X: y\r\n", 20<<10))
			untilClosed(t, c)
		}, Handshake, false},
		{"silence at the upgrade", func(c net.Conn) { untilClosed(t, c) }, Handshake, true},
		{"silence inside the answer", answer("HTTP/1.1 101 Switching Protocols\r\n"), Handshake, true},

		{"no ABI", abi(""), BadABI, true},
		{"half an ABI", abi(text(abiText)[:50]), BadABI, true},
		{"binary first", abi(binary(abiText)), BadABI, false},
		{"a close frame first", abi(string(frame.Append(nil, frame.Close, frame.ClosePayload(1000, "")))), BadABI, false},
		{"a close frame behind a ping", abi(ping(""), string(frame.Append(nil, frame.Close, nil))), BadABI, false},
		{"the end first", func(c net.Conn) { write(c, switching(request(t, c))) }, BadABI, false},
		{"the end inside the ABI", func(c net.Conn) { write(c, switching(request(t, c))+text(abiText)[:50]) }, BadABI, false},
		{"a masked ABI", abi(string(frame.AppendMasked(nil, frame.Text, []byte(abiText)))), BadABI, false},
		{"a compressed ABI", abi("\xc1" + text(abiText)[1:]), BadABI, false},
		{"a continuation", abi(continuation(abiText)), BadABI, false},
		{"no JSON", abi(text("hello")), BadABI, false},
		{"an empty text", abi(text("")), BadABI, false},
		{"another version", abi(text(strings.Replace(abiText, "abi/1.", "abi/9.", 1))), BadABI, false},
		{"a NUL", abi(text(abiText + "\x00")), BadABI, false},
		{"an ABI above the limit", abi(text(strings.Repeat(" ", 1<<20) + abiText)), BadABI, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDialer()
			if c.hangs {
				d.Timeout = 200 * time.Millisecond
			}
			began := time.Now()
			o := wait(t, start(t.Context(), d, "ws://"+serve(t, c.script)))
			var failed *Error
			if !errors.As(o.err, &failed) || failed.Reason != c.want {
				t.Fatalf("got %v, want a failure of kind %q", o.err, c.want)
			}
			if took := time.Since(began); c.hangs && took < d.Timeout {
				t.Errorf("it failed after %v, before the timeout", took)
			}
			if !strings.HasPrefix(failed.Error(), string(c.want)+": ") || failed.Unwrap() == nil {
				t.Errorf("the error reads %q", failed)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, scheme := range []string{"ws", "wss"} {
		o := wait(t, start(t.Context(), newDialer(), scheme+"://"+l.Addr().String()))
		var failed *Error
		if !errors.As(o.err, &failed) || failed.Reason != Unreachable {
			t.Errorf("%s: got %v", scheme, o.err)
		}
	}
}

func TestBadTarget(t *testing.T) {
	for _, target := range []string{"", "127.0.0.1:1", "http://127.0.0.1:1", "ws://a b", "ws://127.0.0.1:x", "ws://user@127.0.0.1:1", "ws://\x00"} {
		o := wait(t, start(t.Context(), newDialer(), target))
		var failed *Error
		if !errors.As(o.err, &failed) {
			t.Errorf("%q: got %v", target, o.err)
		}
	}
}

// TestPingsDoNotStretchTheWait: a node that only pings is given up when the
// one deadline has passed.
func TestPingsDoNotStretchTheWait(t *testing.T) {
	for _, pause := range []time.Duration{0, 10 * time.Millisecond} {
		addr := serve(t, func(c net.Conn) {
			write(c, switching(request(t, c)))
			for {
				if _, err := io.WriteString(c, ping("still here")); err != nil {
					return
				}
				time.Sleep(pause)
			}
		})
		d := newDialer()
		d.Timeout = 300 * time.Millisecond
		o := wait(t, start(t.Context(), d, "ws://"+addr))
		var failed *Error
		if !errors.As(o.err, &failed) || failed.Reason != BadABI {
			t.Errorf("a ping every %v: got %v", pause, o.err)
		}
	}
}

func TestCancel(t *testing.T) {
	host, ca := authority(t)
	for _, c := range []struct {
		name, scheme string
		script       func(reached func()) script
	}{
		{"in the TLS handshake", "wss", func(reached func()) script {
			return func(c net.Conn) {
				if _, err := c.Read(make([]byte, 1)); err != nil {
					t.Error(err)
				}
				reached()
				untilClosed(t, c)
			}
		}},
		{"before the answer", "ws", func(reached func()) script {
			return func(c net.Conn) {
				request(t, c)
				reached()
				untilClosed(t, c)
			}
		}},
		{"before the answer over TLS", "wss", func(reached func()) script {
			return func(c net.Conn) {
				secure := tls.Server(c, host)
				request(t, secure)
				reached()
				untilClosed(t, c)
			}
		}},
		{"inside the answer", "ws", func(reached func()) script {
			return func(c net.Conn) {
				request(t, c)
				write(c, "HTTP/1.1 101 Switching Protocols\r\n")
				reached()
				untilClosed(t, c)
			}
		}},
		{"before the ABI", "ws", func(reached func()) script {
			return func(c net.Conn) {
				write(c, switching(request(t, c)))
				reached()
				untilClosed(t, c)
			}
		}},
		{"inside the ABI", "ws", func(reached func()) script {
			return func(c net.Conn) {
				write(c, switching(request(t, c))+text(abiText)[:20])
				reached()
				untilClosed(t, c)
			}
		}},
	} {
		for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
			t.Run(fmt.Sprintf("%s/%v", c.name, cause), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				if cause == context.DeadlineExceeded {
					ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
				}
				defer cancel()
				reached := func() {
					if cause == context.Canceled {
						cancel()
					}
				}
				d := newDialer()
				d.Trust = ca
				// Nothing but ctx may end the dial.
				d.Timeout = 10 * soon
				o := wait(t, start(ctx, d, c.scheme+"://"+serve(t, c.script(reached))))
				// A socket's own clock may be a moment ahead of the context's.
				ahead := cause == context.DeadlineExceeded && errors.Is(o.err, os.ErrDeadlineExceeded)
				if o.err != cause && !ahead {
					t.Errorf("got %v, want %v", o.err, cause)
				}
			})
		}
	}
}

func TestCanceledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	addr := serve(t, func(c net.Conn) { untilClosed(t, c) })
	if o := wait(t, start(ctx, newDialer(), "ws://"+addr)); o.err != context.Canceled {
		t.Errorf("got %v", o.err)
	}
}

func TestTLS(t *testing.T) {
	host, ca := authority(t)
	secure := func(c net.Conn) {
		s := tls.Server(c, host)
		if err := s.Handshake(); err != nil {
			return
		}
		write(s, switching(request(t, s))+text(abiText)+binary("one"), binary("two"))
		// The dialer's close_notify and the end.
		_, _ = io.Copy(io.Discard, s)
	}
	var asked string
	_, other := authority(t)
	for _, c := range []struct {
		name   string
		trust  Trust
		script script
		want   Reason // "" is success
	}{
		{"own CA", trust(func(name string) (*tls.Config, error) { asked = name; return ca(name) }), secure, ""},
		{"a CA that it is not from", trust(func(string) (*tls.Config, error) { return &tls.Config{ServerName: "127.0.0.1"}, nil }), secure, Handshake},
		{"another name", trust(func(string) (*tls.Config, error) { return ca("elsewhere.example.org") }), secure, Handshake},
		{"no settings", trust(func(string) (*tls.Config, error) { return nil, errors.New("no CA file") }), func(c net.Conn) { untilClosed(t, c) }, Handshake},
		{"no TLS on the other side", other, behind101NoTLS(t), Handshake},
		{"silence", ca, func(c net.Conn) { untilClosed(t, c) }, Handshake},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDialer()
			d.Trust = c.trust
			if c.name == "silence" {
				d.Timeout = 200 * time.Millisecond
			}
			o := wait(t, start(t.Context(), d, "wss://"+serve(t, c.script)))
			if c.want != "" {
				var failed *Error
				if !errors.As(o.err, &failed) || failed.Reason != c.want {
					t.Fatalf("got %v", o.err)
				}
				return
			}
			if o.err != nil {
				t.Fatal(o.err)
			}
			if asked != "127.0.0.1" {
				t.Errorf("settings for %q were asked for", asked)
			}
			if one, two := next(t, o.node), next(t, o.node); one != "one" || two != "two" {
				t.Errorf("got %q and %q", one, two)
			}
			o.node.Close()
		})
	}
}

// behind101NoTLS answers whatever comes with plain HTTP.
func behind101NoTLS(t *testing.T) script {
	return func(c net.Conn) {
		if _, err := c.Read(make([]byte, 1024)); err != nil {
			t.Error(err)
		}
		write(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		untilClosed(t, c)
	}
}

func TestKnown(t *testing.T) {
	addr := serve(t, behind101(t, text(abiText)))
	known := &ship.ABI{Fingerprint: "known"}
	for _, c := range []struct {
		name  string
		known *ship.ABI
	}{{"one of before", known}, {"a new one", nil}} {
		d := newDialer()
		var asked string
		d.Known = func(text []byte) *ship.ABI {
			asked = string(text)
			return c.known
		}
		o := wait(t, start(t.Context(), d, "ws://"+addr))
		if o.err != nil {
			t.Fatal(o.err)
		}
		if asked != abiText {
			t.Errorf("%s: asked for %q", c.name, asked)
		}
		if c.known != nil && o.node.ABI != known || c.known == nil && string(o.node.ABI.Text) != abiText {
			t.Errorf("%s: got %+v", c.name, o.node.ABI)
		}
	}
}

// TestABIIsNotOverwritten: what comes later must not change the text.
func TestABIIsNotOverwritten(t *testing.T) {
	addr := serve(t, func(c net.Conn) {
		write(c, switching(request(t, c))+text(abiText))
		// The reader has an empty buffer when this comes, perhaps the same one.
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		write(c, binary(strings.Repeat("x", 100<<10)))
		untilClosed(t, c)
	})
	o := wait(t, start(t.Context(), newDialer(), "ws://"+addr))
	if o.err != nil {
		t.Fatal(o.err)
	}
	if err := o.node.Writer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	next(t, o.node)
	if string(o.node.ABI.Text) != abiText {
		t.Errorf("the ABI reads %q", o.node.ABI.Text)
	}
}

func TestCloseEndsAQueue(t *testing.T) {
	addr := serve(t, func(c net.Conn) {
		write(c, switching(request(t, c))+text(abiText))
		// It reads no more until the dialer has gone.
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		untilClosed(t, c)
	})
	o := wait(t, start(t.Context(), newDialer(), "ws://"+addr))
	if o.err != nil {
		t.Fatal(o.err)
	}
	if err := o.node.Writer.Write(make([]byte, 32<<20)); err != nil {
		t.Fatal(err)
	}
	o.node.Close()
	if err := o.node.Writer.Write([]byte("x")); err == nil {
		t.Error("a write after Close works")
	}
}
