package simulator

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/gorilla/websocket"

	"flotilla/gateway/ship"
)

// NoLog as the begin of a log: the node does not have that log.
const NoLog = math.MaxUint32

// Options describe a Node. The zero value is a Spring node that has everything.
type Options struct {
	// Address is host:port to listen on; empty is "127.0.0.1:0".
	Address string
	// Listen opens the port, and opens it again at a Restart; nil is TCP. See
	// Network for one in memory.
	Listen func(address string) (net.Listener, error)

	// First is the first block whose id and block the node has; 0 is 1.
	First uint32
	// End makes an archive: the node's chain ends before this block. 0 follows
	// the chain.
	End uint32
	// The first blocks of the logs; 0 is First, but 2 for traces on a node that
	// begins at 1, as nobody has traces of block 1; NoLog is none.
	TraceBegin, StateBegin, FinalityBegin uint32

	// NoChainID leaves the chain id out of v0 status results.
	NoChainID bool
	// V0Only is a node before Spring: it drops the link on v1 requests and has
	// no finality log.
	V0Only bool
	// KeepAlives sends results without a block as EOSIO 2.0 and Leap 3 do: on
	// each new block, request or ack while there is credit.
	KeepAlives bool
	// RaiseStart begins at the first block the node has, as Leap 4 does, where
	// Spring sends results without ids.
	RaiseStart bool
	// Whole sends each result in one frame, where Spring fragments it.
	Whole bool
	// OneQueue lets a client that does not read stop all clients of the node,
	// as nodes before Spring do.
	OneQueue bool
}

func (o *Options) setDefaults() {
	o.First = cmp.Or(o.First, 1)
	o.TraceBegin = cmp.Or(o.TraceBegin, max(o.First, 2))
	o.StateBegin = cmp.Or(o.StateBegin, o.First)
	o.FinalityBegin = cmp.Or(o.FinalityBegin, o.First)
	if o.V0Only {
		o.FinalityBegin = NoLog
	}
	o.Address = cmp.Or(o.Address, "127.0.0.1:0")
	if o.Listen == nil {
		o.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
}

// Counters are what a node has seen since it was started, restarts included.
type Counters struct {
	// Links are the WebSocket handshakes done, Busy those answered with 503.
	Links, Busy uint64
	// Requests are the get_blocks requests.
	Requests, Acks, StatusRequests, Pings uint64
	// Results are the block results sent, those without a block included.
	Results uint64
}

// Node is one simulated SHiP node. All methods may be called from any
// goroutine. Close it to end its goroutines.
type Node struct {
	opt   Options
	abi   []byte
	chain *Chain
	addr  string

	links, busy, requests, acks, statuses, pings, results atomic.Uint64
	// queue is held while a message is written, with OneQueue.
	queue chan struct{}
	wg    sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	listener net.Listener // nil while the node is down
	conns    map[*conn]*session
	changed  chan struct{}
	thawed   chan struct{} // closed while the node is not frozen
	frozen   bool
	seen     view
	mood     mood
	faults   []Fault
}

// mood is how a node behaves as long as it is set.
type mood struct {
	stall, mute, busy, hang, pinned bool
	lag                             uint32
	chainID                         ship.ID
}

// Start opens the port of a node and serves chain on it until Close.
func Start(chain *Chain, o Options) (*Node, error) {
	o.setDefaults()
	n := &Node{
		opt: o, abi: abiText(o.V0Only), chain: chain, addr: o.Address,
		queue: make(chan struct{}, 1), conns: map[*conn]*session{},
		changed: make(chan struct{}), thawed: make(chan struct{}),
		mood: mood{chainID: chain.ID()},
	}
	close(n.thawed)
	n.seen = n.clip(chain.view(), 0)
	if err := n.Restart(); err != nil {
		return nil, err
	}
	return n, nil
}

// Addr is the host:port of the node; it stays over restarts.
func (n *Node) Addr() string { return n.addr }

// URL is the address for a SHiP client.
func (n *Node) URL() string { return "ws://" + n.addr + "/" }

// ABI is the text of the node's first message. Do not change it.
func (n *Node) ABI() []byte { return n.abi }

// Counters returns the present counts.
func (n *Node) Counters() Counters {
	return Counters{
		Links: n.links.Load(), Busy: n.busy.Load(), Requests: n.requests.Load(), Acks: n.acks.Load(),
		StatusRequests: n.statuses.Load(), Pings: n.pings.Load(), Results: n.results.Load(),
	}
}

// Links is the number of WebSocket links that are open now, and how many of
// them have asked for blocks.
func (n *Node) Links() (open, streaming int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.conns {
		if s == nil {
			continue
		}
		open++
		if s.asked.Load() {
			streaming++
		}
	}
	return open, streaming
}

// Status is what the node answers to a v1 status request now.
func (n *Node) Status() ship.Status {
	o := n.observe()
	return n.status(&o, true)
}

// Close ends the node and waits for its goroutines. It may be called twice.
func (n *Node) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.Kill()
	n.wg.Wait()
}

func (n *Node) accept(l net.Listener) {
	for {
		raw, err := l.Accept()
		if err != nil {
			return
		}
		c := &conn{Conn: raw, node: n, done: make(chan struct{})}
		if !n.admit(l, c) {
			c.Close()
			continue
		}
		n.wg.Go(func() {
			defer n.forget(c)
			n.serve(c)
		})
	}
}

// admit registers a connection unless the node went down since it was accepted.
func (n *Node) admit(l net.Listener, c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener != l {
		return false
	}
	n.conns[c] = nil
	return true
}

func (n *Node) forget(c *conn) {
	c.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// upgrader takes any origin and offers nothing, as nodeos does.
var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

// maxRequest is the message limit of nodeos, in bytes.
const maxRequest = 16 << 20

func (n *Node) serve(c *conn) {
	br := bufio.NewReader(c)
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	for {
		changed := n.next()
		if !n.observe().hang {
			break
		}
		select {
		case <-changed:
		case <-c.done:
			return
		}
	}
	if n.observe().busy {
		n.busy.Add(1)
		_, _ = c.Write([]byte("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
		return
	}
	// A client may send its first request along with the upgrade.
	c.ahead, _ = br.Peek(br.Buffered())
	ws, err := upgrader.Upgrade(&hijack{conn: c, header: http.Header{}}, req, nil)
	if err != nil {
		return
	}
	ws.SetReadLimit(maxRequest)
	s := newSession(n, c, ws)
	n.mu.Lock()
	n.conns[c] = s
	n.mu.Unlock()
	n.links.Add(1)
	s.run()
}

// observation is a node's present state as one value.
type observation struct {
	mood
	view view
}

// observe brings the node up to date with the chain.
func (n *Node) observe() observation {
	chain := n.chain.view()
	n.mu.Lock()
	defer n.mu.Unlock()
	if next := n.clip(chain, n.mood.lag); !n.mood.pinned {
		if _, ok := n.seen.firstNew(&next); ok {
			next.lib = max(next.lib, n.seen.lib)
			n.seen = next
		}
	}
	return observation{mood: n.mood, view: n.seen}
}

// clip is the chain as this node has it: behind it, or cut off at its end.
func (n *Node) clip(v view, lag uint32) view {
	v.head -= min(lag, v.head-1)
	v.lib -= min(lag, v.lib-1)
	if n.opt.End > 0 {
		v.head = min(v.head, n.opt.End-1)
		v.lib = min(v.lib, v.head)
	}
	return v
}

// next is closed at the next change of the node's behaviour.
func (n *Node) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

func (n *Node) announceLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// knows reports whether the node has the id of a block.
func (n *Node) knows(num uint32, v *view) bool {
	o := &n.opt
	return num <= v.head && num >= min(o.First, o.TraceBegin, o.StateBegin, o.FinalityBegin)
}

func (n *Node) log(begin uint32, v *view) ship.Range {
	if begin > v.head {
		return ship.Range{}
	}
	return ship.Range{Begin: begin, End: v.head + 1}
}

func (n *Node) status(o *observation, v1 bool) ship.Status {
	s := ship.Status{
		V1: v1, Head: o.view.pos(o.view.head), LIB: o.view.pos(o.view.lib),
		Trace:      n.log(n.opt.TraceBegin, &o.view),
		ChainState: n.log(n.opt.StateBegin, &o.view),
		ChainID:    o.chainID, HasChainID: v1 || !n.opt.NoChainID,
	}
	if v1 {
		s.Finality = n.log(n.opt.FinalityBegin, &o.view)
	}
	return s
}

// Restart opens the port again after a Kill. It does nothing while the node is
// up, and fails after Close or when somebody else has taken the port.
func (n *Node) Restart() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return errors.New("the simulated node is closed")
	}
	if n.listener != nil {
		return nil
	}
	l, err := n.opt.Listen(n.addr)
	if err != nil {
		return fmt.Errorf("open the port of a simulated node: %w", err)
	}
	n.listener, n.addr = l, l.Addr().String()
	n.wg.Go(func() { n.accept(l) })
	return nil
}

// Kill is the end of the process: the port is closed and every connection ends
// without a Close frame. The node stays down until Restart.
func (n *Node) Kill() {
	n.mu.Lock()
	l := n.listener
	n.listener = nil
	n.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	n.DropLinks()
}
