package lua

import (
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/policies"
)

// runner runs a script for a listener. It is safe for concurrent use.
type runner struct {
	script string
	log    *slog.Logger
	bundle *bundle
	env    *shared
	limits limits
	// idle are states that no request uses.
	idle chan *vm

	// calls counts all of them.
	calls atomic.Uint64
	// strain rises with each failure and falls with each success; off is set
	// when it is too much. They change under mu, and good calls of a script that
	// never fails do without it.
	strain atomic.Int64
	off    atomic.Bool

	mu sync.Mutex
	// failed counts calls that came to nothing, by kind.
	failed map[Kind]uint64
	last   *failure
	lastAt time.Time
	// logged is when a failure was last logged, unlogged how many were not
	// since.
	logged   time.Time
	unlogged int
}

const (
	// A failure counts as much as so many successes, and at maxStrain the script
	// is switched off: after ten failures in a row, or when more than about one
	// call in ten fails for a while.
	strainOf  = 10
	maxStrain = 100
	// logPause is how long failures are only counted after one was logged.
	logPause = time.Minute
	// A state is given up after so many instructions, whatever it holds on to.
	maxTotal = 4_000_000
	// weighEvery is how many calls pass before a state is weighed again, unless
	// one of them was so much work that it may have made something large.
	weighEvery = 64
	weighSteps = 5000
	weighBytes = 32 << 10
	weighTime  = 300 * time.Microsecond
)

// ask has the script order servers, which are in the built-in order.
func (r *runner) ask(req *policies.Request, servers []*policies.Server) []*policies.Server {
	if r.off.Load() {
		return servers
	}
	v, failed := r.take()
	if failed == nil {
		var kept []*policies.Server
		if kept, failed = v.order(req, servers, r.limits); failed == nil {
			servers = servers[:copy(servers, kept)]
		}
		r.give(v, req.Dry)
	}
	switch {
	case !req.Dry:
		r.judge(failed)
	case failed != nil && failed.kind == KindEmpty:
		note(req, "keeps no server, so %s decides", policies.Default)
	case failed != nil:
		note(req, "fails (%s), so %s decides: %s", failed.kind, policies.Default, failed.text)
	}
	return servers
}

// maxNotes is how many notes of a dry call are kept.
const maxNotes = 20

// note tells whoever asks what a script did in a dry call.
func note(req *policies.Request, format string, args ...any) {
	if len(req.Notes) < maxNotes {
		req.Notes = append(req.Notes, fmt.Sprintf(format, args...))
	}
}

// take is a state that nobody uses: requests never wait for each other.
func (r *runner) take() (*vm, *failure) {
	select {
	case v := <-r.idle:
		return v, nil
	default:
	}
	v, err := newVM(r.bundle, r.env)
	if err != nil {
		if f, ok := err.(*failure); ok {
			return nil, f
		}
		return nil, &failure{kind: KindError, text: err.Error()}
	}
	return v, nil
}

// give takes a state back, unless it has ended in the middle of something, or
// holds on to too much. dry is that of the request.
func (r *runner) give(v *vm, dry bool) {
	g := v.guard
	if g.over != "" || g.total > maxTotal {
		return
	}
	if (g.used > weighSteps || g.spent > weighBytes || g.took > weighTime || v.call%weighEvery == 0) && v.weigh() > maxWeight {
		if dry {
			return
		}
		r.judge(&failure{kind: KindMemory, text: r.script + " holds on to too much between calls; use local variables, or the table state"})
		return
	}
	select {
	case r.idle <- v:
	default:
	}
}

// judge counts the outcome of a call, nil for a good one.
func (r *runner) judge(f *failure) {
	r.calls.Add(1)
	if f == nil && r.strain.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if f == nil {
		r.strain.Store(max(0, r.strain.Load()-1))
		return
	}
	if r.failed == nil {
		r.failed = map[Kind]uint64{}
	}
	r.failed[f.kind]++
	if f.kind == KindEmpty {
		return
	}
	now := time.Now()
	r.last, r.lastAt = f, now
	if r.strain.Add(strainOf) >= maxStrain && !r.off.Load() {
		r.off.Store(true)
		r.log.Error("a policy script has failed again and again and is switched off until its file changes; the built-in policy decides",
			"kind", string(f.kind), "error", f.text)
	}
	if r.logged.IsZero() || now.Sub(r.logged) >= logPause {
		r.log.Warn("a policy script has failed; the built-in policy has decided", "kind", string(f.kind), "error", f.text,
			"stack", f.stack, "failures_not_logged", r.unlogged)
		r.logged, r.unlogged = now, 0
	} else {
		r.unlogged++
	}
}

// Report is policies.Reporter.
func (r *runner) Report() policies.Report {
	r.mu.Lock()
	out := policies.Report{Script: r.script, Off: r.off.Load(), Calls: r.calls.Load(), Failures: map[string]uint64{}}
	for _, kind := range Kinds {
		out.Failures[string(kind)] = r.failed[kind]
	}
	if r.last != nil {
		out.LastFailure, out.LastFailureAt = r.last.text, r.lastAt
	}
	r.mu.Unlock()
	r.env.mu.Lock()
	defer r.env.mu.Unlock()
	out.Counters = maps.Clone(r.env.counters)
	return out
}
