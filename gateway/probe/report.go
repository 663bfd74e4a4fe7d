package probe

import (
	"context"
	"fmt"
	"sync/atomic"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/dial"

	"golang.org/x/sync/errgroup"
)

// Chain is how the chain id of a server compares.
type Chain string

// The comparisons. Without a pinned chain_id the first server of the listener
// that reports an id decides.
const (
	ChainUnknown Chain = "unknown"
	ChainMatch   Chain = "match"
	ChainWrong   Chain = "wrong"
)

// Server is what the probe of one server gave.
type Server struct {
	*config.Server
	Result
	// Err is why it failed, nil when all steps went well.
	Err error
	// Probed is false for servers that are disabled or have no endpoint.
	Probed bool
	Chain  Chain
}

// Reported tells whether the ranges of the status count: the server answered,
// is on the right chain, and has blocks.
func (s *Server) Reported() bool {
	return s.Probed && s.Err == nil && s.Chain != ChainWrong && s.Status.Head.Num > 0
}

// Listener is what the probes of one listener gave.
type Listener struct {
	*config.Listener
	// Servers are in the order of the configuration.
	Servers []*Server
	// Coverage is what the servers hold together.
	Coverage Coverage
}

// Report is what the probes of a configuration gave.
type Report struct {
	// Listeners are those for SHiP, EVM those for EVM JSON-RPC, each in the order
	// of the configuration.
	Listeners []*Listener
	EVM       []*EVM
}

// width is how many servers are probed at once.
const width = 16

// All probes every enabled server of a configuration side by side. done, which
// may be nil, is called after each of them, by any goroutine. It returns when
// all have ended; ctx ends them early, with its error in each.
func All(ctx context.Context, cfg *config.Config, trust dial.Trust, done func(count, total int)) *Report {
	report := &Report{}
	var todo []func()
	for _, l := range cfg.Listeners {
		listener, probes := newListener(ctx, l, trust)
		report.Listeners, todo = append(report.Listeners, listener), append(todo, probes...)
	}
	for _, l := range cfg.EVM {
		listener, probes := newEVM(ctx, l, trust)
		report.EVM, todo = append(report.EVM, listener), append(todo, probes...)
	}
	var group errgroup.Group
	group.SetLimit(width)
	var count atomic.Int64
	for _, run := range todo {
		group.Go(func() error {
			run()
			if n := count.Add(1); done != nil {
				done(int(n), len(todo))
			}
			return nil
		})
	}
	// The functions return no error: each server keeps its own.
	_ = group.Wait()
	for _, l := range report.Listeners {
		l.compareChains()
		l.Coverage = cover(l.Servers)
	}
	for _, l := range report.EVM {
		l.compare()
	}
	return report
}

// newListener makes the report of a listener, and the probes that fill it.
func newListener(ctx context.Context, l *config.Listener, trust dial.Trust) (report *Listener, probes []func()) {
	report = &Listener{Listener: l}
	for _, server := range l.Servers {
		s := &Server{Server: server, Probed: server.Enabled && server.URL != "", Chain: ChainUnknown}
		report.Servers = append(report.Servers, s)
		if s.Probed {
			probes = append(probes, func() {
				s.Result, s.Err = Probe(ctx, s.URL, l.ConnectTimeout(), l.MaxMessage, trust)
			})
		}
	}
	return report, probes
}

func (l *Listener) compareChains() {
	var want *ship.ID
	if l.ChainID != nil {
		want = (*ship.ID)(l.ChainID)
	}
	for _, s := range l.Servers {
		if !s.Probed || s.Err != nil || !s.Status.HasChainID {
			continue
		}
		switch {
		case want == nil:
			want = &s.Status.ChainID
			s.Chain = ChainMatch
		case *want == s.Status.ChainID:
			s.Chain = ChainMatch
		default:
			s.Chain = ChainWrong
		}
	}
}

// Label is the listener's name.
func (l *Listener) Label() string { return l.Name }

// Dead reports whether servers were probed and none of them answered.
func (l *Listener) Dead() bool {
	answered, probed := l.Answered()
	return probed > 0 && answered == 0
}

// Answered counts the servers that were probed, and those of them that answered.
func (l *Listener) Answered() (answered, probed int) {
	for _, s := range l.Servers {
		if s.Probed {
			probed++
		}
		if s.Probed && s.Err == nil {
			answered++
		}
	}
	return answered, probed
}

// Faults are what a strict test fails for, in words.
func (l *Listener) Faults() []string {
	var out []string
	probed := false
	for _, s := range l.Servers {
		probed = probed || s.Probed
		if fault := l.fault(s); fault != "" {
			out = append(out, fmt.Sprintf("server %q %s", s.Name, fault))
		}
	}
	if !probed {
		out = append(out, "no server has an endpoint that could be asked")
	}
	if l.Stitched() {
		for _, log := range []fleet.Log{fleet.Trace, fleet.ChainState} {
			for _, hole := range l.Coverage[log].Gaps {
				out = append(out, fmt.Sprintf("no server has the blocks %s in its %s log", hole, log))
			}
		}
	}
	for _, r := range l.Unserved() {
		out = append(out, fmt.Sprintf("no archive with an api_endpoint has the archived blocks %s; in the chain API only live nodes can answer for them", r))
	}
	return out
}

func (l *Listener) fault(s *Server) string {
	switch {
	case !s.Probed:
		return ""
	case s.Err != nil && s.Role == config.Frozen:
		return "did not answer, so its range is not reported"
	case s.Err != nil:
		return "did not answer"
	case s.Chain == ChainWrong:
		return "is on another chain"
	case s.Chain == ChainUnknown && l.RequireChainID:
		return "reports no chain id, which require_chain_id asks for"
	case !s.Reported():
		return "has no block yet"
	case s.Range != nil && !fleet.Fits(*s.Range, s.Status.Trace, s.Status.ChainState):
		return fmt.Sprintf("declares the range %s, but reports trace %s and chain_state %s",
			ship.Range(*s.Range), s.Status.Trace, s.Status.ChainState)
	}
	return ""
}
