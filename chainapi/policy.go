package chainapi

import (
	"bytes"
	"time"

	"flotilla/policies"
)

// asker asks the policy of a listener about the candidates of a request. A nil
// one stands for a listener that leaves it to the built-in order.
type asker struct {
	policies.Round
	policy policies.Policy
	port   *Port
	tier   []*API
	// head is the highest that is known, now the moment of the request.
	head uint32
	now  time.Time
}

// setPolicy takes the policy of the listener; nil, and the default one, are the
// built-in order.
func (s *settings) setPolicy(p policies.Policy) {
	if _, plain := p.(*policies.LeastConnections); plain || p == nil {
		return
	}
	s.policy = p
	for _, name := range policies.HeadersOf(p) {
		s.headers = append(s.headers, []byte(name))
	}
}

// asker is who asks the policy for the request; nil when there is none. done
// gives it back.
func (x *exchange) asker(v *View, head uint32) *asker {
	if x.s.policy == nil {
		return nil
	}
	for i := range v.APIs {
		head = max(head, v.APIs[i].head())
	}
	a := x.p.askers.Get().(*asker)
	a.policy, a.port, a.head, a.now = x.s.policy, x.p, head, x.start
	a.Request = policies.Request{
		Protocol: "chain_api", Listener: x.s.Name, Session: x.p.asked.Add(1), Class: string(x.class), Path: a.Text(x.path),
		Start: policies.NoBlock, End: policies.NoBlock,
	}
	a.Address(x.c.raw.RemoteAddr())
	a.ForgetHeaders()
	if len(x.s.headers) == 0 {
		return a
	}
	for key, value := range x.c.head.All() {
		for _, name := range x.s.headers {
			if bytes.EqualFold(key, name) {
				a.SetHeader(a.Text(name), a.Text(value[:min(len(value), policies.MaxHeader)]))
			}
		}
	}
	return a
}

// about tells of the block that the request is for.
func (a *asker) about(block uint32) {
	if a != nil {
		a.Request.Start, a.Request.End = uint64(block), uint64(block)+1
	}
}

func (a *asker) done() {
	if a == nil {
		return
	}
	clear(a.tier)
	a.policy = nil
	a.port.askers.Put(a)
}

// order is what the policy makes of a tier, which it overwrites. Those that it
// leaves out are not asked.
func (a *asker) order(tier []*API) []*API {
	a.tier = append(a.tier[:0], tier...)
	a.Reset(len(tier))
	for _, api := range tier {
		api.describe(a.Add(), a.head, a.now)
	}
	kept, _ := a.Ask(a.policy, len(tier))
	for i, s := range kept {
		tier[i] = a.tier[a.Place(s)]
	}
	return tier[:len(kept)]
}

// describe tells a policy of an upstream API, as it is now.
func (a *API) describe(s *policies.Server, top uint32, now time.Time) {
	head := a.head()
	*s = policies.Server{
		ID: a.link.id, Name: a.Server.Name, Endpoint: a.Server.APIEndpoint, Labels: a.Server.Labels, Role: string(a.Server.Role),
		Priority: a.Priority, Weight: a.Weight,
		Head: uint64(head), LIB: uint64(a.LIB), Lag: uint64(max(top, head) - head),
		Traces: policies.Range{Begin: uint64(a.Blocks.Begin), End: uint64(a.Blocks.End)},
		Run:    policies.NoBlock, InFlight: a.link.slots.used(), Latency: a.link.latency.Value(), Errors: a.link.errors.Count(now),
		Online: a.Up(),
	}
	if isLive(a) && a.Earliest > 0 {
		s.Traces = policies.Range{Begin: uint64(a.Earliest), End: uint64(head) + 1}
	}
}
