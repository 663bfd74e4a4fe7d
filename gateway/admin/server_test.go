package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/simulator"
)

// port is a served admin port in a bubble.
type port struct {
	t       *testing.T
	network *simulator.Network
	stop    context.CancelFunc
	done    chan error
	l       net.Listener
}

const portAddress = "admin:9090"

func serve(t *testing.T) *port {
	t.Helper()
	p := &port{t: t, network: simulator.NewNetwork(), done: make(chan error, 1)}
	l, err := p.network.Listen(portAddress)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p.l, p.stop = l, stop
	s := serving(State{Listeners: []Listener{pool("eos", down("a"))}, ReloadOK: true})
	go func() { p.done <- s.Serve(ctx, l) }()
	return p
}

// end stops the port and waits for it.
func (p *port) end() {
	p.t.Helper()
	p.stop()
	if err := <-p.done; err != nil {
		p.t.Errorf("a stopped port returns %v", err)
	}
}

func (p *port) dial() net.Conn {
	p.t.Helper()
	c, err := p.network.DialContext(context.Background(), "tcp", portAddress)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// say sends text, which may be empty, and returns all that comes until the end
// of the connection.
func (p *port) say(c net.Conn, text string) string {
	p.t.Helper()
	if text != "" {
		if _, err := io.WriteString(c, text); err != nil {
			p.t.Fatal(err)
		}
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		p.t.Fatal(err)
	}
	c.Close()
	return string(answer)
}

func TestServeAnswersOneRequestPerConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t)
		defer p.end()
		request := "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
		answer := p.say(p.dial(), request+request)
		if n := strings.Count(answer, "HTTP/1.1 200 OK"); n != 1 || !strings.HasSuffix(answer, "\r\n\r\nok\n") || !strings.Contains(answer, "Connection: close\r\n") {
			t.Errorf("two requests at once give %q", answer)
		}
		answer = p.say(p.dial(), "HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n")
		if !strings.HasSuffix(answer, "\r\n\r\n") || !strings.Contains(answer, "Content-Length: 3\r\n") {
			t.Errorf("HEAD gives %q", answer)
		}
		answer = p.say(p.dial(), "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 404 ") {
			t.Errorf("OPTIONS * gives %q", answer)
		}
	})
}

func TestServeClosesWithoutARequestHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t)
		defer p.end()
		for _, part := range []string{"", "GET /health HTTP/1.1\r\nHost: "} {
			from := time.Now()
			if answer := p.say(p.dial(), part); answer != "" {
				t.Errorf("%q is answered with %q", part, answer)
			}
			if took := time.Since(from); took != 5*time.Second {
				t.Errorf("%q is closed after %v", part, took)
			}
		}
	})
}

func TestServeLimitsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t)
		defer p.end()
		var open []net.Conn
		for range 256 {
			open = append(open, p.dial())
		}
		synctest.Wait()
		// The excess one is closed at once, long before its head would be due.
		from := time.Now()
		if answer := p.say(p.dial(), ""); answer != "" || time.Since(from) > 0 {
			t.Errorf("connection 257 is answered with %q after %v", answer, time.Since(from))
		}
		open[0].Close()
		synctest.Wait()
		if answer := p.say(p.dial(), "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasSuffix(answer, "ok\n") {
			t.Errorf("a freed place gives %q", answer)
		}
		if answer := p.say(open[1], "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasSuffix(answer, "ok\n") {
			t.Errorf("one of the 256 gets %q", answer)
		}
		for _, c := range open[2:] {
			c.Close()
		}
	})
}

func TestServeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t)
		c := p.dial()
		synctest.Wait()
		from := time.Now()
		p.end()
		if took := time.Since(from); took > 0 {
			t.Errorf("it took %v to end", took)
		}
		if got, err := io.ReadAll(c); err != nil || len(got) > 0 {
			t.Errorf("the open connection got %q, %v", got, err)
		}
		if _, err := p.network.DialContext(context.Background(), "tcp", portAddress); err == nil {
			t.Error("the port still takes connections")
		}
		c.Close()
	})
}

func TestServeTellsWhyThePortIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t)
		c := p.dial()
		synctest.Wait()
		p.l.Close()
		err := <-p.done
		if !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), portAddress) {
			t.Errorf("it returns %v", err)
		}
		c.Close()
		p.stop()
	})
}

// One time over TCP, as the other tests use a network in memory.
func TestServeOnTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serving(State{Listeners: []Listener{pool("eos", down("a"))}, ReloadOK: true})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	c, err := net.DialTimeout("tcp", l.Addr().String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if text := body(t, r); r.StatusCode != 200 || !r.Close || !strings.Contains(text, "fleet_router_up 1\n") {
		t.Errorf("it is %d, closed %v: %s", r.StatusCode, r.Close, text)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection stays open: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("it returns %v", err)
	}
}
