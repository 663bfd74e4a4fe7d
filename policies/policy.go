// Package policies decides which of several servers that could serve a request
// equally well gets it. It knows no protocol: a Request and a Server hold what
// a policy may see, whichever port the request came to.
//
// A policy is a struct that is its own configuration: the fields with an hcl
// tag are the attributes of a block, policy "name" { ... }.
package policies

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// Policy orders servers for a request. It is safe for concurrent use.
type Policy interface {
	// Order moves the n best servers to the front, the best first, and returns
	// those that it keeps; what follows them may stand in any order. servers
	// has at least one, all of them can serve the request, and belongs to the
	// caller, who passes n from 1 to len(servers). A policy that keeps none has
	// nothing to say about this request: LeastConnections decides then.
	//
	// With Request.Dry nothing is remembered of the call.
	Order(r *Request, servers []*Server, n int) []*Server
}

// Validator is a policy, or a stage, that checks its settings when the
// configuration is read. The error goes on after the name of the block. What
// runs later is another value with the same settings, and is asked as well, so
// that it can keep what it has worked out of them.
type Validator interface {
	Validate() error
}

// Provisioner is a policy, or a stage, that needs something of its listener. It
// is called once, before the first request; an error keeps the configuration
// from being put in force.
type Provisioner interface {
	Provision(Env) error
}

// Env is what a listener offers to its policy and stages.
type Env struct {
	// Listener is the name of the listener.
	Listener string
	// Log has the listener's name already.
	Log *slog.Logger
}

// HeaderUser is a policy that wants to see headers of the client's handshake.
// All others are forgotten.
type HeaderUser interface {
	// Headers are the names, in any case.
	Headers() []string
}

// HeadersOf are the headers that a policy wants to see, in lower case; none for
// nil.
func HeadersOf(p Policy) (names []string) {
	h, ok := p.(HeaderUser)
	if !ok {
		return nil
	}
	for _, name := range h.Headers() {
		if name != "" {
			names = append(names, strings.ToLower(name))
		}
	}
	return names
}

// Default is the name of the policy of a listener without a policy block.
const Default = "least_connections"

// builtin makes the built-in policies by name.
var builtin = map[string]func() Policy{
	Default:              func() Policy { return &LeastConnections{} },
	"round_robin":        func() Policy { return &RoundRobin{} },
	"random_two_choices": func() Policy { return &RandomTwoChoices{} },
	"freshest":           func() Policy { return &Freshest{} },
	"lowest_latency":     func() Policy { return &LowestLatency{} },
	"sticky":             func() Policy { return &Sticky{} },
	"first":              func() Policy { return &First{} },
}

// New is the built-in policy of that name with default settings, nil when there
// is none.
func New(name string) Policy {
	if make := builtin[name]; make != nil {
		return make()
	}
	return nil
}

// Names are the names of the built-in policies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(builtin)) }

// tier is what every built-in policy looks at first: lower priority, then the
// longer run, which saves handoffs between archives.
func tier(a, b *Server) int {
	if a.Priority != b.Priority {
		return cmp.Compare(a.Priority, b.Priority)
	}
	return cmp.Compare(b.Run, a.Run)
}

// arrange moves the n servers that compare puts first to the front, in order.
func arrange(servers []*Server, n int, compare func(a, b *Server) int) []*Server {
	if n > 1 {
		slices.SortFunc(servers, compare)
		return servers
	}
	best := 0
	for i := 1; i < len(servers); i++ {
		if compare(servers[i], servers[best]) < 0 {
			best = i
		}
	}
	servers[0], servers[best] = servers[best], servers[0]
	return servers
}

// Reporter is a policy that may fail, and tells how it does.
type Reporter interface {
	Report() Report
}

// Report is how a script does.
type Report struct {
	// Script is the file.
	Script string
	// Off: it has failed again and again, and is not asked until it changes.
	Off bool
	// Calls counts all of them, Failures those that came to nothing, by kind,
	// with every kind there is.
	Calls    uint64
	Failures map[string]uint64
	// LastFailure is the newest one, "" without any.
	LastFailure   string
	LastFailureAt time.Time
	// Counters are those that the script counts, by name.
	Counters map[string]float64
}
