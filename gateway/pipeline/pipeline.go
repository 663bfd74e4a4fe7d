// Package pipeline is the way of a request through the gateway: the stages it
// passes, the Exchange that they share, and the registry that they are found
// in.
//
// A stage decides and changes nothing but the Exchange: it owns no socket, no
// timer and no goroutine, so its rules are tested as tables.
package pipeline

import (
	"fmt"
	"strings"
	"sync/atomic"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
)

// Stage is one step of the pipeline. What it does is in the methods of Upward
// and Downward; a stage has one of them at least.
type Stage interface {
	// Name is the word in the registry, in logs and in the stage's folder.
	Name() string
}

// Upward is a stage that takes part on the way from the client to a node.
type Upward interface {
	Stage
	// Up is called with Exchange.Cause Received once for each message of the
	// client, acks included: whatever counts messages or requests counts these.
	//
	// With Connect and Replace a session asks where it could go now. It asks as
	// often as it wants to know: several times for one choice, when others take
	// slots meanwhile, ahead of a seam, and again and again while it is held. A
	// stage decides each time, and counts nothing.
	Up(x *Exchange) Step
}

// Downward is a stage that takes part on the way from a node to the client.
type Downward interface {
	Stage
	// Down is called once for each block result that the stages before it let
	// through. Before dedup, a block may come again from another upstream. It must
	// not allocate.
	Down(x *Exchange, r *Result) Step
}

// Step is what a stage wants to happen next. It is kept small, as each block
// brings three: it stays in registers.
type Step struct {
	Do Action
	// Code and Reason are those of the Close frame that CloseClient sends; with
	// EndLink, Reason is the End.
	Code   uint16
	Reason string
}

// End is how the link ends with EndLink.
func (s Step) End() fleet.End { return fleet.End(s.Reason) }

// Action is what a Step does.
type Action uint8

const (
	// Next goes on with the next stage.
	Next Action = iota
	// Done ends the way: the message is dealt with, the result is not passed on.
	Done
	// CloseClient ends the session.
	CloseClient
	// EndLink leaves the upstream; the result is not passed on.
	EndLink
)

// Closing is the step that ends the session with a Close frame.
func Closing(code int, format string, args ...any) Step {
	return Step{Do: CloseClient, Code: uint16(code), Reason: fmt.Sprintf(format, args...)}
}

// Leaving is the step that leaves the upstream.
func Leaving(end fleet.End) Step { return Step{Do: EndLink, Reason: string(end)} }

// Constructor makes a stage for a listener.
type Constructor func(*config.Listener) Stage

// Registry finds the constructors of stages by name.
type Registry map[string]Constructor

// Pipeline is the stages of a listener, in order. It is safe for concurrent
// use.
type Pipeline struct {
	ways atomic.Pointer[ways]
}

// ways are the two ways of a Pipeline at one time.
type ways struct {
	up    []Upward
	down  []Downward
	names []string
}

// Build makes the stages of a listener. up and down are the names in the order
// of the two ways; a name that both have is one stage.
func Build(registry Registry, up, down []string, cfg *config.Listener) (*Pipeline, error) {
	p := &ways{}
	made := map[string]Stage{}
	get := func(name string) (Stage, error) {
		if s := made[name]; s != nil {
			return s, nil
		}
		c := registry[name]
		if c == nil {
			return nil, fmt.Errorf("no stage is called %q", name)
		}
		made[name] = c(cfg)
		return made[name], nil
	}
	for _, name := range up {
		s, err := get(name)
		if err != nil {
			return nil, err
		}
		u, ok := s.(Upward)
		if !ok {
			return nil, fmt.Errorf("stage %q does not take part on the way up", name)
		}
		p.up = append(p.up, u)
	}
	for _, name := range down {
		s, err := get(name)
		if err != nil {
			return nil, err
		}
		d, ok := s.(Downward)
		if !ok {
			return nil, fmt.Errorf("stage %q does not take part on the way down", name)
		}
		p.down = append(p.down, d)
	}
	p.names = []string{"client > " + strings.Join(up, " > ") + " > node", "node > " + strings.Join(down, " > ") + " > client"}
	out := &Pipeline{}
	out.ways.Store(p)
	return out, nil
}

// Become takes over the stages of another pipeline. Who is on the way keeps to
// the old ones until its end.
func (p *Pipeline) Become(other *Pipeline) { p.ways.Store(other.ways.Load()) }

// Order is the two ways as text, for logs.
func (p *Pipeline) Order() []string { return p.ways.Load().names }

// Up takes the Exchange up through the stages until one does not say Next.
func (p *Pipeline) Up(x *Exchange) Step {
	for _, s := range p.ways.Load().up {
		if step := s.Up(x); step.Do != Next {
			return step
		}
	}
	return Step{}
}

// Down takes a result down through the stages until one does not say Next.
func (p *Pipeline) Down(x *Exchange, r *Result) Step {
	for _, s := range p.ways.Load().down {
		if step := s.Down(x, r); step.Do != Next {
			return step
		}
	}
	return Step{}
}
