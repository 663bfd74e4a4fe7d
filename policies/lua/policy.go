// Package lua is the policy that asks a script of the operator's. A script that
// fails, loops or returns nonsense harms no request: LeastConnections decides.
//
// The parts are a file each: policy.go, what the listener sees; source.go, from
// text to something that runs; vm.go, one state of the interpreter and its
// calls; view.go, servers and requests as a script sees them; sandbox.go,
// texts.go and pattern.go, the library; shared.go, what the states of a script
// share; guard.go, the limits; health.go, failures and the switch.
package lua

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"time"

	"flotilla/policies"
)

// Name is the name of the policy.
const Name = "lua"

// Policy asks a script: the function select(request, servers) returns the
// servers in the order in which they are to be used, and leaves out those that
// are not; score(request, server) returns a number, higher is better.
type Policy struct {
	// Script is the file, relative to the working directory.
	Script string `hcl:"script"`
	// Timeout is how long a call may take, such as "2ms", which is the default:
	// from 100µs to 1s.
	Timeout string `hcl:"timeout,optional"`
	// HeaderNames are the headers of the client's handshake that the script
	// sees in request.headers.
	HeaderNames []string `hcl:"headers,optional"`

	// Sources are the texts of the script and its modules by path, as they were
	// when the configuration was read (Load).
	Sources map[string]string

	*runner
}

const (
	defaultTimeout = 2 * time.Millisecond
	minTimeout     = 100 * time.Microsecond
	maxTimeout     = time.Second
	maxHeaders     = 8
)

// Validate is policies.Validator.
func (p *Policy) Validate() error {
	if p.Script == "" {
		return errors.New("script is empty; the path of a .lua file is expected")
	}
	if _, err := p.timeout(); err != nil {
		return err
	}
	if len(p.HeaderNames) > maxHeaders {
		return fmt.Errorf("headers has %d names; at most %d are allowed", len(p.HeaderNames), maxHeaders)
	}
	for _, name := range p.HeaderNames {
		if name == "" {
			return errors.New("headers has a name that is empty")
		}
		if err := policies.ValidateHeader(name); err != nil {
			return err
		}
	}
	return nil
}

func (p *Policy) timeout() (time.Duration, error) {
	if p.Timeout == "" {
		return defaultTimeout, nil
	}
	d, err := time.ParseDuration(p.Timeout)
	if err != nil || d < minTimeout || d > maxTimeout {
		return 0, fmt.Errorf("timeout is %q; a time from %v to %v is expected", p.Timeout, minTimeout, maxTimeout)
	}
	return d, nil
}

// Headers is policies.HeaderUser.
func (p *Policy) Headers() []string { return p.HeaderNames }

// Load reads the script and what it includes, and runs it once, so that what is
// wrong with it shows before it is in force.
func (p *Policy) Load(read func(path string) (string, error)) error {
	text, err := read(p.Script)
	if err != nil {
		return err
	}
	b, err := newBundle(p.Script, map[string]string{p.Script: text}, read)
	if err != nil {
		return err
	}
	v, err := newVM(b, newShared(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	v.L.Close()
	p.Sources = b.sources
	return nil
}

// Files are what Load has read.
func (p *Policy) Files() []string { return slices.Sorted(maps.Keys(p.Sources)) }

// Provision is policies.Provisioner.
func (p *Policy) Provision(env policies.Env) error {
	timeout, err := p.timeout()
	if err != nil {
		return err
	}
	b, err := newBundle(p.Script, p.Sources, nil)
	if err != nil {
		return err
	}
	r := &runner{
		script: p.Script, log: env.Log.With("policy", Name, "script", p.Script), bundle: b,
		limits: limits{steps: maxSteps, time: timeout, bytes: maxBytes},
		idle:   make(chan *vm, max(4, 2*runtime.GOMAXPROCS(0))),
	}
	r.env = newShared(r.log)
	v, err := newVM(b, r.env)
	if err != nil {
		return err
	}
	r.idle <- v
	p.runner = r
	return nil
}

// Order is policies.Policy.
func (p *Policy) Order(r *policies.Request, servers []*policies.Server, n int) []*policies.Server {
	builtin.Order(r, servers, len(servers))
	if p.runner == nil {
		return servers
	}
	return p.ask(r, servers)
}

// builtin decides where the script does not.
var builtin policies.LeastConnections
