package chainapi

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"flotilla/gateway/simulator"
)

// Whatever becomes of the nodes, a push or an exec call arrives at most once;
// and the client is told the truth: what was answered by a node has arrived,
// and what no node could be reached for has not.
func TestNothingIsSentTwice(t *testing.T) {
	for _, path := range []string{sendTx, compute} {
		t.Run(path, func(t *testing.T) { inBubble(t, func(t *testing.T, w *world) { nothingTwice(t, w, path) }) })
	}
}

func nothingTwice(t *testing.T, w *world, path string) {
	w.Config.ChainAPI.UpstreamTimeout = 2 * time.Second
	random := rand.New(rand.NewPCG(3, 4))
	var dice sync.Mutex
	for range 3 {
		a := w.node(simulator.APIOptions{}, nil)
		a.Answer(func(r simulator.APIRequest) *simulator.APIAnswer {
			if !r.Client() {
				return nil
			}
			dice.Lock()
			defer dice.Unlock()
			switch random.IntN(6) {
			case 0:
				return &simulator.APIAnswer{Reset: true}
			case 1:
				return &simulator.APIAnswer{Wait: make(chan struct{})}
			case 2:
				return &simulator.APIAnswer{Status: 503, Body: []byte("busy")}
			case 3:
				return &simulator.APIAnswer{Status: 500, Body: []byte("expired")}
			}
			return nil
		})
	}
	_, stop := w.start()
	defer stop()
	var clients sync.WaitGroup
	answers := make([]answer, 120)
	for k := range 4 {
		c := w.client()
		clients.Go(func() {
			for i := k; i < len(answers); i += 4 {
				a, err := w.post(c, path, fmt.Sprintf(`{"tx":%d}`, i))
				if err != nil {
					t.Errorf("push %d: %v", i, err)
				}
				answers[i] = a
			}
		})
	}
	for range 10 {
		dice.Lock()
		dead := w.apis[random.IntN(3)]
		dice.Unlock()
		dead.Close()
		time.Sleep(time.Second)
		if err := dead.Restart(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	clients.Wait()
	arrived := map[string]int{}
	for _, a := range w.apis {
		for _, r := range a.Requests() {
			arrived[string(r.Body)]++
		}
	}
	for i, a := range answers {
		n := arrived[fmt.Sprintf(`{"tx":%d}`, i)]
		switch reason := a.reason(); {
		case n > 1:
			t.Errorf("push %d arrived %d times", i, n)
		case reason == "" && n != 1:
			t.Errorf("push %d was answered with %d %s, but arrived %d times", i, a.status, a.body, n)
		case (reason == "No chain API upstream available" || reason == "No live chain API upstream available") && n != 0:
			t.Errorf("push %d was refused with %q, but arrived", i, reason)
		}
	}
}

// A push goes to the push servers in their order, and to nobody else.
func TestPushServers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for range 3 {
			w.node(simulator.APIOptions{}, nil)
		}
		w.Config.ChainAPI.PushServers = []string{w.Config.Servers[2].Name, w.Config.Servers[0].Name}
		_, stop := w.start()
		defer stop()
		c := w.client()
		if a := w.ask(c, sendTx, "{}"); a.node() != "n2" || a.status != 202 {
			t.Errorf("%d %s", a.status, a.body)
		}
		w.apis[2].Close()
		if a := w.ask(c, sendTx, "{}"); a.node() != "n0" {
			t.Errorf("%d %s", a.status, a.body)
		}
		w.apis[0].Close()
		if a := w.ask(c, sendTx, "{}"); a.reason() != "No chain API upstream available" {
			t.Errorf("%d %s", a.status, a.body)
		}
		time.Sleep(5 * time.Second)
		if a := w.ask(c, sendTx, "{}"); a.reason() != "No live chain API upstream available" {
			t.Errorf("%d %s", a.status, a.body)
		}
		if n := len(w.apis[1].Requests()); n != 0 {
			t.Errorf("a node that is no push server got %d", n)
		}
	})
}
