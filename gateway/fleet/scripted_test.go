package fleet

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"flotilla/gateway/ship"

	"github.com/gorilla/websocket"
)

// scripted is a node that does what a test says, where simulated nodes behave.
type scripted struct {
	t testing.TB
	// play serves connection n, counted from 1, until it returns.
	play func(n int, c *script)

	mu    sync.Mutex
	links int
	polls []poll
	open  map[*websocket.Conn]bool
	done  chan struct{}
}

// poll is a status request that came.
type poll struct {
	at   time.Duration // since the start of the node
	link int
	v1   bool
}

// script is one connection to a scripted node.
type script struct {
	*websocket.Conn
	node    *scripted
	link    int
	started time.Time
}

// plays starts a scripted node in the lab.
func (l *lab) plays(name string, play func(n int, c *script)) *scripted {
	l.t.Helper()
	port, err := l.net.Listen(name + ":8080")
	if err != nil {
		l.t.Fatal(err)
	}
	n := &scripted{t: l.t, play: play, open: map[*websocket.Conn]bool{}, done: make(chan struct{})}
	started := time.Now()
	var running sync.WaitGroup
	web := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Done()
		up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
		ws, err := up.Upgrade(rw, r, nil)
		if err != nil {
			return
		}
		defer n.leaves(ws)
		link := n.enters(ws)
		n.play(link, &script{Conn: ws, node: n, link: link, started: started})
	})}
	running.Go(func() { _ = web.Serve(port) })
	l.t.Cleanup(func() {
		close(n.done)
		n.dropAll()
		_ = web.Close()
		running.Wait()
	})
	return n
}

func (n *scripted) enters(ws *websocket.Conn) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links++
	n.open[ws] = true
	return n.links
}

func (n *scripted) leaves(ws *websocket.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, ws)
	_ = ws.Close()
}

// dropAll ends all connections without a Close frame.
func (n *scripted) dropAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ws := range n.open {
		_ = ws.Close()
	}
}

func (n *scripted) linksSoFar() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.links
}

// asked are the status requests so far.
func (n *scripted) asked() []poll {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]poll(nil), n.polls...)
}

// Two ABIs: one that lists nothing, and one that knows both versions.
const (
	bareABI   = `{"version":"eosio::abi/1.1"}`
	springABI = `{"version":"eosio::abi/1.1","variants":[
		{"name":"request","types":["get_status_request_v0","get_blocks_request_v0","get_blocks_ack_request_v0","get_blocks_request_v1","get_status_request_v1"]},
		{"name":"result","types":["get_status_result_v0","get_blocks_result_v0","get_blocks_result_v1","get_status_result_v1"]}]}`
	oldABI = `{"version":"eosio::abi/1.1","variants":[
		{"name":"request","types":["get_status_request_v0","get_blocks_request_v0","get_blocks_ack_request_v0"]},
		{"name":"result","types":["get_status_result_v0","get_blocks_result_v0"]}]}`
)

// greets sends an ABI.
func (c *script) greets(abi string) { c.sends(websocket.TextMessage, []byte(abi)) }

// sends sends a message; that the gateway has gone meanwhile is no fault.
func (c *script) sends(kind int, message []byte) { _ = c.WriteMessage(kind, message) }

// reports sends a status.
func (c *script) reports(s ship.Status) { c.sends(websocket.BinaryMessage, ship.AppendStatus(nil, &s)) }

// asked waits for a status request and notes it; false when the connection
// ended instead.
func (c *script) asked() (v1, ok bool) {
	_, msg, err := c.ReadMessage()
	if err != nil {
		return false, false
	}
	if len(msg) != 1 || msg[0] != ship.StatusRequestV0 && msg[0] != ship.StatusRequestV1 {
		c.node.t.Errorf("a monitor sent %x", msg)
		return false, false
	}
	v1 = msg[0] == ship.StatusRequestV1
	c.node.mu.Lock()
	defer c.node.mu.Unlock()
	c.node.polls = append(c.node.polls, poll{at: time.Since(c.started), link: c.link, v1: v1})
	return v1, true
}

// answers answers status requests as a node does, each so late, until the
// connection ends.
func (c *script) answers(late time.Duration) {
	for {
		v1, ok := c.asked()
		if !ok || !c.pause(late) {
			return
		}
		s := status(100, 90)
		s.V1 = v1
		c.reports(s)
	}
}

// pause waits; false when the node has ended meanwhile.
func (c *script) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-c.node.done:
		return false
	}
}

// hears takes what comes and answers nothing, until the connection ends.
func (c *script) hears() {
	for {
		if _, ok := c.asked(); !ok {
			return
		}
	}
}
