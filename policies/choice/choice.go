// Package choice is the account of which servers a listener would choose for a
// request, and why: data for the API, and the same in sentences. Each protocol
// writes its own, by asking what it asks for a real request (stages/explain,
// chainapi, gateway/evm).
package choice

import (
	"fmt"
	"slices"
	"strings"

	"flotilla/policies"
)

// Answer is what would happen to a request.
type Answer struct {
	Listener string `json:"listener"`
	// Protocol is ship, chain_api or evm.
	Protocol string `json:"protocol"`
	// Policy is the name of the policy; Script is how its script does, when it
	// has one.
	Policy string  `json:"policy"`
	Script *Script `json:"script,omitempty"`
	// Head and LIB are the fleet's, 0 while unknown. EVM has no LIB.
	Head uint64 `json:"head"`
	LIB  uint64 `json:"lib"`
	// Request is what was asked about.
	Request any `json:"request"`
	// Plan is what is to be done: serve; or, in front of a SHiP fleet, rest, hold,
	// wait or gap; hold also where no node of another protocol has the block yet;
	// refuse, where the port itself answers.
	Plan string `json:"plan"`
	// Servers are all of the fleet, in the order of the configuration.
	Servers []Server `json:"servers"`
	// Order are the servers in the order in which they are asked, by name; the
	// first one gets the request.
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
	Head   uint64 `json:"head"`
	// Candidate: the plan allows it. Excluded is why not.
	Candidate bool   `json:"candidate"`
	Excluded  string `json:"excluded,omitempty"`
	// Rank is the plan's, lower is better: those of one rank are equally able.
	Rank int `json:"rank,omitempty"`
	// Offered: the policy is asked about it.
	Offered bool `json:"offered"`
	// Place is its place in Order, from 1 on; 0 is none.
	Place int `json:"place,omitempty"`
	// Sessions are the links of SHiP sessions, InFlight the requests of the other
	// protocols that are under way.
	Sessions int64 `json:"sessions"`
	InFlight int64 `json:"in_flight"`
}

// Under tells by which policy is chosen.
func (a *Answer) Under(name string, p policies.Policy) {
	a.Policy = name
	if r, ok := p.(policies.Reporter); ok {
		report := r.Report()
		a.Script = &Script{File: report.Script, Off: report.Off, LastFailure: report.LastFailure}
	}
}

// Say adds a sentence.
func (a *Answer) Say(format string, args ...any) {
	a.Steps = append(a.Steps, fmt.Sprintf(format, args...))
}

// Planned says whom the plan leaves out and why, and who its candidates are.
func (a *Answer) Planned() {
	var candidates []string
	for _, s := range a.Servers {
		switch {
		case s.Candidate:
			candidates = append(candidates, fmt.Sprintf("%s (rank %d)", s.Name, s.Rank))
		case s.Excluded != "":
			a.Say("plan leaves out %s: %s", s.Name, s.Excluded)
		default:
			a.Say("plan leaves out %s", s.Name)
		}
	}
	if len(candidates) == 0 {
		a.Say("plan has no candidate: %s", a.Plan)
		return
	}
	a.Say("plan's candidates are %s", strings.Join(candidates, ", "))
}

// Asked says what the policy makes of the servers that it is asked about, and
// notes who they are. own is false where the policy kept none.
func (a *Answer) Asked(q Question) {
	policy := a.Policy
	if a.Script != nil {
		policy += " (" + a.Script.File + ")"
		if a.Script.Off {
			a.Say("the script %s is switched off after failures: %s", a.Script.File, a.Script.LastFailure)
		}
	}
	for i := range a.Servers {
		a.Servers[i].Offered = a.Servers[i].Offered || slices.Contains(q.Asked, a.Servers[i].Name)
	}
	a.Say("the policy %s is asked about %s", policy, strings.Join(q.Asked, ", "))
	for _, note := range q.Notes {
		a.Say("the script %s", note)
	}
	if len(q.Kept) == 0 {
		a.Say("the policy keeps none of them, so %s decides", policies.Default)
		return
	}
	for _, name := range q.Asked {
		if !slices.Contains(q.Kept, name) {
			a.Say("the policy drops %s", name)
		}
	}
}

// Chosen sets the order, and says who gets the request.
func (a *Answer) Chosen(order []string) {
	a.Order = append([]string{}, order...)
	for i := range a.Servers {
		a.Servers[i].Place = slices.Index(a.Order, a.Servers[i].Name) + 1
	}
	if len(order) > 0 {
		a.Say("its order is %s; %s gets the request", strings.Join(order, ", "), order[0])
	}
}

// Question is one that a policy was asked, and what it said.
type Question struct {
	// Asked are the servers, and Kept those that the policy has kept, the best
	// first, by name.
	Asked, Kept []string
	// Notes are what it had to say (policies.Request.Notes).
	Notes []string
}

// Recorder asks a policy, so that it remembers nothing of it, and writes down
// what it said. It serves one request.
type Recorder struct {
	policies.Policy
	Questions []Question
}

// Order is policies.Policy.
func (r *Recorder) Order(q *policies.Request, servers []*policies.Server, _ int) []*policies.Server {
	dry := *q
	dry.Dry, dry.Notes = true, nil
	asked := Question{Asked: names(servers)}
	kept := r.Policy.Order(&dry, servers, len(servers))
	asked.Kept, asked.Notes = names(kept), dry.Notes
	r.Questions = append(r.Questions, asked)
	return kept
}

// Headers is policies.HeaderUser.
func (r *Recorder) Headers() []string { return policies.HeadersOf(r.Policy) }

func names(servers []*policies.Server) (list []string) {
	for _, s := range servers {
		list = append(list, s.Name)
	}
	return list
}
