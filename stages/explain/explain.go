// Package explain tells which upstreams a listener would choose for a request,
// and why, step by step: what plan says of each, which of them the policy is
// asked about, and its order. It asks the stages themselves, and changes
// nothing.
package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/policies"
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

// Answer is what would happen.
type Answer struct {
	Listener string `json:"listener"`
	// Policy is the name of the policy, with its script when it is one.
	Policy string  `json:"policy"`
	Script *Script `json:"script,omitempty"`
	// Head and LIB are the fleet's, 0 while unknown.
	Head    uint32   `json:"head"`
	LIB     uint32   `json:"lib"`
	Request Question `json:"request"`
	// Plan is serve, rest, hold, wait or gap.
	Plan string `json:"plan"`
	// Servers are all of the fleet, in the order of the configuration.
	Servers []Server `json:"servers"`
	// Order is the policy's order of those that it keeps, by name; the first one
	// gets the request.
	Order []string `json:"order"`
	// Steps are the same in sentences.
	Steps []string `json:"steps"`
}

// Script is how the policy's script does.
type Script struct {
	File        string `json:"file"`
	Off         bool   `json:"off"`
	LastFailure string `json:"last_failure,omitempty"`
}

// Server is what becomes of one server.
type Server struct {
	Name   string `json:"name"`
	Online bool   `json:"online"`
	Head   uint32 `json:"head"`
	// Candidate: the plan allows it. Excluded is why not.
	Candidate bool   `json:"candidate"`
	Excluded  string `json:"excluded,omitempty"`
	// Rank is the plan's, lower is better; only those of the lowest are Offered
	// to the policy.
	Rank    int  `json:"rank,omitempty"`
	Offered bool `json:"offered"`
	// Place is its place in the policy's order, from 1 on; 0 is none.
	Place    int   `json:"place,omitempty"`
	Sessions int64 `json:"sessions"`
}

// Policy is what a listener chooses by.
type Policy struct {
	Name      string
	Running   policies.Policy
	Selection *selection.Stage
}

// Ask answers a question about a listener.
func Ask(f *fleet.Fleet, p Policy, q Question) Answer {
	x := exchange(f, q)
	plan.New(nil).(pipeline.Upward).Up(x)
	a := Answer{
		Listener: f.Config().Name, Policy: p.Name, Request: q, Head: x.Tip.Head.Num, LIB: x.Tip.LIB.Num, Plan: decision(x),
		Servers: []Server{}, Order: []string{},
	}
	if r, ok := p.Running.(policies.Reporter); ok {
		report := r.Report()
		a.Script = &Script{File: report.Script, Off: report.Off, LastFailure: report.LastFailure}
	}
	offered, kept := p.Selection.Order(x)
	for i := range x.View.Upstreams {
		u := &x.View.Upstreams[i]
		if u.Removed {
			continue
		}
		s := Server{Name: u.Server.Name, Online: u.Online, Head: u.Head.Num, Sessions: u.Live.Links()}
		for _, c := range x.Candidates {
			if c.Index == i {
				s.Candidate, s.Rank = true, c.Rank
			}
		}
		if !s.Candidate {
			s.Excluded = string(plan.Why(x, i))
		}
		is := func(p *policies.Server) bool { return p.ID == i }
		s.Offered = slices.ContainsFunc(offered, is)
		s.Place = slices.IndexFunc(kept, is) + 1
		a.Servers = append(a.Servers, s)
	}
	for _, s := range kept {
		a.Order = append(a.Order, s.Name)
	}
	a.steps(offered)
	return a
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

// steps writes the answer as sentences.
func (a *Answer) steps(offered []*policies.Server) {
	say := func(format string, args ...any) { a.Steps = append(a.Steps, fmt.Sprintf(format, args...)) }
	var candidates []string
	for _, s := range a.Servers {
		if s.Candidate {
			candidates = append(candidates, fmt.Sprintf("%s (rank %d)", s.Name, s.Rank))
		} else if s.Excluded != "" {
			say("plan leaves out %s: %s", s.Name, s.Excluded)
		} else {
			say("plan leaves out %s", s.Name)
		}
	}
	if len(candidates) == 0 {
		say("plan has no candidate: %s", a.Plan)
		return
	}
	say("plan's candidates are %s", strings.Join(candidates, ", "))
	for _, s := range a.Servers {
		if s.Candidate && !s.Offered {
			say("%s is of a worse rank than others, or offline, and is not offered to the policy", s.Name)
		}
	}
	var names []string
	for _, s := range offered {
		names = append(names, s.Name)
	}
	policy := a.Policy
	if a.Script != nil {
		policy += " (" + a.Script.File + ")"
		if a.Script.Off {
			say("the script %s is switched off after failures: %s", a.Script.File, a.Script.LastFailure)
		}
	}
	say("the policy %s is asked about %s", policy, strings.Join(names, ", "))
	for _, s := range a.Servers {
		if s.Offered && s.Place == 0 {
			say("the policy drops %s", s.Name)
		}
	}
	say("its order is %s; %s gets the request", strings.Join(a.Order, ", "), a.Order[0])
}
