package evm

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flotilla/gateway/simulator"
)

// hammer is how long TestHeadNeverGoesBack goes on; CI takes a minute.
var hammer = flag.Duration("hammer", 5*time.Second, "how long clients hammer the product")

// rotate lets the nodes lag in turn until stop is closed: each block is imported
// by one node after the other, and by another one first each time.
func rotate(chain *simulator.EVMChain, nodes []*simulator.EVMNode, stop <-chan struct{}) {
	for turn := 0; ; turn++ {
		head := chain.Mine(1)
		for i := range nodes {
			nodes[(turn+i)%len(nodes)].Import(head)
			select {
			case <-stop:
				return
			case <-time.After(15 * time.Millisecond):
			}
		}
	}
}

// harm counts what must not happen to a client.
type harm struct{ backwards, short, failed, calls atomic.Int64 }

// client asks for the head, and for the logs up to it, until stop is closed.
func (h *harm) client(stop <-chan struct{}, ask func(method, params string) (answer, error)) {
	last := uint64(0)
	for {
		select {
		case <-stop:
			return
		default:
		}
		a, err := ask("eth_blockNumber", "[]")
		if err != nil || a.Error != nil {
			h.failed.Add(1)
			continue
		}
		head := a.number()
		if head < last {
			h.backwards.Add(1)
		}
		last = max(last, head)
		a, err = ask("eth_getLogs", fmt.Sprintf(`[{"fromBlock":"0x%x","toBlock":"0x%x"}]`, head-5, head))
		var logs []json.RawMessage
		if err != nil || a.Error != nil || json.Unmarshal(a.Result, &logs) != nil {
			h.failed.Add(1)
			continue
		}
		if len(logs) != 6 {
			h.short.Add(1)
		}
		h.calls.Add(2)
	}
}

// play lets eight clients hammer for a time.
func play(s *scene, how time.Duration, ask func(client int) func(method, params string) (answer, error)) *harm {
	h, stop := &harm{}, make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { rotate(s.chain, s.nodes, stop) })
	for i := range 8 {
		all.Go(func() { h.client(stop, ask(i)) })
	}
	time.Sleep(how)
	close(stop)
	all.Wait()
	return h
}

// Eight clients over three nodes whose lag rotates: the head never goes back,
// and no answer of eth_getLogs is short.
func TestHeadNeverGoesBack(t *testing.T) {
	s := newScene(t, 3, "")
	h := play(s, *hammer, func(int) func(string, string) (answer, error) {
		return func(method, params string) (answer, error) {
			return ask(s.client, "http://"+s.addr+"/", method, params)
		}
	})
	t.Logf("%d calls, %d backwards, %d short, %d failed", h.calls.Load(), h.backwards.Load(), h.short.Load(), h.failed.Load())
	if h.backwards.Load() > 0 || h.short.Load() > 0 || h.failed.Load() > 0 || h.calls.Load() < 100 {
		t.Fatalf("%d calls, %d backwards, %d short, %d failed", h.calls.Load(), h.backwards.Load(), h.short.Load(), h.failed.Load())
	}
	for _, n := range s.nodes {
		if n.Calls("eth_getLogs") == 0 {
			t.Errorf("%s has had no call of a client", n.Name)
		}
	}
}

// The control: what a plain round robin does to the same clients.
func TestRoundRobinFails(t *testing.T) {
	s := newScene(t, 3, "")
	var turn atomic.Int64
	direct := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer direct.CloseIdleConnections()
	h := play(s, min(*hammer, 5*time.Second), func(int) func(string, string) (answer, error) {
		return func(method, params string) (answer, error) {
			return ask(direct, s.ports[turn.Add(1)%int64(len(s.ports))].URL, method, params)
		}
	})
	t.Logf("%d calls, %d backwards, %d short", h.calls.Load(), h.backwards.Load(), h.short.Load())
	if h.backwards.Load() == 0 || h.short.Load() == 0 {
		t.Fatal("the nodes do not lag, so TestHeadNeverGoesBack shows nothing")
	}
}
