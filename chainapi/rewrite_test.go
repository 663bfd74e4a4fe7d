package chainapi

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"flotilla/gateway/config"
)

func TestAnswerHead(t *testing.T) {
	from := "HTTP/1.1 299 Odd Words\r\nServer: nodeos\r\ndate: today\r\nX-Kept: 1\r\nX-Kept: 2\r\nKeep-Alive: timeout=5\r\nConnection: X-Hop, keep-alive\r\n" +
		"X-Hop: 1\r\nContent-Type: text/odd\r\naccess-control-allow-origin: *\r\nAccess-Control-Expose-Headers: X\r\nProxy-Authenticate: x\r\nUpgrade: h2c\r\n" +
		"TE: x\r\nSet-Cookie: a=b; Path=/\r\nSet-Cookie: c=d\r\nContent-Length: 2\r\n\r\n{}"
	r := &response{}
	r.head.DisableNormalizing()
	r.head.SetNoDefaultContentType(true)
	if err := r.head.Read(bufio.NewReader(strings.NewReader(from))); err != nil {
		t.Fatal(err)
	}
	age := 77 * time.Second
	cors := corsHeaders(&config.CORS{AllowOrigin: "https://here", AllowHeaders: "X, Y", MaxAge: &age, AllowCredentials: true})
	got := string(framing{length: 2}.appendEnd(appendAnswer(nil, r, cors)))
	for _, line := range []string{
		"HTTP/1.1 299 Odd Words", "Server: nodeos", "X-Kept: 1", "X-Kept: 2", "Content-Type: text/odd", "Set-Cookie: a=b; Path=/", "Set-Cookie: c=d", "Content-Length: 2",
		"Access-Control-Allow-Origin: https://here", "Access-Control-Allow-Headers: X, Y", "Access-Control-Max-Age: 77", "Access-Control-Allow-Credentials: true",
	} {
		if strings.Count(got, line+"\r\n") != 1 {
			t.Errorf("%q is not there once", line)
		}
	}
	for _, name := range []string{"date:", "keep-alive", "x-hop", "connection:", "expose-headers", "proxy-", "upgrade", "\nte:", "origin: *"} {
		if strings.Contains(strings.ToLower(got), name) {
			t.Errorf("%q was passed on:\n%s", name, got)
		}
	}
	if !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("the head does not end: %q", got)
	}
}

func TestFraming(t *testing.T) {
	for want, f := range map[string]framing{
		"Content-Length: 0\r\n\r\n":                           {},
		"Content-Length: 5\r\nConnection: close\r\n\r\n":      {length: 5, closing: true},
		"Transfer-Encoding: chunked\r\n\r\n":                  {length: -1, chunked: true},
		"Connection: close\r\n\r\n":                           {length: -1, closing: true},
		"Content-Length: 5\r\nConnection: keep-alive\r\n\r\n": {length: 5, keepAlive: true},
	} {
		if got := string(f.appendEnd(nil)); got != want {
			t.Errorf("%+v gives %q", f, got)
		}
	}
}

// Chunks have the length of what they hold, wherever they are put.
func TestChunks(t *testing.T) {
	for _, before := range []string{"", "HTTP/1.1 200 OK\r\n\r\n"} {
		for _, n := range []int{1, 9, 15, 16, 255, 256, 4095, 4096, 65535, 65536, block - 1, block, block + 1} {
			r := &response{length: -2, body: strings.NewReader(strings.Repeat("x", n))}
			buf := grow([]byte(before), len(before)+chunkHead+block+len("\r\n"))
			from, used, got, err := appendBlock(buf, len(before), r, true)
			want := min(n, block)
			text := before + hexOf(want) + "\r\n" + strings.Repeat("x", want) + "\r\n"
			if err != nil || got != want || string(buf[from:used]) != text {
				t.Errorf("%d bytes behind %q: %v, %d, %.40q", n, before, err, got, buf[from:used])
			}
		}
	}
}

func hexOf(n int) string {
	const digits = "0123456789abcdef"
	if n < 16 {
		return digits[n : n+1]
	}
	return hexOf(n/16) + digits[n%16:n%16+1]
}
