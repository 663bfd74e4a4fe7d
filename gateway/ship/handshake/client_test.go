package handshake

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
)

const answerProof = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

// verdict is what check says to the head of an answer.
func verdict(head, accept string) error {
	h := &Head{buf: []byte(head)}
	end := strings.Index(head, "\r\n\r\n")
	if end < 0 {
		end = len(head)
		h.buf = append(h.buf, "\r\n\r\n"...)
	}
	_ = h.parse(end) // a line that is no header is passed over
	return h.check([28]byte([]byte(accept + strings.Repeat(" ", 28))))
}

func TestCheck(t *testing.T) {
	good := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + answerProof + "\r\n\r\n"
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
		{"another proof", answerProof, "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "no WebSocket handshake"},
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
			err := verdict(head, answerProof)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if errors.Is(err, ErrBusy) != (c.want == "503") {
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
		h := &Head{buf: make([]byte, 0, usualHead)}
		err := h.read(conn)
		switch {
		case err != nil && end <= maxHead && !errors.Is(err, errBadField):
			t.Fatal(err)
		case errors.Is(err, errTooLong):
			return
		case !bytes.HasPrefix(sent, h.first) || len(h.first)+len(h.fields)+4 > end:
			t.Fatalf("the head is %q and %q", h.first, h.fields)
		case !bytes.HasPrefix(sent[end:], h.Rest) || !bytes.Equal(append(bytes.Clone(h.Rest), conn.rest...), sent[end:]):
			t.Fatalf("%q and %q are left of %q", h.Rest, conn.rest, sent[end:])
		}
	})
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte("HTTP/1.1 101\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"), "x")
	f.Add([]byte("HTTP/1.1 503"), "")
	f.Fuzz(func(t *testing.T, head []byte, accept string) {
		if verdict(string(head), accept) == nil && (accept != "" && !bytes.Contains(head, []byte(accept)) || !bytes.Contains(head, []byte("101"))) {
			t.Errorf("%q passes for %q", head, accept)
		}
	})
}
