package handshake

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// handshakeConn is a client that has sent all of input. What it is answered is
// kept, and so is each deadline.
type handshakeConn struct {
	net.Conn
	input     io.Reader
	answer    bytes.Buffer
	deadlines []time.Time
	broken    bool
}

func (c *handshakeConn) Read(p []byte) (int, error) { return c.input.Read(p) }

func (c *handshakeConn) Write(p []byte) (int, error) {
	if c.broken {
		return 0, io.ErrClosedPipe
	}
	return c.answer.Write(p)
}

func (c *handshakeConn) SetDeadline(t time.Time) error {
	c.deadlines = append(c.deadlines, t)
	return nil
}

// The key is the example of RFC 6455 section 1.3.
const (
	handshakeKey    = "dGhlIHNhbXBsZSBub25jZQ=="
	handshakeAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

// upgrade is a good upgrade request; edits are pairs of a part of it and what
// replaces that.
func upgrade(edits ...string) string {
	return strings.NewReplacer(edits...).Replace("GET / HTTP/1.1\r\n" +
		"Host: localhost\r\n" +
		"Upgrade: websocket\r\n" +
		"Connection: Upgrade\r\n" +
		"Sec-WebSocket-Key: " + handshakeKey + "\r\n" +
		"Sec-WebSocket-Version: 13\r\n\r\n")
}

// answered is what Server says, and a copy of what came behind the request.
func answered(conn net.Conn, timeout time.Duration) ([]byte, error) {
	h, err := Server(conn, timeout)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	return bytes.Clone(h.Rest), nil
}

func TestServerAccepts(t *testing.T) {
	for name, request := range map[string]string{
		"plain":                  upgrade(),
		"lower case":             upgrade("Connection: Upgrade", "connection: upgrade", "Upgrade: websocket", "upgrade: WEBSOCKET"),
		"a path and a query":     upgrade("GET / ", "GET /v1/chain?x=%20 "),
		"the absolute form":      upgrade("GET / ", "GET http://else.where/x "),
		"no Host":                upgrade("Host: localhost\r\n", ""),
		"another Host":           upgrade("localhost", "some.where:1"),
		"an Origin":              upgrade("Upgrade: w", "Origin: https://evil.example\r\nUpgrade: w"),
		"keep-alive, Upgrade":    upgrade("Connection: Upgrade", "Connection: keep-alive, Upgrade"),
		"Upgrade first":          upgrade("Connection: Upgrade", "Connection: Upgrade,keep-alive"),
		"empty items":            upgrade("Connection: Upgrade", "Connection: , ,\tuPgRaDe ,,"),
		"two Connection lines":   upgrade("Connection: Upgrade", "Connection: keep-alive\r\nConnection: Upgrade"),
		"two protocols":          upgrade("Upgrade: websocket", "Upgrade: h2c, websocket"),
		"an extension":           upgrade("Connection: U", "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\nConnection: U"),
		"a sub-protocol":         upgrade("Connection: U", "Sec-WebSocket-Protocol: ship, chat\r\nConnection: U"),
		"spaces around a value":  upgrade("Version: 13", "Version:   13  "),
		"credentials and tokens": upgrade("Connection: U", "Authorization: Basic eDp5\r\nCookie: a=b\r\nConnection: U"),
		"more headers than 100":  upgrade("Connection: U", strings.Repeat("X-Some: thing\r\n", 120)+"Connection: U"),
		"a head of 15 KiB":       upgrade("Connection: U", "X-Long: "+strings.Repeat("x", 15<<10)+"\r\nConnection: U"),
	} {
		t.Run(name, func(t *testing.T) {
			c := &handshakeConn{input: strings.NewReader(request)}
			early, err := answered(c, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			// Nothing else: no extension, no sub-protocol.
			const want = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + handshakeAccept + "\r\n\r\n"
			if got := c.answer.String(); got != want {
				t.Errorf("got answer %q, want %q", got, want)
			}
			if len(early) != 0 {
				t.Errorf("%d bytes came behind the handshake", len(early))
			}
		})
	}
}

func TestServerRefuses(t *testing.T) {
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"a plain GET", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
		{"POST", upgrade("GET", "POST"), 400},
		{"HEAD", upgrade("GET", "HEAD"), 400},
		{"get", upgrade("GET", "get"), 400},
		{"HTTP/1.0", upgrade("HTTP/1.1", "HTTP/1.0"), 400},
		{"HTTP/2.0", upgrade("HTTP/1.1", "HTTP/2.0"), 400},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
		{"no Connection", upgrade("Connection: Upgrade\r\n", ""), 400},
		{"Connection: close", upgrade("Connection: Upgrade", "Connection: close"), 400},
		{"Connection: Upgraded", upgrade("Connection: Upgrade", "Connection: Upgraded"), 400},
		{"Connection without commas", upgrade("Connection: Upgrade", "Connection: keep-alive Upgrade"), 400},
		{"no Upgrade", upgrade("Upgrade: websocket\r\n", ""), 400},
		{"Upgrade: h2c", upgrade("Upgrade: websocket", "Upgrade: h2c"), 400},
		{"no version", upgrade("Sec-WebSocket-Version: 13\r\n", ""), 426},
		{"version 8", upgrade("Version: 13", "Version: 8"), 426},
		{"version 013", upgrade("Version: 13", "Version: 013"), 426},
		{"no key", upgrade("Sec-WebSocket-Key: "+handshakeKey+"\r\n", ""), 400},
		{"an empty key", upgrade(handshakeKey, ""), 400},
		{"a key of 15 bytes", upgrade(handshakeKey, "AAECAwQFBgcICQoLDA0O"), 400},
		{"a key of 17 bytes", upgrade(handshakeKey, "AAECAwQFBgcICQoLDA0ODxA="), 400},
		{"a key that is not in base64", upgrade(handshakeKey, "dGhlIHNhbXBsZSBub25jZ!=="), 400},
		{"a key without its padding", upgrade(handshakeKey, strings.TrimRight(handshakeKey, "=")), 400},
		{"a key in the URL alphabet", upgrade(handshakeKey, "________________________"), 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := &handshakeConn{input: strings.NewReader(c.request)}
			early, err := answered(conn, time.Minute)
			if err == nil || early != nil {
				t.Fatalf("got %v and %d bytes", err, len(early))
			}
			answer := bufio.NewReader(&conn.answer)
			resp, readErr := http.ReadResponse(answer, nil)
			if readErr != nil {
				t.Fatalf("the refusal cannot be read: %v", readErr)
			}
			defer resp.Body.Close()
			body, readErr := io.ReadAll(resp.Body)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if resp.StatusCode != c.status || resp.Header.Get("Sec-WebSocket-Version") != "13" || !resp.Close {
				t.Errorf("got %s with %v", resp.Status, resp.Header)
			}
			if string(body) != err.Error()+"\n" || answer.Buffered() != 0 {
				t.Errorf("got body %q for %q, and %d bytes behind it", body, err, answer.Buffered())
			}
		})
	}
}

// TestServerGivesUp: what is no HTTP request gets no answer.
func TestServerGivesUp(t *testing.T) {
	for name, request := range map[string]string{
		"nothing":             "",
		"half a head":         upgrade()[:50],
		"no HTTP":             "hello\r\n\r\n",
		"a TLS hello":         "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"a WebSocket frame":   "\x82\x81\x00\x00\x00\x00\x00",
		"a bad header":        upgrade("Host: localhost", "Host localhost"),
		"a head of 17 KiB":    upgrade("Connection: U", "X-Long: "+strings.Repeat("x", 17<<10)+"\r\nConnection: U"),
		"headers without end": "GET / HTTP/1.1\r\n" + strings.Repeat("X-Some: thing\r\n", 1<<20/15),
		"a line without end":  "GET /" + strings.Repeat("x", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			input := strings.NewReader(request)
			c := &handshakeConn{input: input}
			if _, err := answered(c, 0); err == nil {
				t.Error("it is taken for a handshake")
			}
			if c.answer.Len() > 0 {
				t.Errorf("got answer %q", c.answer.String())
			}
			if read := len(request) - input.Len(); read > maxHead {
				t.Errorf("%d bytes were read, at most %d are a head", read, maxHead)
			}
		})
	}
}

func TestServerKeepsWhatCameBehind(t *testing.T) {
	for _, n := range []int{1, 24, 1000, 5000, 100 << 10} {
		behind := bytes.Repeat([]byte("frame "), n/6+1)[:n]
		for _, first := range []string{upgrade(), upgrade("Connection: U", "X-Long: "+strings.Repeat("x", 1000-len(upgrade())+n%24)+"\r\nConnection: U")} {
			c := &handshakeConn{input: io.MultiReader(strings.NewReader(first[:10]), strings.NewReader(first[10:]+string(behind)))}
			early, err := answered(c, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(c.input)
			if err != nil {
				t.Fatal(err)
			}
			if got := append(bytes.Clone(early), rest...); !bytes.Equal(got, behind) {
				t.Errorf("%d bytes behind a head of %d: %d came early and %d later", n, len(first), len(early), len(rest))
			}
		}
	}
}

func TestServerDeadlines(t *testing.T) {
	c := &handshakeConn{input: strings.NewReader(upgrade())}
	began := time.Now()
	if _, err := answered(c, time.Minute); err != nil {
		t.Fatal(err)
	}
	if len(c.deadlines) != 2 || c.deadlines[0].Before(began.Add(time.Minute)) || c.deadlines[0].After(time.Now().Add(time.Minute)) || !c.deadlines[1].IsZero() {
		t.Errorf("got deadlines %v, want one in a minute, which is lifted at the end", c.deadlines)
	}
	c = &handshakeConn{input: strings.NewReader(upgrade())}
	if _, err := answered(c, 0); err != nil {
		t.Fatal(err)
	}
	for _, d := range c.deadlines {
		if !d.IsZero() {
			t.Errorf("timeout 0 set a deadline: %v", d)
		}
	}
}

func TestServerTellsThatTheClientIsGone(t *testing.T) {
	c := &handshakeConn{input: strings.NewReader(upgrade()), broken: true}
	if _, err := answered(c, 0); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

// TestServerSlowHead sends a head byte by byte: one deadline is for all of it.
func TestServerSlowHead(t *testing.T) {
	for _, slow := range []bool{false, true} {
		ours, theirs := net.Pipe()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			if !slow {
				return
			}
			for {
				if _, err := theirs.Write([]byte("G")); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		const timeout = 100 * time.Millisecond
		began := time.Now()
		_, err := answered(ours, timeout)
		// Half a line is reported as what it is, a bad request line.
		if err == nil || !slow && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("slow %v: got %v", slow, err)
		}
		if took := time.Since(began); took < timeout {
			t.Errorf("slow %v: given up after %v", slow, took)
		}
		ours.Close()
		<-stopped
		theirs.Close()
	}
}

func FuzzServer(f *testing.F) {
	f.Add([]byte(upgrade()))
	f.Add([]byte(upgrade() + "\x82\x81abcd\x61"))
	f.Add([]byte(upgrade("HTTP/1.1", "HTTP/1.0")))
	f.Add([]byte(upgrade("Connection: Upgrade", "Connection: a,, upgrade")))
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		input := bytes.NewReader(data)
		c := &handshakeConn{input: input}
		early, err := answered(c, 0)
		switched := strings.HasPrefix(c.answer.String(), "HTTP/1.1 101 ")
		if switched != (err == nil) {
			t.Fatalf("got %v and answer %q", err, c.answer.String())
		}
		if err != nil {
			return
		}
		read := data[:len(data)-input.Len()]
		if !bytes.HasSuffix(read, early) || !bytes.HasSuffix(read[:len(read)-len(early)], []byte("\n")) {
			t.Errorf("%q is not what came behind the head of %q", early, read)
		}
	})
}
