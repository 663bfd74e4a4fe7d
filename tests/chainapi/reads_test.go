package chainapi

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"flotilla/gateway/simulator"
)

// One port has the whole history: blocks come from the archive that has them, or
// from a live node, by number and by id.
func TestEveryBlockIsThere(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.node(simulator.APIOptions{First: 1, End: 301}, nil)
		w.node(simulator.APIOptions{First: 301, End: 601}, nil)
		w.node(simulator.APIOptions{First: 550}, nil)
		_, stop := w.start()
		defer stop()
		c := w.client()
		for n := uint32(1); n <= 1000; n += 37 {
			want := "n2"
			switch {
			case n < 301:
				want = "n0"
			case n < 601:
				want = "n1"
			}
			for _, body := range []string{byNum(n), w.byID(n)} {
				a := w.ask(c, rawBlock, body)
				if w.isBlock(a, n); a.node() != want {
					t.Errorf("block %d came from %s, not %s", n, a.node(), want)
				}
			}
		}
		if a := w.ask(c, rawBlock, byNum(2000)); a.status != 400 || a.body != simulator.UnknownBlock {
			t.Errorf("block 2000 is %d %s", a.status, a.body)
		}
		wrong := strings.Replace(w.byID(100), w.Chain.Pos(100).ID.String()[60:], "0000", 1)
		if a := w.ask(c, rawBlock, wrong); a.status != 400 || a.body != simulator.UnknownBlock {
			t.Errorf("a wrong id is %d %s", a.status, a.body)
		}
		if a := w.ask(c, getBlock, byNum(100)); a.status != 400 {
			t.Errorf("get_block below the live node is %d %s", a.status, a.body)
		}
	})
}

// As long as one node of each kind is there, clients never see another one die.
func TestReadsGoOnWhenNodesDie(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for range 2 {
			w.node(simulator.APIOptions{First: 1, End: 601}, nil)
		}
		for range 3 {
			w.node(simulator.APIOptions{}, nil)
		}
		_, stop := w.start()
		defer stop()
		random := rand.New(rand.NewPCG(1, 2))
		var clients sync.WaitGroup
		quit := make(chan struct{})
		for k := range 4 {
			c := w.client()
			clients.Go(func() {
				for i := uint32(0); ; i++ {
					select {
					case <-quit:
						return
					case <-time.After(400 * time.Millisecond):
					}
					n := (i*131+uint32(k))%1000 + 1
					for path, body := range map[string]string{rawBlock: byNum(n), getBlock: w.byID(n), getInfo: "", getAccount: "{}"} {
						a, err := w.post(c, path, body)
						if err != nil || a.status != 200 {
							t.Errorf("%s %s: %v %d %s", path, body, err, a.status, a.body)
							return
						}
					}
				}
			})
		}
		for range 12 {
			// One archive and up to two live nodes at a time.
			dead := []*simulator.API{w.apis[random.IntN(2)], w.apis[2+random.IntN(3)]}
			if other := w.apis[2+random.IntN(3)]; other != dead[1] {
				dead = append(dead, other)
			}
			for _, a := range dead {
				a.Close()
			}
			time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
			for _, a := range dead {
				if err := a.Restart(); err != nil {
					t.Fatal(err)
				}
			}
			// Until they are known to be there again.
			time.Sleep(3 * time.Second)
		}
		close(quit)
		clients.Wait()
	})
}

// A client does not see the head step back when two nodes are a block apart.
func TestHeadDoesNotGoBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.node(simulator.APIOptions{}, nil)
		w.node(simulator.APIOptions{}, nil)
		_, stop := w.start()
		defer stop()
		c := w.client()
		var last uint32
		seen := map[string]bool{}
		for i := range 40 {
			w.Chain.Advance(1)
			w.apis[i%2].Lag(1)
			w.apis[1-i%2].Lag(0)
			time.Sleep(700 * time.Millisecond)
			a := w.ask(c, getInfo, "")
			var head uint32
			if _, err := fmt.Sscanf(a.body[strings.Index(a.body, `"head_block_num":`):], `"head_block_num":%d`, &head); err != nil {
				t.Fatal(err)
			}
			if head < last {
				t.Errorf("the head went from %d back to %d", last, head)
			}
			last = head
			seen[a.node()] = true
		}
		if len(seen) != 1 {
			t.Errorf("get_info was answered by %v", seen)
		}
	})
}

// A node that says it is busy is left alone for two seconds, and is not down.
func TestBusyNodeIsSpared(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.node(simulator.APIOptions{}, priority(0))
		b := w.node(simulator.APIOptions{}, priority(1))
		_, stop := w.start()
		defer stop()
		c := w.client()
		a.Answer(func(r simulator.APIRequest) *simulator.APIAnswer {
			if !r.Client() {
				return nil
			}
			return &simulator.APIAnswer{Status: 503}
		})
		for range 10 {
			if got := w.ask(c, getAccount, "{}"); got.node() != "n1" {
				t.Fatalf("%d %s", got.status, got.body)
			}
		}
		if n := len(a.Requests()); n != 1 {
			t.Errorf("the busy node was asked %d times", n)
		}
		a.Answer(nil)
		time.Sleep(2100 * time.Millisecond)
		if got := w.ask(c, getAccount, "{}"); got.node() != "n0" {
			t.Errorf("after two seconds it is %s that answers", got.node())
		}
		b.Close()
	})
}

// Without a live node, blocks of the archives are served all the same.
func TestArchivesAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.node(simulator.APIOptions{First: 1, End: 601}, nil)
		live := w.node(simulator.APIOptions{}, nil)
		_, stop := w.start()
		defer stop()
		live.Close()
		time.Sleep(5 * time.Second)
		c := w.client()
		w.isBlock(w.ask(c, rawBlock, byNum(600)), 600)
		for path, want := range map[string]string{
			rawBlock: "No chain API upstream available", getInfo: "No live chain API upstream available",
			getAccount: "No live chain API upstream available", sendTx: "No live chain API upstream available",
		} {
			if a := w.ask(c, path, byNum(999)); a.status != 503 || a.reason() != want {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	})
}
