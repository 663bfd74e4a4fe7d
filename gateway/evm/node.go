package evm

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/evm/health"
	"flotilla/gateway/evm/jsonrpc"
	"flotilla/gateway/evm/upstream"
	"flotilla/gateway/recent"

	"github.com/valyala/fasthttp"
)

// Node is one node of the fleet. What is known about it stands in a NodeView.
type Node struct {
	// server is the node as the configuration in force names it.
	server atomic.Pointer[config.EVMServer]
	// id numbers the nodes of the fleet, and host is the endpoint without its
	// path.
	id     int
	host   string
	client *upstream.Client
	// stop ends what watches the node, unfollow only what follows its heads; that
	// is nil while nothing does. Both belong to the fleet, under its lock.
	stop, unfollow context.CancelFunc

	// head is the highest block that the node is known to have. It may be ahead
	// of the View, as answers to clients raise it too.
	head atomic.Uint64
	// blocksFrom and statesFrom are the first block, and the first one with its
	// state, that the node has kept, as far as that is known.
	blocksFrom, statesFrom atomic.Uint64
	// inFlight counts calls that the node has not answered yet.
	inFlight atomic.Int64
	// latency is that of clients' calls; errors are those that it did not answer,
	// and failed checks.
	latency  recent.Latency
	errors   recent.Errors
	counters NodeCounters

	// What follows belongs to the fleet, under its lock.
	state   health.State
	rtt     time.Duration
	checked time.Time
	version string
	// answered is true after the first check, good or bad; admitted is true
	// from an admission until the node is asked for its version.
	answered, admitted bool
	// chain is what eth_chainId said, 0 before; checksLeft counts down to the
	// next time it is asked.
	chain      uint64
	checksLeft int
	// history, vouched and doubted are for distrusts; aside is why the node is
	// not believed now, empty when it is.
	history          health.History
	vouched, doubted bool
	// claimed is the height that it told last, believed or not; doubtful is
	// since when it is not.
	claimed  uint64
	doubtful time.Time
	aside    string
}

// NodeCounters only rise.
type NodeCounters struct {
	Requests, Failures, Retries, Checks, CheckFailures, Evictions, Sessions atomic.Uint64
}

// NodeView is what is known about a node at one moment. It is never changed.
type NodeView struct {
	*Node
	// Server is the node as the configuration names it.
	Server *config.EVMServer
	// State is a copy.
	State health.State
	// RTT is how long the last check took; 0 when it failed.
	RTT time.Duration
	// Checked is when the last check ended; zero before the first.
	Checked time.Time
	// Aside is why the node is not believed; empty when it is.
	Aside string
	// Version is what the node calls itself; empty until it was asked.
	Version string
}

// name is what the configuration calls the node.
func (n *Node) name() string { return n.server.Load().Name }

// Counters are what is counted about the node.
func (n *Node) Counters() *NodeCounters { return &n.counters }

// InFlight is how many calls the node has not answered yet.
func (n *Node) InFlight() int64 { return n.inFlight.Load() }

// sawHead notes that the node has a block.
func (n *Node) sawHead(height uint64) {
	for {
		old := n.head.Load()
		if height <= old || n.head.CompareAndSwap(old, height) {
			return
		}
	}
}

var post = []byte("POST")

// call asks the node on our own behalf and returns the raw result, which is
// the caller's.
func (n *Node) call(body string, timeout time.Duration) ([]byte, error) {
	return ask(n.client, body, timeout)
}

// ask makes one call; an answer that is not a result is an error.
func ask(c *upstream.Client, body string, timeout time.Duration) ([]byte, error) {
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	deadline := time.Now().Add(timeout)
	err := c.Do(&upstream.Request{Method: post, URI: []byte("/"), Body: []byte(body), Deadline: deadline, Whole: true}, resp)
	switch {
	case err != nil:
		return nil, err
	case resp.IsBodyStream():
		return nil, fmt.Errorf("the answer of %s is too long", c.Label)
	case resp.StatusCode() != fasthttp.StatusOK:
		return nil, fmt.Errorf("HTTP status %d", resp.StatusCode())
	}
	answer, ok := jsonrpc.ReadAnswer(resp.Body())
	switch {
	case !ok:
		return nil, fmt.Errorf("the answer is no JSON-RPC answer")
	case answer.Error != nil:
		f := jsonrpc.ReadFault(answer.Error)
		return nil, fmt.Errorf("JSON-RPC error %d: %s", f.Code, f.Message)
	case answer.Result == nil:
		return nil, fmt.Errorf("the answer has no result")
	}
	return append([]byte(nil), answer.Result...), nil
}

// method is the body of a call without parameters.
func method(name string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + name + `","params":[]}`
}
