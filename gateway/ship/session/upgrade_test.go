package session

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

// handshake is a good upgrade request; edits are pairs of a part of it and what
// replaces that.
func handshake(edits ...string) string {
	return strings.NewReplacer(edits...).Replace("GET / HTTP/1.1\r\n" +
		"Host: localhost\r\n" +
		"Upgrade: websocket\r\n" +
		"Connection: Upgrade\r\n" +
		"Sec-WebSocket-Key: " + handshakeKey + "\r\n" +
		"Sec-WebSocket-Version: 13\r\n\r\n")
}

func TestUpgradeAccepts(t *testing.T) {
	for name, request := range map[string]string{
		"plain":                  handshake(),
		"lower case":             handshake("Connection: Upgrade", "connection: upgrade", "Upgrade: websocket", "upgrade: WEBSOCKET"),
		"a path and a query":     handshake("GET / ", "GET /v1/chain?x=%20 "),
		"the absolute form":      handshake("GET / ", "GET http://else.where/x "),
		"no Host":                handshake("Host: localhost\r\n", ""),
		"another Host":           handshake("localhost", "some.where:1"),
		"an Origin":              handshake("Upgrade: w", "Origin: https://evil.example\r\nUpgrade: w"),
		"keep-alive, Upgrade":    handshake("Connection: Upgrade", "Connection: keep-alive, Upgrade"),
		"Upgrade first":          handshake("Connection: Upgrade", "Connection: Upgrade,keep-alive"),
		"empty items":            handshake("Connection: Upgrade", "Connection: , ,\tuPgRaDe ,,"),
		"two Connection lines":   handshake("Connection: Upgrade", "Connection: keep-alive\r\nConnection: Upgrade"),
		"two protocols":          handshake("Upgrade: websocket", "Upgrade: h2c, websocket"),
		"an extension":           handshake("Connection: U", "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\nConnection: U"),
		"a sub-protocol":         handshake("Connection: U", "Sec-WebSocket-Protocol: ship, chat\r\nConnection: U"),
		"spaces around a value":  handshake("Version: 13", "Version:   13  "),
		"credentials and tokens": handshake("Connection: U", "Authorization: Basic eDp5\r\nCookie: a=b\r\nConnection: U"),
		"more headers than 100":  handshake("Connection: U", strings.Repeat("X-Some: thing\r\n", 120)+"Connection: U"),
		"a head of 15 KiB":       handshake("Connection: U", "X-Long: "+strings.Repeat("x", 15<<10)+"\r\nConnection: U"),
	} {
		t.Run(name, func(t *testing.T) {
			c := &handshakeConn{input: strings.NewReader(request)}
			early, _, err := Upgrade(c, time.Minute)
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

func TestUpgradeRefuses(t *testing.T) {
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"a plain GET", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
		{"POST", handshake("GET", "POST"), 400},
		{"HEAD", handshake("GET", "HEAD"), 400},
		{"get", handshake("GET", "get"), 400},
		{"HTTP/1.0", handshake("HTTP/1.1", "HTTP/1.0"), 400},
		{"HTTP/2.0", handshake("HTTP/1.1", "HTTP/2.0"), 400},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
		{"no Connection", handshake("Connection: Upgrade\r\n", ""), 400},
		{"Connection: close", handshake("Connection: Upgrade", "Connection: close"), 400},
		{"Connection: Upgraded", handshake("Connection: Upgrade", "Connection: Upgraded"), 400},
		{"Connection without commas", handshake("Connection: Upgrade", "Connection: keep-alive Upgrade"), 400},
		{"no Upgrade", handshake("Upgrade: websocket\r\n", ""), 400},
		{"Upgrade: h2c", handshake("Upgrade: websocket", "Upgrade: h2c"), 400},
		{"no version", handshake("Sec-WebSocket-Version: 13\r\n", ""), 426},
		{"version 8", handshake("Version: 13", "Version: 8"), 426},
		{"version 013", handshake("Version: 13", "Version: 013"), 426},
		{"no key", handshake("Sec-WebSocket-Key: "+handshakeKey+"\r\n", ""), 400},
		{"an empty key", handshake(handshakeKey, ""), 400},
		{"a key of 15 bytes", handshake(handshakeKey, "AAECAwQFBgcICQoLDA0O"), 400},
		{"a key of 17 bytes", handshake(handshakeKey, "AAECAwQFBgcICQoLDA0ODxA="), 400},
		{"a key that is not in base64", handshake(handshakeKey, "dGhlIHNhbXBsZSBub25jZ!=="), 400},
		{"a key without its padding", handshake(handshakeKey, strings.TrimRight(handshakeKey, "=")), 400},
		{"a key in the URL alphabet", handshake(handshakeKey, "________________________"), 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := &handshakeConn{input: strings.NewReader(c.request)}
			early, _, err := Upgrade(conn, time.Minute)
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

// TestUpgradeGivesUp: what is no HTTP request gets no answer.
func TestUpgradeGivesUp(t *testing.T) {
	for name, request := range map[string]string{
		"nothing":             "",
		"half a head":         handshake()[:50],
		"no HTTP":             "hello\r\n\r\n",
		"a TLS hello":         "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"a WebSocket frame":   "\x82\x81\x00\x00\x00\x00\x00",
		"a bad header":        handshake("Host: localhost", "Host localhost"),
		"a head of 17 KiB":    handshake("Connection: U", "X-Long: "+strings.Repeat("x", 17<<10)+"\r\nConnection: U"),
		"headers without end": "GET / HTTP/1.1\r\n" + strings.Repeat("X-Some: thing\r\n", 1<<20/15),
		"a line without end":  "GET /" + strings.Repeat("x", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			input := strings.NewReader(request)
			c := &handshakeConn{input: input}
			if _, _, err := Upgrade(c, 0); err == nil {
				t.Error("it is taken for a handshake")
			}
			if c.answer.Len() > 0 {
				t.Errorf("got answer %q", c.answer.String())
			}
			if read := len(request) - input.Len(); read > maxUpgrade {
				t.Errorf("%d bytes were read, at most %d are a head", read, maxUpgrade)
			}
		})
	}
}

func TestUpgradeKeepsWhatCameBehind(t *testing.T) {
	for _, n := range []int{1, 24, 1000, 5000, 100 << 10} {
		behind := bytes.Repeat([]byte("frame "), n/6+1)[:n]
		for _, first := range []string{handshake(), handshake("Connection: U", "X-Long: "+strings.Repeat("x", 1000-len(handshake())+n%24)+"\r\nConnection: U")} {
			c := &handshakeConn{input: io.MultiReader(strings.NewReader(first[:10]), strings.NewReader(first[10:]+string(behind)))}
			early, _, err := Upgrade(c, time.Minute)
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

func TestUpgradeDeadlines(t *testing.T) {
	c := &handshakeConn{input: strings.NewReader(handshake())}
	began := time.Now()
	if _, _, err := Upgrade(c, time.Minute); err != nil {
		t.Fatal(err)
	}
	if len(c.deadlines) != 2 || c.deadlines[0].Before(began.Add(time.Minute)) || c.deadlines[0].After(time.Now().Add(time.Minute)) || !c.deadlines[1].IsZero() {
		t.Errorf("got deadlines %v, want one in a minute, which is lifted at the end", c.deadlines)
	}
	c = &handshakeConn{input: strings.NewReader(handshake())}
	if _, _, err := Upgrade(c, 0); err != nil {
		t.Fatal(err)
	}
	for _, d := range c.deadlines {
		if !d.IsZero() {
			t.Errorf("timeout 0 set a deadline: %v", d)
		}
	}
}

func TestUpgradeTellsThatTheClientIsGone(t *testing.T) {
	c := &handshakeConn{input: strings.NewReader(handshake()), broken: true}
	if _, _, err := Upgrade(c, 0); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

// TestUpgradeSlowHead sends a head byte by byte: one deadline is for all of it.
func TestUpgradeSlowHead(t *testing.T) {
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
		_, _, err := Upgrade(ours, timeout)
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

func FuzzUpgrade(f *testing.F) {
	f.Add([]byte(handshake()))
	f.Add([]byte(handshake() + "\x82\x81abcd\x61"))
	f.Add([]byte(handshake("HTTP/1.1", "HTTP/1.0")))
	f.Add([]byte(handshake("Connection: Upgrade", "Connection: a,, upgrade")))
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		input := bytes.NewReader(data)
		c := &handshakeConn{input: input}
		early, _, err := Upgrade(c, 0)
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
