// Package trial runs a script on described fleets and requests, without a
// gateway: for "flotilla policy test", and for tests of scripts.
package trial

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"flotilla/policies"
	"flotilla/policies/lua"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
)

// Case is a fleet, a request, and what is expected of it.
type Case struct {
	Name    string    `hcl:"name,label"`
	Request *Request  `hcl:"request,block"`
	Servers []*Server `hcl:"server,block"`
	// Expect are the names of the servers in the order that is right; nil is
	// anything.
	Expect []string `hcl:"expect,optional"`
}

// Request is a policies.Request as a case describes it.
type Request struct {
	Protocol     string            `hcl:"protocol,optional"`
	Listener     string            `hcl:"listener,optional"`
	Session      uint64            `hcl:"session,optional"`
	Client       string            `hcl:"client,optional"`
	Headers      map[string]string `hcl:"headers,optional"`
	StartBlock   *uint64           `hcl:"start_block,optional"`
	EndBlock     *uint64           `hcl:"end_block,optional"`
	Traces       bool              `hcl:"traces,optional"`
	Deltas       bool              `hcl:"deltas,optional"`
	Finality     bool              `hcl:"finality,optional"`
	Irreversible bool              `hcl:"irreversible,optional"`
	Class        string            `hcl:"class,optional"`
	Path         string            `hcl:"path,optional"`
	Methods      []string          `hcl:"methods,optional"`
}

// Server is a policies.Server as a case describes it. Without a head it is at
// the fleet's; logs begin at block 1 and end with the head.
type Server struct {
	Name        string            `hcl:"name,label"`
	Endpoint    string            `hcl:"endpoint,optional"`
	Labels      map[string]string `hcl:"labels,optional"`
	Role        string            `hcl:"role,optional"`
	Priority    uint32            `hcl:"priority,optional"`
	Weight      *uint32           `hcl:"weight,optional"`
	MaxSessions int               `hcl:"max_sessions,optional"`
	Head        *uint64           `hcl:"head,optional"`
	LIB         *uint64           `hcl:"lib,optional"`
	FirstBlock  *uint64           `hcl:"first_block,optional"`
	Sessions    int64             `hcl:"sessions,optional"`
	InFlight    int64             `hcl:"in_flight,optional"`
	Latency     string            `hcl:"latency,optional"`
	Errors      int               `hcl:"errors,optional"`
	Stale       bool              `hcl:"stale,optional"`
	Quarantined bool              `hcl:"quarantined,optional"`
}

// defaultHead is that of a fleet without any.
const defaultHead = 1000

// Cases reads a file of case blocks. The error names file, line and column.
func Cases(name string, text []byte) ([]Case, error) {
	file, diags := hclparse.NewParser().ParseHCL(text, name)
	if diags.HasErrors() {
		return nil, problems(diags)
	}
	var doc struct {
		Cases []Case `hcl:"case,block"`
	}
	if diags := gohcl.DecodeBody(file.Body, nil, &doc); diags.HasErrors() {
		return nil, problems(diags)
	}
	if len(doc.Cases) == 0 {
		return nil, fmt.Errorf(`%s has no case; case "name" { server "a" {} } is expected`, name)
	}
	for i := range doc.Cases {
		if err := doc.Cases[i].check(); err != nil {
			return nil, fmt.Errorf("%s: case %q: %w", name, doc.Cases[i].Name, err)
		}
	}
	return doc.Cases, nil
}

func problems(diags hcl.Diagnostics) error {
	var all []error
	for _, d := range diags {
		at := ""
		if d.Subject != nil {
			at = fmt.Sprintf("%s:%d:%d: ", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
		}
		all = append(all, fmt.Errorf("%s%s: %s", at, d.Summary, d.Detail))
	}
	return errors.Join(all...)
}

func (c *Case) check() error {
	if len(c.Servers) == 0 {
		return errors.New("it has no server")
	}
	names := map[string]bool{}
	for _, s := range c.Servers {
		if names[s.Name] {
			return fmt.Errorf("it has two servers %q", s.Name)
		}
		names[s.Name] = true
		if _, err := time.ParseDuration(s.Latency); s.Latency != "" && err != nil {
			return fmt.Errorf("server %q: the latency %q is no time, such as \"5ms\"", s.Name, s.Latency)
		}
		if s.Weight != nil && *s.Weight == 0 {
			return fmt.Errorf("server %q: the weight is at least 1", s.Name)
		}
	}
	for _, name := range c.Expect {
		if !names[name] {
			return fmt.Errorf("it expects %q, which is none of its servers", name)
		}
	}
	return nil
}

// Result is what a script made of a case.
type Result struct {
	// Before is the built-in order, After that of the script; Dropped are those
	// that it left out. When it Failed, After is the built-in order too.
	Before, After, Dropped []string
	Failed                 string
	// Took is the time of a call, the shortest of a few.
	Took time.Duration
}

// Right reports whether the script did not fail, and made what is expected.
func (r *Result) Right(c *Case) bool {
	return r.Failed == "" && (c.Expect == nil || slices.Equal(c.Expect, r.After))
}

// Script is a script that has been loaded.
type Script struct{ policy *lua.Policy }

// Load loads a script from a file. What it logs goes to log.
func Load(path string, log io.Writer) (*Script, error) {
	p := &lua.Policy{Script: path, Timeout: "1s"}
	if err := p.Load(read); err != nil {
		return nil, err
	}
	lines := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "policy" {
			return slog.Attr{}
		}
		return a
	}}))
	if err := p.Provision(policies.Env{Listener: "test", Log: lines}); err != nil {
		return nil, err
	}
	return &Script{p}, nil
}

func read(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}

// timed is how often a call is repeated to time it.
const timed = 20

// Run asks the script about a case, and times it.
func (s *Script) Run(c *Case) Result {
	out := s.Ask(c)
	dry, servers := *c.request(), c.fleet()
	dry.Dry = true
	for range timed {
		began := time.Now()
		s.policy.Order(&dry, slices.Clone(servers), len(servers))
		if took := time.Since(began); out.Took == 0 || took < out.Took {
			out.Took = took
		}
	}
	return out
}

// Ask is Run without a time.
func (s *Script) Ask(c *Case) Result {
	r := c.request()
	var out Result
	servers := c.fleet()
	(&policies.LeastConnections{}).Order(r, servers, len(servers))
	out.Before = names(servers)
	before := s.policy.Report()
	kept := s.policy.Order(r, slices.Clone(servers), len(servers))
	after := s.policy.Report()
	out.After = names(kept)
	for _, name := range out.Before {
		if !slices.Contains(out.After, name) {
			out.Dropped = append(out.Dropped, name)
		}
	}
	for kind, n := range after.Failures {
		if n > before.Failures[kind] {
			if out.Failed = after.LastFailure; kind == string(lua.KindEmpty) {
				out.Failed = "the script keeps no server, so the built-in order counts"
			}
		}
	}
	if after.Off {
		out.Failed += " (it has failed so often that a gateway would have switched it off)"
	}
	return out
}

func names(servers []*policies.Server) (list []string) {
	for _, s := range servers {
		list = append(list, s.Name)
	}
	return list
}

// request is the case's, with what it leaves out.
func (c *Case) request() *policies.Request {
	q := c.Request
	if q == nil {
		q = &Request{}
	}
	r := &policies.Request{
		Protocol: or(q.Protocol, "ship"), Listener: or(q.Listener, "test"), Session: max(q.Session, 1), Client: or(q.Client, "127.0.0.1"),
		Headers: map[string]string{}, Start: policies.NoBlock, End: policies.NoBlock,
		Traces: q.Traces, Deltas: q.Deltas, Finality: q.Finality, Irreversible: q.Irreversible, Class: q.Class, Path: q.Path, Methods: q.Methods,
	}
	for name, value := range q.Headers {
		r.Headers[strings.ToLower(name)] = value
	}
	if q.StartBlock != nil {
		r.Start = *q.StartBlock
	}
	if q.EndBlock != nil {
		r.End = *q.EndBlock
	}
	return r
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// fleet is the case's servers, with what it leaves out.
func (c *Case) fleet() (list []*policies.Server) {
	head := uint64(0)
	for _, s := range c.Servers {
		if s.Head != nil {
			head = max(head, *s.Head)
		}
	}
	if head == 0 {
		head = defaultHead
	}
	for i, s := range c.Servers {
		to := &policies.Server{
			ID: i, Name: s.Name, Endpoint: or(s.Endpoint, s.Name+":8080"), Labels: s.Labels, Role: or(s.Role, "live"), Priority: s.Priority, Weight: 1,
			MaxSessions: s.MaxSessions, Head: head, Run: policies.NoBlock, Sessions: s.Sessions, InFlight: s.InFlight, Errors: s.Errors,
			Online: true, Stale: s.Stale, Quarantined: s.Quarantined,
		}
		if s.Weight != nil {
			to.Weight = *s.Weight
		}
		if s.Head != nil {
			to.Head = *s.Head
		}
		to.LIB, to.Lag = to.Head, head-to.Head
		if s.LIB != nil {
			to.LIB = *s.LIB
		}
		logs := policies.Range{Begin: 1, End: to.Head + 1}
		if s.FirstBlock != nil {
			logs.Begin = *s.FirstBlock
		}
		to.Traces, to.Deltas = logs, logs
		// check has seen to it.
		to.Latency, _ = time.ParseDuration(or(s.Latency, "0s"))
		list = append(list, to)
	}
	return list
}

// Example is the file of cases for those who give none.
const Example = `
case "a client that has just connected" {
  server "r1-big" {
    labels   = { rack = "r1", size = "big" }
    sessions = 3
  }
  server "r2-big" { labels = { rack = "r2", size = "big" } }
  server "r1-small" {
    labels   = { rack = "r1", size = "small" }
    sessions = 1
    latency  = "4ms"
  }
}

case "a reader of old blocks" {
  request {
    start_block = 2
    traces      = true
    client      = "10.0.0.7"
  }
  server "r1-big" {
    labels   = { rack = "r1", size = "big" }
    sessions = 3
  }
  server "r2-big" { labels = { rack = "r2", size = "big" } }
  server "r1-small" {
    labels   = { rack = "r1", size = "small" }
    sessions = 1
    latency  = "4ms"
  }
}
`
