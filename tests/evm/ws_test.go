package evm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"flotilla/gateway/simulator"

	"github.com/gorilla/websocket"
)

// socket is a client's WebSocket.
type socket struct {
	t    *testing.T
	conn *websocket.Conn

	mu sync.Mutex
	// answers are those that came, by id; heads and logs are the block numbers
	// of the notifications, by subscription.
	answers map[string]answer
	blocks  map[string][]uint64
	// hashes are those of the blocks.
	hashes map[string][]string
	ended  chan struct{}
	err    error
}

func (s *scene) dial() *socket {
	s.t.Helper()
	conn, _, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.listen(conn)
}

// listen makes a client of a connection, which is closed with the test.
func (s *scene) listen(conn *websocket.Conn) *socket {
	c := &socket{t: s.t, conn: conn, answers: map[string]answer{}, blocks: map[string][]uint64{}, hashes: map[string][]string{}, ended: make(chan struct{})}
	go c.read()
	s.t.Cleanup(func() {
		conn.Close()
		<-c.ended
	})
	return c
}

func (c *socket) read() {
	defer close(c.ended)
	for {
		_, text, err := c.conn.ReadMessage()
		if err != nil {
			c.err = err
			return
		}
		var m struct {
			answer
			Method string
			Params struct {
				Subscription string
				Result       struct{ Number, BlockNumber, Hash, BlockHash string }
			}
		}
		if json.Unmarshal(text, &m) != nil {
			continue
		}
		c.mu.Lock()
		if m.Method == "eth_subscription" {
			number, _ := strconv.ParseUint(strings.TrimPrefix(m.Params.Result.Number+m.Params.Result.BlockNumber, "0x"), 16, 64)
			c.blocks[m.Params.Subscription] = append(c.blocks[m.Params.Subscription], number)
			c.hashes[m.Params.Subscription] = append(c.hashes[m.Params.Subscription], m.Params.Result.Hash+m.Params.Result.BlockHash)
		} else {
			c.answers[string(m.ID)] = m.answer
		}
		c.mu.Unlock()
	}
}

// call makes a call and waits for its answer.
func (c *socket) call(id int, method, params string) answer {
	c.t.Helper()
	c.send(call(id, method, params))
	return c.answer(id)
}

func (c *socket) send(text string) {
	c.t.Helper()
	if err := c.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *socket) answer(id int) (a answer) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("the answer to %d", id), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		var ok bool
		a, ok = c.answers[strconv.Itoa(id)]
		return ok
	})
	return a
}

// subscribe returns the id of a subscription.
func (c *socket) subscribe(id int, params string) string {
	c.t.Helper()
	a := c.call(id, "eth_subscribe", params)
	text, err := strconv.Unquote(string(a.Result))
	if err != nil {
		c.t.Fatal(a)
	}
	return text
}

func (c *socket) got(sub string) []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]uint64(nil), c.blocks[sub]...)
}

func (c *socket) gotHashes(sub string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.hashes[sub])
}

// mine adds a block that every node imports.
func (s *scene) mine() {
	head := s.chain.Mine(1)
	for _, n := range s.nodes {
		n.Import(head)
	}
}

// Subscriptions survive the loss of node after node: every head and every log
// comes once, in order, under the id that the client has.
func TestSubscriptionsMove(t *testing.T) {
	s := newScene(t, 3, "")
	c := s.dial()
	heads, logs := c.subscribe(1, `["newHeads"]`), c.subscribe(2, `["logs",{}]`)
	for round := range 9 {
		for range 3 {
			s.mine()
		}
		victim := s.nodes[round%3]
		switch round / 3 {
		case 0: // the connection breaks, and blocks come before it stands again
			victim.Hangup()
		case 1: // the node is evicted while its connection stays
			victim.Break(simulator.EVMFaults{Status: 500})
		default: // the node stops: no block, no answer
			victim.Break(simulator.EVMFaults{Status: 500, Deaf: true})
			victim.Hangup()
		}
		for range 3 {
			s.mine()
		}
		want := s.chain.Head()
		eventually(t, fmt.Sprintf("block %d in round %d", want, round), func() bool {
			h, l := c.got(heads), c.got(logs)
			return len(h) > 0 && h[len(h)-1] >= want && len(l) > 0 && l[len(l)-1] >= want
		})
		victim.Break(simulator.EVMFaults{})
		s.healthy(3)
	}
	for name, blocks := range map[string][]uint64{"newHeads": c.got(heads), "logs": c.got(logs)} {
		for i, n := range blocks {
			if n != uint64(101+i) {
				t.Fatalf("%s: block %d at %d, in %v", name, n, i, blocks)
			}
		}
	}
	if a := c.call(9, "eth_unsubscribe", `["`+heads+`"]`); string(a.Result) != "true" {
		t.Fatal(a)
	}
	before := len(c.got(heads))
	s.mine()
	eventually(t, "the log of the next block", func() bool { l := c.got(logs); return l[len(l)-1] == s.chain.Head() })
	if len(c.got(heads)) != before {
		t.Fatal("a head came after eth_unsubscribe")
	}
	if a := c.call(10, "eth_unsubscribe", `["`+heads+`"]`); a.Error == nil {
		t.Fatal(a)
	}
}

// The node that subscriptions move to has other blocks: those come from where its
// branch leaves the old one, once, and nothing that the client has comes again.
func TestSubscriptionsMoveToAnotherBranch(t *testing.T) {
	s := newScene(t, 2, "")
	s.nodes[0].Break(simulator.EVMFaults{Branch: "old", BranchFrom: 103})
	s.chain.Mine(1)
	s.nodes[0].Import(101)
	s.seen()
	c := s.dial()
	heads, logs := c.subscribe(1, `["newHeads"]`), c.subscribe(2, `["logs",{}]`)
	for range 3 {
		s.nodes[0].Import(s.chain.Mine(1))
	}
	both := func(count int) func() bool {
		return func() bool { return len(c.got(heads)) == count && len(c.got(logs)) == count }
	}
	eventually(t, "the blocks of the old branch", both(3))
	s.nodes[1].Import(s.chain.Mine(1))
	s.nodes[0].Break(simulator.EVMFaults{Status: 500, Deaf: true})
	s.nodes[0].Hangup()
	eventually(t, "the blocks of the new branch", both(6))
	s.nodes[1].Import(s.chain.Mine(1))
	eventually(t, "a block after it", both(7))
	var want []string
	for _, b := range []struct {
		number uint64
		branch string
	}{{102, ""}, {103, "old"}, {104, "old"}, {103, ""}, {104, ""}, {105, ""}, {106, ""}} {
		want = append(want, simulator.EVMHash(b.number, b.branch))
	}
	for name, sub := range map[string]string{"newHeads": heads, "logs": logs} {
		if got := c.gotHashes(sub); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// Calls over a WebSocket keep the promises of those over HTTP.
func TestSocketCalls(t *testing.T) {
	s := newScene(t, 2, "")
	c := s.dial()
	t.Run("the head does not go back between the two", func(t *testing.T) {
		s.chain.Mine(2)
		s.nodes[0].Import(102)
		s.seen()
		if a := s.call("eth_blockNumber", "[]"); a.number() != 102 {
			t.Fatal(a)
		}
		for i := range 10 {
			if a := c.call(100+i, "eth_getBalance", `["0xaa","latest"]`); a.number() != 102 {
				t.Fatal(a)
			}
		}
	})
	t.Run("a head that was announced is the head of calls", func(t *testing.T) {
		sub := c.subscribe(1, `["newHeads"]`)
		for range 5 {
			head := s.chain.Mine(1)
			s.nodes[0].Import(head)
			eventually(t, "the head", func() bool { b := c.got(sub); return len(b) > 0 && b[len(b)-1] == head })
			if a := s.call("eth_blockNumber", "[]"); a.number() != head {
				t.Fatal(a)
			}
			s.nodes[1].Import(head)
		}
	})
	t.Run("a call in flight is answered by another node", func(t *testing.T) {
		s.seen()
		s.nodes[0].Break(simulator.EVMFaults{Cut: true})
		s.nodes[1].Break(simulator.EVMFaults{Delay: 50 * time.Millisecond})
		for i := range 10 {
			c.send(call(200+i, "eth_getBalance", `["0xaa","latest"]`))
		}
		for i := range 10 {
			if a := c.answer(200 + i); a.Error != nil {
				t.Fatal(a)
			}
		}
	})
}

// With on_rotate = "close" the client is told to reconnect, as erigon_proxy
// does it.
func TestSocketIsClosedOnRotation(t *testing.T) {
	s := newScene(t, 2, strings.Replace(settings, `health_poll = "50ms"`, "health_poll = \"50ms\"\n on_rotate = \"close\"\n", 1))
	s.mine()
	s.nodes[0].Import(s.chain.Mine(1))
	s.seen()
	c := s.dial()
	if a := c.call(1, "test_node", "[]"); string(a.Result) != `"node-0"` {
		t.Fatal(a)
	}
	s.nodes[0].Break(simulator.EVMFaults{Status: 500})
	select {
	case <-c.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("still open")
	}
	var closed *websocket.CloseError
	if !errors.As(c.err, &closed) || closed.Code != websocket.CloseGoingAway || closed.Text != "backend rotated out; reconnect" {
		t.Fatal(c.err)
	}
}
