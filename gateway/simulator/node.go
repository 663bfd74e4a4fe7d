package simulator

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorilla/websocket"

	"flotilla/gateway/ship"
)

// Options describe a Node. The zero value is a Spring node that has everything.
type Options struct {
	// Address is host:port to listen on; empty is "127.0.0.1:0".
	Address string
	// Listen opens the port, and opens it again at a Restart; nil is TCP. See
	// Network for one in memory.
	Listen func(address string) (net.Listener, error)

	// First is the first block that the node has; 0 is 1.
	First uint32
	// End makes an archive (a frozen range server): it has the blocks below this
	// one, as the chain has them at the start of the node, with head and LIB both
	// its last block. It ignores have_positions, and stays open and silent at its
	// end. 0 follows the chain.
	End uint32
	// Snapshot is the block of the snapshot that a live node began with: it has
	// chain state from there on, and everything else from the next block. 0 is a
	// node that replayed the chain.
	Snapshot uint32
	// The first blocks of the logs; 0 is First, but 2 for traces on a node that
	// begins at 1, as nobody has traces of block 1; NoLog is none. A block's id is
	// known where any log has it. See SetLogs for logs that end early.
	TraceBegin, StateBegin, FinalityBegin, BlockBegin uint32

	// ABI is the first message of each link; empty is that of Spring, or of an
	// older node with V0Only. See ABIWith for another one.
	ABI []byte
	// MaxLinks is the session limit: more links are refused with 503. 0 is none.
	MaxLinks int
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
	if o.Snapshot > 0 {
		o.First = cmp.Or(o.First, o.Snapshot+1)
		o.StateBegin = cmp.Or(o.StateBegin, o.Snapshot)
	}
	o.First = cmp.Or(o.First, 1)
	o.TraceBegin = cmp.Or(o.TraceBegin, max(o.First, 2))
	o.StateBegin = cmp.Or(o.StateBegin, o.First)
	o.FinalityBegin = cmp.Or(o.FinalityBegin, o.First)
	o.BlockBegin = cmp.Or(o.BlockBegin, o.First)
	if o.V0Only {
		o.FinalityBegin = NoLog
	}
	if len(o.ABI) == 0 {
		o.ABI = abiText(o.V0Only)
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
	// Closes are the links that the client ended with Close 1000.
	Closes uint64
}

// Node is one simulated SHiP node. All methods may be called from any
// goroutine. Close it to end its goroutines.
type Node struct {
	opt   Options
	chain *Chain
	addr  string

	links, busy, requests, acks, statuses, pings, results, closes atomic.Uint64
	// queue is held while a message is written, with OneQueue.
	queue chan struct{}
	wg    sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	listener net.Listener       // nil while the node is down
	conns    map[*conn]*session // nil until the handshake is done
	upgraded int                // handshakes done or being done, of conns
	changed  chan struct{}
	thawed   chan struct{} // closed while the node is not frozen
	frozen   bool
	seen     view
	mood     mood
	faults   []fault
	injected uint64
	fired    map[Kind]uint64
	asked    []ship.BlocksRequest
}

// mood is how a node behaves as long as it is set.
type mood struct {
	stall, mute, hang, pinned bool
	lag                       uint32
	chainID                   ship.ID
	abi                       []byte
	logs                      Logs
}

// Start opens the port of a node and serves chain on it until Close.
func Start(chain *Chain, o Options) (*Node, error) {
	o.setDefaults()
	n := &Node{
		opt: o, chain: chain, addr: o.Address,
		queue: make(chan struct{}, 1), conns: map[*conn]*session{},
		changed: make(chan struct{}), thawed: make(chan struct{}), fired: map[Kind]uint64{},
		mood: mood{chainID: chain.ID(), abi: o.ABI, logs: logsOf(&o)},
	}
	close(n.thawed)
	if n.seen = behind(chain.view(), 0); n.isArchive() {
		n.seen = archived(n.seen, &n.mood.logs)
	}
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
func (n *Node) ABI() []byte { return n.observe().abi }

// Counters returns the present counts.
func (n *Node) Counters() Counters {
	return Counters{
		Links: n.links.Load(), Busy: n.busy.Load(), Requests: n.requests.Load(), Acks: n.acks.Load(),
		StatusRequests: n.statuses.Load(), Pings: n.pings.Load(), Results: n.results.Load(), Closes: n.closes.Load(),
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

// Standbys is the number of links open now that have asked for nothing at all.
func (n *Node) Standbys() (standbys int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.conns {
		if s != nil && !s.spoke.Load() {
			standbys++
		}
	}
	return standbys
}

// maxAsked is how many requests a node remembers.
const maxAsked = 1024

// Requests are the get_blocks requests that the node got, in order; only the
// latest of very many.
func (n *Node) Requests() []ship.BlocksRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

func (n *Node) remember(q *ship.BlocksRequest) {
	n.requests.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.asked) == maxAsked {
		n.asked = append(n.asked[:0], n.asked[maxAsked/2:]...)
	}
	n.asked = append(n.asked, *q)
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
	if c.upgraded {
		n.upgraded--
	}
}

// takesLink counts a link unless the session limit is reached.
func (n *Node) takesLink(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.opt.MaxLinks > 0 && n.upgraded >= n.opt.MaxLinks {
		return false
	}
	n.upgraded++
	c.upgraded = true
	return true
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
	g := n.greet()
	if g.refused {
		return
	}
	if g.busy || !n.takesLink(c) {
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
	s := newSession(n, c, ws, g)
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
	if next := behind(chain, n.mood.lag); !n.mood.pinned && !n.isArchive() {
		if _, ok := n.seen.firstNew(&next); ok {
			next.lib = max(next.lib, n.seen.lib)
			n.seen = next
		}
	}
	return observation{mood: n.mood, view: n.seen}
}

// behind is the chain as a node has it that lags.
func behind(v view, lag uint32) view {
	v.head -= min(lag, v.head-1)
	v.lib -= min(lag, v.lib-1)
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
func (o *observation) knows(num uint32) bool {
	return num <= o.view.head && o.logs.knows(num)
}

func (n *Node) status(o *observation, v1 bool) ship.Status {
	s := ship.Status{
		V1: v1, Head: o.view.pos(o.view.head), LIB: o.view.pos(o.view.lib),
		Trace:      reported(o.logs.Trace, &o.view),
		ChainState: reported(o.logs.State, &o.view),
		ChainID:    o.chainID, HasChainID: v1 || !n.opt.NoChainID,
	}
	if v1 {
		s.Finality = reported(o.logs.Finality, &o.view)
	}
	return s
}

// Restart opens the port again after a Kill or ClosePort. It does nothing while the node is
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
	n.ClosePort()
	n.DropLinks()
}

// ClosePort has dials refused until Restart, while the links go on.
func (n *Node) ClosePort() {
	n.mu.Lock()
	l := n.listener
	n.listener = nil
	n.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
}
