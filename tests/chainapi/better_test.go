package chainapi

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flotilla/gateway/simulator"
)

// A real nodeos also says 429 when it is busy.
func TestBusyStatuses(t *testing.T) {
	for _, on := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			if on {
				w.Config.ChainAPI.BusyStatuses = []string{"429"}
			}
			a := w.node(simulator.APIOptions{}, priority(0))
			w.node(simulator.APIOptions{}, priority(1))
			a.Answer(func(r simulator.APIRequest) *simulator.APIAnswer {
				if !r.Client() {
					return nil
				}
				return &simulator.APIAnswer{Status: 429}
			})
			_, stop := w.start()
			defer stop()
			for _, path := range []string{getAccount, rawBlock, getInfo} {
				a := w.ask(w.client(), path, byNum(10))
				if want := map[bool]int{true: 200, false: 429}[on]; a.status != want {
					t.Errorf("busy_statuses %v: %s is %d", on, path, a.status)
				}
			}
		})
	}
}

// Answers about irreversible blocks are asked for once, and only those.
func TestCache(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Config.ChainAPI.Cache = 1 << 20
		a := w.node(simulator.APIOptions{}, nil)
		put, stop := w.start()
		defer stop()
		c := w.client()
		asked := func(path, body string, times, want int) {
			t.Helper()
			a.Forget()
			var first answer
			for i := range times {
				got := w.ask(c, path, body)
				if i == 0 {
					first = got
				}
				if got.status != first.status || got.body != first.body || got.header.Get("Server") != "simulated/n0" {
					t.Errorf("%s %s: %d %s %v", path, body, got.status, got.body, got.header)
				}
			}
			if n := len(a.Requests()); n != want {
				t.Errorf("%s %s: the node was asked %d times, not %d", path, body, n, want)
			}
		}
		asked(rawBlock, byNum(100), 5, 1)
		asked(rawBlock, w.byID(100), 5, 1)
		asked(getBlock, byNum(100), 5, 1)
		asked(getBlock, byNum(950), 3, 3)
		asked(getAccount, byNum(100), 3, 3)
		asked(getInfo, "", 3, 3)
		asked(sendTx, byNum(100), 3, 3)
		asked(rawBlock, `{"block_num_or_id":"`+w.Chain.Pos(99).ID.String()[:62]+`00"}`, 3, 3)

		// The memory is bounded: much else drives the first one out.
		a.Answer(func(r simulator.APIRequest) *simulator.APIAnswer {
			if r.Path != getBlock {
				return nil
			}
			return &simulator.APIAnswer{Body: make([]byte, 60_000)}
		})
		for n := range uint32(30) {
			w.ask(c, getBlock, byNum(200+n))
		}
		asked(rawBlock, byNum(100), 2, 1)
		a.Answer(nil)

		// A new configuration begins with an empty one.
		put(w.whole(w.changed(nothing)))
		asked(rawBlock, byNum(100), 2, 1)
	})
}

// Who asks the same at the same time shares one answer, also when that is none.
func TestRequestsAtTheSameTimeAreOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Config.ChainAPI.Cache = 1 << 20
		a := w.node(simulator.APIOptions{}, nil)
		release := make(chan struct{})
		a.Answer(func(r simulator.APIRequest) *simulator.APIAnswer {
			if r.Path != rawBlock {
				return nil
			}
			return &simulator.APIAnswer{Wait: release, Body: []byte("the block")}
		})
		_, stop := w.start()
		defer stop()
		var all sync.WaitGroup
		for range 20 {
			c := w.client()
			all.Go(func() {
				if got := w.ask(c, rawBlock, byNum(5)); got.body != "the block" {
					t.Errorf("%d %s", got.status, got.body)
				}
			})
		}
		time.Sleep(time.Second)
		close(release)
		all.Wait()
		if n := len(a.Requests()); n != 1 {
			t.Errorf("the node was asked %d times", n)
		}
	})
}

// What decides is who has a whole answer first, not who has begun one.
func TestHedgeBesideAnAnswerThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Config.ChainAPI.HedgePercent = 100
		var hangs atomic.Bool
		w.faulty("first", 0, func(c net.Conn, r *http.Request) {
			if hangs.Load() {
				saysAndHangs("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nab")(c, r)
				return
			}
			says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")(c, r)
		})
		w.node(simulator.APIOptions{}, priority(1))
		_, stop := w.start()
		defer stop()
		c := w.client()
		for range 30 {
			w.ask(c, rawBlock, byNum(5))
		}
		hangs.Store(true)
		got := w.ask(c, rawBlock, byNum(5))
		if w.isBlock(got, 5); got.took > time.Second {
			t.Errorf("it took %v", got.took)
		}
	})
}

// A second node answers for one that is slow, but not for more requests than the
// budget allows, and never for what may not be sent twice.
func TestHedge(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Config.ChainAPI.HedgePercent = 10
		a := w.node(simulator.APIOptions{}, priority(0))
		b := w.node(simulator.APIOptions{}, priority(1))
		_, stop := w.start()
		defer stop()
		c := w.client()
		for n := range uint32(100) {
			w.isBlock(w.ask(c, rawBlock, byNum(n+1)), n+1)
		}
		if n := len(b.Requests()); n != 0 {
			t.Errorf("%d requests went to the second node although the first was quick", n)
		}
		a.Answer(func(r simulator.APIRequest) *simulator.APIAnswer {
			if !r.Client() {
				return nil
			}
			late := make(chan struct{})
			time.AfterFunc(time.Second, func() { close(late) })
			return &simulator.APIAnswer{Wait: late, Header: http.Header{"Late": {"yes"}}, Body: []byte(`{"node":"n0"}`)}
		})
		quick := 0
		for n := range uint32(30) {
			if got := w.ask(c, rawBlock, byNum(n+1)); got.took < 500*time.Millisecond {
				quick++
				if got.node() != "n1" {
					t.Errorf("the quick answer is %d %s", got.status, got.body)
				}
			}
		}
		// Ten were saved up, and three are earned on the way.
		if quick < 10 || quick > 14 {
			t.Errorf("%d of 30 answers were quick", quick)
		}
		b.Forget()
		for _, path := range []string{getAccount, sendTx, compute} {
			if got := w.ask(c, path, "{}"); got.node() != "n0" {
				t.Errorf("%s: %d %s", path, got.status, got.body)
			}
		}
		if n := len(b.Requests()); n != 0 {
			t.Errorf("%d requests that are not reads of blocks went to both", n)
		}
		// That it was slow is no reason to call the first node down.
		a.Answer(nil)
		if got := w.ask(c, getAccount, "{}"); got.node() != "n0" {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}
