package evm

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/evm/jsonrpc"
	"flotilla/policies"
)

// chooser asks the policy of a listener. The freshest nodes that can answer come
// first; among those that are equally fresh the policy decides.
type chooser struct {
	listener string
	// policy is nil for the built-in way, leastLoaded.
	policy policies.Policy
	// headers are those that the policy wants to see, in lower case and as
	// net/http writes them.
	headers [][2]string
	// asked counts the questions.
	asked atomic.Uint64
	// rounds holds *round between calls.
	rounds sync.Pool
}

// round is what one question needs.
type round struct {
	policies.Round
	band    []*NodeView
	methods []string
}

// newChooser asks a policy; nil, and the default policy, are the built-in way.
func newChooser(listener string, policy policies.Policy) *chooser {
	c := &chooser{listener: listener, rounds: sync.Pool{New: func() any { return &round{} }}}
	if _, plain := policy.(*policies.LeastConnections); plain || policy == nil {
		return c
	}
	c.policy = policy
	for _, name := range policies.HeadersOf(policy) {
		c.headers = append(c.headers, [2]string{name, http.CanonicalHeaderKey(name)})
	}
	return c
}

// choose is the node to ask for a request; nil when none is fit that has not
// been tried. call is nil for a batch, whose needs the job has.
func (c *chooser) choose(v *View, w want, j *job, call *jsonrpc.Call, need *jsonrpc.Need) *NodeView {
	if c.policy == nil {
		return choose(v, w, j.tried)
	}
	r := c.rounds.Get().(*round)
	defer c.rounds.Put(r)
	return c.ask(r, v, w, j, call, need)
}

// ask is choose with a policy, in a round's space.
func (c *chooser) ask(r *round, v *View, w want, j *job, call *jsonrpc.Call, need *jsonrpc.Need) *NodeView {
	clear(r.band)
	r.band = r.band[:0]
	for at := 0; at < len(v.Pool) && len(r.band) == 0; {
		first := v.Pool[at]
		for ; at < len(v.Pool) && sameHeight(first, v.Pool[at]); at++ {
			if n := v.Pool[at]; n.fits(w, j.tried) {
				r.band = append(r.band, n)
			}
		}
	}
	switch len(r.band) {
	case 0:
		return nil
	case 1:
		return r.band[0]
	}
	c.describe(r, j, call, need)
	now := time.Now()
	r.Reset(len(r.band))
	for _, n := range r.band {
		n.describe(r.Add(), v.Tip, now)
	}
	kept, _ := r.Ask(c.policy, 1)
	return r.band[r.Place(kept[0])]
}

// sameHeight reports whether two nodes are equally fresh for a policy, which
// looks at priorities itself.
func sameHeight(a, b *NodeView) bool {
	return a.State.Known == b.State.Known && a.State.Height == b.State.Height
}

// describe tells the policy of a request.
func (c *chooser) describe(r *round, j *job, call *jsonrpc.Call, need *jsonrpc.Need) {
	r.Request = policies.Request{Protocol: "evm", Listener: c.listener, Session: c.asked.Add(1), Start: policies.NoBlock, End: policies.NoBlock}
	r.Address(j.from)
	r.ForgetHeaders()
	for _, name := range c.headers {
		if value := j.header(&r.Round, name); value != "" {
			r.SetHeader(name[0], value)
		}
	}
	r.methods = r.methods[:0]
	if call != nil {
		r.methods = append(r.methods, r.Text(call.Method))
		r.span(need)
	} else {
		for i := range j.calls {
			r.methods = append(r.methods, r.Text(j.calls[i].Method))
		}
		for i := range j.needs {
			r.span(&j.needs[i])
		}
	}
	r.Request.Methods = r.methods
}

// span widens the blocks of the request to those that a call names.
func (r *round) span(need *jsonrpc.Need) {
	if !need.Named {
		return
	}
	q := &r.Request
	// The highest number has no end.
	end := max(need.Highest, need.Highest+1)
	if q.Start == policies.NoBlock && q.End == policies.NoBlock {
		q.Start, q.End = need.Lowest, end
		return
	}
	q.Start, q.End = min(q.Start, need.Lowest), max(q.End, end)
}

// header is one of the client's: of its request, or of the handshake of its
// WebSocket.
func (j *job) header(r *policies.Round, name [2]string) string {
	switch {
	case j.request.Header != nil:
		value := j.request.Header.Peek(name[1])
		return r.Text(value[:min(len(value), policies.MaxHeader)])
	case len(j.handshake[name[1]]) > 0:
		return j.handshake[name[1]][0]
	}
	return ""
}

// describe tells a policy of a node. The endpoint is without its path, which may
// hold a key.
func (n *NodeView) describe(s *policies.Server, tip uint64, now time.Time) {
	cfg, head := n.Server, n.head.Load()
	*s = policies.Server{
		ID: n.id, Name: cfg.Name, Endpoint: n.host, Labels: cfg.Labels, Role: "live", Priority: cfg.Priority, Weight: cfg.Weight,
		Head: head, Lag: max(tip, head) - head,
		Traces: policies.Range{Begin: min(n.blocksFrom.Load(), head), End: head + 1},
		Deltas: policies.Range{Begin: min(n.statesFrom.Load(), head), End: head + 1},
		Run:    policies.NoBlock, InFlight: n.inFlight.Load(), Latency: n.latency.Value(), Errors: n.errors.Count(now),
		Online: n.State.Known,
	}
}
