package chainapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"flotilla/gateway/simulator"
)

func TestSlowClientsAreClosed(t *testing.T) {
	for what, begin := range map[string]string{
		"nothing":          "",
		"half a head":      "POST " + getInfo + " HTTP/1.1\r\nHost: x\r\n",
		"half a body":      "POST " + getInfo + " HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345",
		"half a chunk":     "POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n12345",
		"no end of chunks": "POST " + getInfo + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n",
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.Config.HandshakeTimeout = 7 * time.Second
				a := w.node(simulator.APIOptions{}, nil)
				_, stop := w.start()
				defer stop()
				c, r := w.raw()
				if _, err := c.Write([]byte(begin)); err != nil {
					t.Fatal(err)
				}
				w.closesAfter(c, r, 7*time.Second)
				if len(a.Requests()) != 0 {
					t.Error("something was forwarded")
				}
			})
		})
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.node(simulator.APIOptions{}, nil)
		_, stop := w.start()
		defer stop()
		c, r := w.raw()
		for range 3 {
			if _, err := c.Write([]byte("GET " + getInfo + " HTTP/1.1\r\nHost: x\r\nUser-Agent: u\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			if a, err := readAnswer(r, "GET"); err != nil || a.status != 200 {
				t.Fatal(a.status, err)
			}
			time.Sleep(8 * time.Second)
		}
		w.closesAfter(c, r, 2*time.Second)
	})
}

// A client that takes none of its answer does not hold on to a node's slot.
func TestClientThatDoesNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Config.ChainAPI.MaxInFlightPerUpstream = 1
		a := w.node(simulator.APIOptions{}, nil)
		a.Answer(func(r simulator.APIRequest) *simulator.APIAnswer {
			if r.Path != getAccount {
				return nil
			}
			return &simulator.APIAnswer{Body: []byte(strings.Repeat("x", 8<<20))}
		})
		_, stop := w.start()
		defer stop()
		c, _ := w.raw()
		if _, err := c.Write([]byte("POST " + getAccount + " HTTP/1.1\r\nHost: x\r\nUser-Agent: u\r\nContent-Length: 0\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		h := w.client()
		if a := w.ask(h, rawBlock, byNum(1)); a.status != 503 {
			t.Errorf("the slot is free: %d", a.status)
		}
		time.Sleep(12 * time.Second)
		w.isBlock(w.ask(h, rawBlock, byNum(1)), 1)
	})
}

func TestDeadlines(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Config.ChainAPI.UpstreamTimeout, w.Config.ChainAPI.RequestDeadline = 8*time.Second, 20*time.Second
		hang := func(r simulator.APIRequest) *simulator.APIAnswer {
			if !r.Client() {
				return nil
			}
			return &simulator.APIAnswer{Wait: make(chan struct{})}
		}
		for i := range uint32(4) {
			w.node(simulator.APIOptions{}, priority(i)).Answer(hang)
		}
		w.Config.ChainAPI.MaxAttempts = 8
		_, stop := w.start()
		defer stop()
		a := w.ask(w.client(), getAccount, "{}")
		if a.reason() != "No chain API upstream available" || a.took != 20*time.Second {
			t.Errorf("%d %s after %v", a.status, a.body, a.took)
		}
		for i, want := range []int{1, 1, 1, 0} {
			if n := len(w.apis[i].Requests()); n != want {
				t.Errorf("node %d was asked %d times", i, n)
			}
		}
		// The third had half its time only: that is no reason to call it down.
		for i := range uint32(3) {
			w.apis[i].Answer(nil)
		}
		if a := w.ask(w.client(), getAccount, "{}"); a.node() == "" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Config.ChainAPI.MaxInFlightPerUpstream, w.Config.ChainAPI.UpstreamQueue = 2, 3*time.Second
		release := make(chan struct{})
		a := w.node(simulator.APIOptions{}, nil)
		a.Answer(func(r simulator.APIRequest) *simulator.APIAnswer {
			if !r.Client() {
				return nil
			}
			return &simulator.APIAnswer{Wait: release}
		})
		_, stop := w.start()
		defer stop()
		answers := make([]answer, 7)
		var all sync.WaitGroup
		for i := range answers {
			c := w.client()
			all.Go(func() { answers[i] = w.ask(c, getAccount, fmt.Sprint(i)) })
			time.Sleep(100 * time.Millisecond)
		}
		// The third has waited for three seconds by then, the fourth not quite.
		time.Sleep(2550 * time.Millisecond)
		if n := len(a.Requests()); n != 2 {
			t.Errorf("%d requests are in flight", n)
		}
		close(release)
		all.Wait()
		refused := 0
		for _, a := range answers {
			if a.status == 503 {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d of the requests were refused", refused)
		}
	})
}

func TestTooLargeBody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Config.ChainAPI.MaxBody = 2048
		a := w.node(simulator.APIOptions{}, nil)
		_, stop := w.start()
		defer stop()
		for _, framing := range []string{
			"Content-Length: 2049\r\n\r\n" + strings.Repeat("x", 2049),
			"Transfer-Encoding: chunked\r\n\r\n801\r\n" + strings.Repeat("x", 2049) + "\r\n0\r\n\r\n",
		} {
			c, r := w.raw()
			if _, err := c.Write([]byte("POST " + getAccount + " HTTP/1.1\r\nHost: x\r\nUser-Agent: u\r\n" + framing)); err != nil {
				t.Fatal(err)
			}
			got, err := readAnswer(r, "POST")
			if err != nil || got.status != http.StatusRequestEntityTooLarge || !strings.Contains(got.body, "exceeds 2048 bytes") {
				t.Errorf("%v %d %s", err, got.status, got.body)
			}
			w.closesAfter(c, r, 2*time.Second)
		}
		if len(a.Requests()) != 0 {
			t.Error("something was forwarded")
		}
	})
}

// Requests that were sent ahead are answered in their order.
func TestPipeline(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.node(simulator.APIOptions{}, nil)
		_, stop := w.start()
		defer stop()
		c, r := w.raw()
		var all strings.Builder
		for i := range 20 {
			body := byNum(uint32(i + 1))
			fmt.Fprintf(&all, "POST %s HTTP/1.1\r\nHost: x\r\nUser-Agent: u\r\nContent-Length: %d\r\n\r\n%s", rawBlock, len(body), body)
		}
		if _, err := c.Write([]byte(all.String())); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			a, err := readAnswer(r, "POST")
			if err != nil {
				t.Fatal(err)
			}
			w.isBlock(a, uint32(i+1))
		}
	})
}
