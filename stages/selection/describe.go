package selection

import (
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/policies"
)

// describe tells a policy of the exchange's request. Before a client has asked
// for blocks there is none.
func describe(r *policies.Request, listener string, x *pipeline.Exchange) {
	*r = policies.Request{
		Protocol: "ship", Listener: listener, Session: x.Session, Client: x.Client.Address, Headers: x.Client.Headers,
		Start: policies.NoBlock, End: policies.NoBlock,
	}
	q, start := &x.Want, x.Cursor
	switch {
	case x.Cause == pipeline.Received:
		q = &x.Request.Blocks
		start = q.Start
	case x.Block() == fleet.NoBlock:
		return
	}
	r.Start, r.End = uint64(start), uint64(q.End)
	r.Traces, r.Deltas, r.Finality, r.Irreversible = q.FetchTraces, q.FetchDeltas, q.FetchFinality, q.Irreversible
}

// Server tells a policy of a candidate, as it is now.
func Server(s *policies.Server, x *pipeline.Exchange, c pipeline.Candidate) {
	u := &x.View.Upstreams[c.Index]
	cfg := u.Server
	*s = policies.Server{
		ID: c.Index, Name: cfg.Name, Endpoint: cfg.Endpoint, Labels: cfg.Labels, Role: string(cfg.Role),
		Priority: cfg.Priority, Weight: cfg.Weight, MaxSessions: cfg.MaxSessions,
		Head: uint64(u.Head.Num), LIB: uint64(u.LIB.Num),
		Traces: blocks(u.Trace), Deltas: blocks(u.ChainState), Finality: blocks(u.Finality),
		Run:      uint64(c.Run),
		Linked:   x.Own(c.Index),
		Sessions: u.Live.Links(), Latency: u.Live.Latency.Value(), Errors: u.Live.Errors.Count(x.Now),
		Online: u.Online, Stale: u.Stale, Quarantined: len(u.Quarantines) > 0,
	}
	if head := x.Tip.Head.Num; head > u.Head.Num {
		s.Lag = uint64(head - u.Head.Num)
	}
}

func blocks(r ship.Range) policies.Range {
	return policies.Range{Begin: uint64(r.Begin), End: uint64(r.End)}
}
