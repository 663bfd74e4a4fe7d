package evm

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"flotilla/gateway/config"
	"flotilla/gateway/evm/jsonrpc"
	"flotilla/policies"
	"flotilla/policies/choice"
)

// Imagined is a request that might be made: the body that a client would send,
// one call or a batch.
type Imagined struct {
	Body json.RawMessage `json:"body"`
	// Client is an address, and Headers are the request's.
	Client  string            `json:"client,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// ImaginedFields are the names of the fields of Imagined, for messages.
const ImaginedFields = "body, client, headers"

// Explain tells which nodes would be asked for a request, and why; name is that
// of the policy. It plans as for a real one, asks nobody, and changes nothing.
// The error is that of a body that is no JSON-RPC.
func (l *Listener) Explain(q Imagined, name string) (choice.Answer, error) {
	j := &job{}
	j.request.Body = q.Body
	j.decode()
	if !j.readable || len(j.calls) == 0 {
		return choice.Answer{}, jsonrpc.ErrNotRead
	}
	if ip := net.ParseIP(q.Client); ip != nil {
		j.from = &net.TCPAddr{IP: ip}
	}
	j.handshake = http.Header{}
	for key, value := range q.Headers {
		j.handshake.Set(key, value)
	}
	v, now := l.View(), l.chooser.Load()
	e := explanation{l: l, v: v, j: j, answer: choice.Answer{Listener: l.Config().Name, Protocol: "evm", Request: q, Head: v.Tip, Plan: "serve",
		Servers: []choice.Server{}, Order: []string{}}}
	e.answer.Under(name, now.policy)
	e.record.Policy = now.policy
	if e.record.Policy == nil {
		e.record.Policy = &policies.LeastConnections{}
	}
	e.explain()
	return e.answer, nil
}

// explanation is one on its way.
type explanation struct {
	l      *Listener
	v      *View
	j      *job
	w      want
	record choice.Recorder
	answer choice.Answer
}

func (e *explanation) explain() {
	// why is set where the policy is not asked.
	why := ""
	var call *jsonrpc.Call
	var need jsonrpc.Need
	if !e.j.batch {
		call = &e.j.calls[0]
		need = e.need(call)
		e.w = e.l.plan(need)
	} else {
		for i := range e.j.calls {
			e.j.needs = append(e.j.needs, e.need(&e.j.calls[i]))
			e.w = e.w.and(e.l.plan(e.j.needs[i]))
		}
	}
	switch first := e.j.calls[0].Method; {
	case e.l.Config().Routing == config.RouteFreshest:
		e.w = want{}
		why = `with routing = "freshest" the freshest node is asked, and then the next one; the policy is not`
	case string(first) == "eth_subscribe" || string(first) == "eth_unsubscribe":
		why = "subscriptions are not a matter of the policy"
	case usesFilter(first):
		why = "the node that has the filter is asked, whatever the policy says"
	}
	e.answer.Say("the request %s", e.wanted())
	for _, n := range e.v.Nodes {
		e.answer.Servers = append(e.answer.Servers, e.server(n))
	}
	if !slices.ContainsFunc(e.answer.Servers, func(s choice.Server) bool { return s.Candidate }) {
		e.answer.Plan = "hold"
		if len(e.v.Pool) == 0 {
			e.answer.Plan = "refuse"
		}
		e.answer.Planned()
		if e.j.batch && len(e.v.Pool) > 0 {
			e.answer.Say("no node has what all calls of the batch need, so each one is sent by itself; ask about each")
		}
		return
	}
	e.answer.Planned()
	if why != "" {
		e.answer.Say("%s", why)
		e.answer.Chosen(e.fit())
		return
	}
	e.answer.Chosen(e.order(call, &need))
}

// need is what a call needs, with the blocks that clients were told in the place
// of tags.
func (e *explanation) need(call *jsonrpc.Call) jsonrpc.Need {
	need := jsonrpc.NeedOf(call)
	e.l.heads.settle(&need, func([]byte, uint64) {})
	return need
}

// wanted says what a node must have.
func (e *explanation) wanted() string {
	var methods, parts []string
	for i := range e.j.calls {
		methods = append(methods, string(e.j.calls[i].Method))
	}
	text := "calls " + strings.Join(methods, ", ")
	if e.w.height > 0 {
		parts = append(parts, fmt.Sprintf("block %d", e.w.height))
	}
	if e.w.bounded {
		what := "the blocks"
		if e.w.state {
			what = "the state"
		}
		parts = append(parts, fmt.Sprintf("%s from block %d on", what, e.w.lowest))
	}
	if len(parts) == 0 {
		return text + "; any node will do"
	}
	return text + "; a node must have " + strings.Join(parts, " and ")
}

// server is what the plan says of a node. Ranks are bands of nodes of one
// height.
func (e *explanation) server(n *NodeView) choice.Server {
	s := choice.Server{Name: n.Server.Name, Online: n.State.Known, Head: n.head.Load(), InFlight: n.InFlight()}
	at := slices.Index(e.v.Pool, n)
	switch {
	case n.Aside != "":
		s.Excluded = "it is not believed: " + n.Aside
	case at < 0 && n.State.Err != "":
		s.Excluded = "it is not healthy: " + n.State.Err
	case at < 0:
		s.Excluded = "it is not healthy"
	case !n.reached(e.w):
		s.Excluded = fmt.Sprintf("it does not have block %d yet", e.w.height)
	case !n.reaches(e.w) && e.w.state:
		s.Excluded = fmt.Sprintf("it has not kept the state at block %d", e.w.lowest)
	case !n.reaches(e.w):
		s.Excluded = fmt.Sprintf("it has not kept block %d", e.w.lowest)
	default:
		s.Candidate = true
		for i := 1; i <= at; i++ {
			if !sameHeight(e.v.Pool[i-1], e.v.Pool[i]) {
				s.Rank++
			}
		}
	}
	return s
}

// fit are the names of the nodes that can answer, in the order of the pool.
func (e *explanation) fit() (names []string) {
	for _, n := range e.v.Pool {
		if n.fits(e.w, nil) {
			names = append(names, n.Server.Name)
		}
	}
	return names
}

// order asks the policy about the freshest nodes that can answer. The others
// come behind those, and what the policy has dropped behind what it keeps: it is
// asked again when a node has failed.
func (e *explanation) order(call *jsonrpc.Call, need *jsonrpc.Need) []string {
	c := newChooser(e.answer.Listener, &e.record)
	var r round
	first := c.ask(&r, e.v, e.w, e.j, call, need)
	fit := e.fit()
	for i := range e.answer.Servers {
		s := &e.answer.Servers[i]
		if s.Candidate && !slices.ContainsFunc(r.band, func(n *NodeView) bool { return n.Server.Name == s.Name }) {
			e.answer.Say("%s is not as fresh as others, and is asked when those have been tried", s.Name)
		}
	}
	order := []string{first.Server.Name}
	for _, asked := range e.record.Questions {
		e.answer.Asked(asked)
		order = append(order, asked.Kept...)
	}
	if len(e.record.Questions) == 0 {
		e.answer.Say("%s is the only one of its height, so the policy is not asked", first.Server.Name)
	} else if _, plain := e.record.Policy.(*policies.LeastConnections); plain {
		e.answer.Say("of the nodes of the best priority it takes the less loaded one of two drawn by weight, so another one may come first")
	}
	var list []string
	for _, name := range slices.Concat(order, fit) {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
