// Package explain tells which upstreams a SHiP listener would choose for a
// request, and why, step by step: what plan says of each, which of them the
// policy is asked about, and its order. It asks the stages themselves, and
// changes nothing.
package explain

import (
	"math"
	"slices"
	"strings"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/policies"
	"flotilla/policies/choice"
	"flotilla/stages/plan"
	"flotilla/stages/selection"
)

// Question is a request that might be made. Without StartBlock it is a client
// that has just connected.
type Question struct {
	Session uint64            `json:"session,omitempty"`
	Client  string            `json:"client,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`

	StartBlock   *uint32 `json:"start_block,omitempty"`
	EndBlock     *uint32 `json:"end_block,omitempty"`
	Blocks       bool    `json:"blocks,omitempty"`
	Traces       bool    `json:"traces,omitempty"`
	Deltas       bool    `json:"deltas,omitempty"`
	Finality     bool    `json:"finality,omitempty"`
	Irreversible bool    `json:"irreversible,omitempty"`
}

// Fields are the names of a Question's fields, for messages.
const Fields = "session, client, headers, start_block, end_block, blocks, traces, deltas, finality, irreversible"

// Ask answers a question about a listener, whose policy p has that name.
func Ask(f *fleet.Fleet, name string, p policies.Policy, q Question) choice.Answer {
	x := exchange(f, q)
	plan.New(nil).(pipeline.Upward).Up(x)
	a := choice.Answer{
		Listener: f.Config().Name, Protocol: "ship", Request: q, Head: uint64(x.Tip.Head.Num), LIB: uint64(x.Tip.LIB.Num), Plan: decision(x),
		Servers: []choice.Server{}, Order: []string{},
	}
	a.Under(name, p)
	for i := range x.View.Upstreams {
		if u := &x.View.Upstreams[i]; !u.Removed {
			a.Servers = append(a.Servers, server(x, i, u))
		}
	}
	a.Planned()
	r := &choice.Recorder{Policy: p}
	offered, kept := selection.With(f.Config(), r).Order(x)
	if len(kept) == 0 {
		return a
	}
	for i := range a.Servers {
		s := &a.Servers[i]
		s.Offered = slices.ContainsFunc(offered, func(o *policies.Server) bool { return o.Name == s.Name })
		if s.Candidate && !s.Offered {
			a.Say("%s is of a worse rank than others, or offline, and is not offered to the policy", s.Name)
		}
	}
	for _, asked := range r.Questions {
		a.Asked(asked)
	}
	if len(r.Questions) == 0 {
		a.Say("%s is the only one, so the policy is not asked", offered[0].Name)
	}
	var order []string
	for _, s := range kept {
		order = append(order, s.Name)
	}
	a.Chosen(order)
	return a
}

// server is what the plan says of upstream i.
func server(x *pipeline.Exchange, i int, u *fleet.Upstream) choice.Server {
	s := choice.Server{Name: u.Server.Name, Online: u.Online, Head: uint64(u.Head.Num), Sessions: u.Live.Links()}
	for _, c := range x.Candidates {
		if c.Index == i {
			s.Candidate, s.Rank = true, c.Rank
		}
	}
	if !s.Candidate {
		s.Excluded = string(plan.Why(x, i))
	}
	return s
}

// exchange is that of a new session with the question's request.
func exchange(f *fleet.Fleet, q Question) *pipeline.Exchange {
	x := &pipeline.Exchange{
		Session: max(q.Session, 1), Client: pipeline.Client{Address: q.Client, Headers: map[string]string{}},
		Stitched: f.Config().Stitched(), View: f.View(), Tip: f.Pair(), Now: time.Now(), Cause: pipeline.Connect,
	}
	for name, value := range q.Headers {
		x.Client.Headers[strings.ToLower(name)] = value
	}
	x.Pick, x.Current, x.Soft = pipeline.None, pipeline.None, pipeline.None
	x.Retained, x.Standby, x.Link.Upstream = pipeline.None, pipeline.None, pipeline.None
	if q.StartBlock == nil {
		return x
	}
	want := ship.BlocksRequest{
		V1: q.Finality, Start: *q.StartBlock, End: math.MaxUint32, MaxInFlight: math.MaxUint32,
		FetchBlock: q.Blocks, FetchTraces: q.Traces, FetchDeltas: q.Deltas, FetchFinality: q.Finality, Irreversible: q.Irreversible,
	}
	if q.EndBlock != nil {
		want.End = *q.EndBlock
	}
	x.Asked, x.Want, x.Cursor, x.Fresh = true, want, want.Start, true
	if x.Stitched {
		x.Cause = pipeline.Replace
		return x
	}
	x.Cause, x.Request = pipeline.Received, ship.Request{Variant: ship.BlocksRequestV0, Blocks: want}
	if want.V1 {
		x.Request.Variant = ship.BlocksRequestV1
	}
	return x
}

func decision(x *pipeline.Exchange) string {
	switch {
	case !x.Stitched && len(x.Candidates) == 0:
		return "hold"
	case !x.Stitched:
		return "serve"
	}
	return [...]string{"serve", "rest", "hold", "wait", "gap"}[x.Plan.Do]
}
