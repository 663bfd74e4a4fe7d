package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted answers each request on each connection with the next text of its
// list; an empty one closes the connection without an answer.
type scripted struct {
	net.Listener
	mu       sync.Mutex
	script   [][]string
	requests []*http.Request
	bodies   []string
	conns    int
	done     sync.WaitGroup
}

// serve takes one list of answers for each connection.
func serve(t *testing.T, script ...[]string) (*scripted, *Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{Listener: l, script: script}
	s.done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			var answers []string
			if s.conns < len(s.script) {
				answers = s.script[s.conns]
			}
			s.conns++
			s.mu.Unlock()
			s.done.Go(func() { s.answer(conn, answers) })
		}
	})
	c, err := New("http://"+l.Addr().String(), nil, &net.Dialer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		l.Close()
		s.done.Wait()
	})
	return s, c
}

func (s *scripted) answer(conn net.Conn, answers []string) {
	defer conn.Close()
	br := bufio.NewReader(conn)
	for _, text := range answers {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
		s.mu.Unlock()
		if text == "" {
			return
		}
		io.WriteString(conn, text)
	}
}

// seen is how many connections and requests there were.
func (s *scripted) seen() (conns, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns, len(s.requests)
}

func answered(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func do(c *Client, r Request) (*fasthttp.Response, error) {
	if r.Method == nil {
		r.Method = []byte("POST")
	}
	if r.URI == nil {
		r.URI = []byte("/")
	}
	r.Deadline = time.Now().Add(5 * time.Second)
	resp := &fasthttp.Response{}
	return resp, c.Do(&r, resp)
}

func TestConnectionIsKept(t *testing.T) {
	s, c := serve(t, []string{answered("one"), answered("two")})
	for _, want := range []string{"one", "two"} {
		resp, err := do(c, Request{Body: []byte("{}")})
		if err != nil || string(resp.Body()) != want {
			t.Fatal(err, resp)
		}
	}
	if conns, _ := s.seen(); conns != 1 {
		t.Fatalf("%d connections", conns)
	}
}

// A node may have closed a connection that was idle: that is no failure.
func TestStaleConnection(t *testing.T) {
	s, c := serve(t, []string{answered("one")}, []string{answered("two")})
	for _, want := range []string{"one", "two"} {
		resp, err := do(c, Request{Body: []byte("{}")})
		if err != nil || string(resp.Body()) != want {
			t.Fatal(err)
		}
	}
	if conns, _ := s.seen(); conns != 2 {
		t.Fatalf("%d connections", conns)
	}
}

// What must not be sent twice goes on a new connection, and fails when that
// breaks.
func TestOnce(t *testing.T) {
	s, c := serve(t, []string{answered("one"), answered("never")}, []string{""}, []string{answered("never")})
	if _, err := do(c, Request{}); err != nil {
		t.Fatal(err)
	}
	_, err := do(c, Request{Once: true})
	var e *Error
	if !errors.As(err, &e) || e.Stage != Exchanging {
		t.Fatal(err)
	}
	if conns, requests := s.seen(); conns != 2 || requests != 2 {
		t.Fatalf("%d connections, %d requests", conns, requests)
	}
}

func TestFailures(t *testing.T) {
	for name, answer := range map[string]string{
		"no answer":      "",
		"cut short":      "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"half\":",
		"not HTTP":       "\x00\x01garbage\r\n\r\n",
		"chunk cut":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfi",
		"chunk bad":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nfirst\r\n",
		"no end of head": "HTTP/1.1 200 OK\r\nContent-Le",
	} {
		t.Run(name, func(t *testing.T) {
			_, c := serve(t, []string{answer})
			resp, err := do(c, Request{Whole: true})
			var e *Error
			if !errors.As(err, &e) || e.Stage != Exchanging || len(resp.Body()) > 0 {
				t.Fatal(err, resp)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		target := "http://" + l.Addr().String()
		l.Close()
		c, _ := New(target, nil, &net.Dialer{}, nil)
		_, err = do(c, Request{})
		var e *Error
		if !errors.As(err, &e) || e.Stage != Connecting || err.Error() != "Failed to connect to "+target {
			t.Fatal(err)
		}
	})
}

func TestBodies(t *testing.T) {
	for name, c := range map[string]struct {
		answer, want string
		stream       bool
	}{
		"chunked, all there": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n", "firstsecond", false},
		"with trailers":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-A: b\r\n\r\n", "x", false},
		"until the close":    {"HTTP/1.1 200 OK\r\n\r\nall of it", "all of it", false},
		"empty":              {"HTTP/1.1 204 No Content\r\n\r\n", "", false},
		"after 100":          {"HTTP/1.1 100 Continue\r\n\r\n" + answered("late"), "late", false},
		"large":              {answered(strings.Repeat("x", MaxWhole+1)), strings.Repeat("x", MaxWhole+1), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, client := serve(t, []string{c.answer})
			resp, err := do(client, Request{Whole: true})
			if err != nil || resp.IsBodyStream() != c.stream {
				t.Fatal(err, resp.IsBodyStream())
			}
			if got := string(resp.Body()); got != c.want {
				t.Fatalf("%d bytes, want %d", len(got), len(c.want))
			}
		})
	}
}

// A node that refuses a body for its size answers before it has read it.
func TestEarlyRefusal(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var done sync.WaitGroup
	defer done.Wait()
	done.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Read(make([]byte, 4096))
		io.WriteString(conn, "HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
		conn.Close()
	})
	c, _ := New("http://"+l.Addr().String(), nil, &net.Dialer{}, nil)
	resp, err := do(c, Request{Body: []byte(strings.Repeat("x", 8<<20))})
	if err != nil || resp.StatusCode() != 413 || string(resp.Body()) != "big" {
		t.Fatal(err, resp)
	}
}

func TestHeaders(t *testing.T) {
	s, c := serve(t, []string{"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Mine\r\nX-Mine: a\r\nKeep-Alive: b\r\nX-Else: c\r\nContent-Length: 2\r\n\r\nok"})
	h := &fasthttp.RequestHeader{}
	h.SetMethod("POST")
	for key, value := range map[string]string{"Host": "client.example", "Connection": "keep-alive, X-Own", "X-Own": "1", "Keep-Alive": "2",
		"X-Pass": "3", "Authorization": "client", "Accept-Encoding": "gzip", "Te": "4"} {
		h.Set(key, value)
	}
	c.headers = []header{{"Authorization", "ours"}}
	c.base, c.query = "/v2/key", "a=b"
	resp, err := do(c, Request{Header: h, URI: []byte("/x%20y?c=d"), Body: []byte("{}"), Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests[0]
	if r.RequestURI != "/v2/key/x%20y?c=d&a=b" || r.Host != s.Addr().String() || s.bodies[0] != "{}" {
		t.Errorf("%s %s %q", r.RequestURI, r.Host, s.bodies[0])
	}
	for key, want := range map[string]string{"X-Own": "", "Keep-Alive": "", "X-Pass": "3", "Authorization": "ours", "Accept-Encoding": "", "Te": ""} {
		if got := r.Header.Get(key); got != want || len(r.Header.Values(key)) > 1 {
			t.Errorf("the node got %s %q", key, r.Header.Values(key))
		}
	}
	for key, want := range map[string]string{"X-Mine": "", "Keep-Alive": "", "X-Else": "c", "Connection": ""} {
		if got := string(resp.Header.Peek(key)); got != want {
			t.Errorf("the client got %s %q", key, got)
		}
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct{ endpoint, uri, want string }{
		{"http://h", "/", "/"}, {"http://h", "/a?b", "/a?b"}, {"http://h/", "/a", "/a"}, {"http://h/v2/k", "/", "/v2/k"},
		{"http://h/v2/k/", "/a", "/v2/k/a"}, {"http://h?x=1", "/", "/?x=1"}, {"http://h", "http://other/a?b", "/a?b"}, {"http://h", "http://other", "/"},
		{"http://h", "", "/"},
	} {
		client, err := New(c.endpoint, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(client.target(nil, []byte(c.uri))); got != c.want {
			t.Errorf("%s and %s: %s, want %s", c.endpoint, c.uri, got, c.want)
		}
	}
}
