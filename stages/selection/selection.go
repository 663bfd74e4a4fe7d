// Package selection is the select stage: it picks one of the upstreams that
// the plan allows. (select is a word of the language.)
package selection

import (
	"cmp"
	"slices"
	"sync"

	"flotilla/gateway/config"
	"flotilla/gateway/pipeline"
	"flotilla/policies"
)

// Name is the stage's name.
const Name = "select"

// Stage is the select stage.
type Stage struct {
	listener string
	policy   policies.Policy
	// scratch holds the *round of a request until the next one.
	scratch sync.Pool
}

// New makes the stage with the default policy.
func New(cfg *config.Listener) pipeline.Stage {
	return With(cfg, policies.New(policies.Default))
}

// With makes the stage with a policy.
func With(cfg *config.Listener, policy policies.Policy) *Stage {
	s := &Stage{policy: policy, scratch: sync.Pool{New: func() any { return &round{} }}}
	if cfg != nil {
		s.listener = cfg.Name
	}
	return s
}

// Name is "select".
func (*Stage) Name() string { return Name }

// Up sets Exchange.Pick: online first, then rank, then the policy (spec "ship"
// 3.2). The upstream that the session has just left for a fault yields to any
// other that is as good (G11).
func (s *Stage) Up(x *pipeline.Exchange) pipeline.Step {
	x.Pick, x.Unwanted = pipeline.None, false
	if len(x.Candidates) == 0 {
		return pipeline.Step{}
	}
	r := s.scratch.Get().(*round)
	defer s.scratch.Put(r)
	r.offer(x)
	if len(r.offered) == 1 {
		// There is nothing to order, only to refuse, which leaves nobody.
		r.pick(x, r.offered[0])
		return pipeline.Step{}
	}
	describe(&r.request, s.listener, x)
	kept := s.policy.Order(&r.request, r.offered, 1)
	if len(kept) == 0 {
		r.offer(x)
		kept = fallback.Order(&r.request, r.offered, 1)
	} else if x.Cause == pipeline.Received && len(kept) < len(r.offered) {
		x.Unwanted = r.has(x.Current) && !slices.ContainsFunc(kept, func(c *policies.Server) bool { return c.ID == x.Current })
	}
	r.pick(x, kept[0])
	return pipeline.Step{}
}

// fallback decides what a policy has nothing to say about.
var fallback policies.LeastConnections

// Order is what the policy says of the candidates of a dry exchange: those that
// it is asked about, and those that it keeps, the best first. Nothing in the
// exchange is changed.
func (s *Stage) Order(x *pipeline.Exchange) (offered, kept []*policies.Server) {
	if len(x.Candidates) == 0 {
		return nil, nil
	}
	r := &round{}
	r.offer(x)
	offered = slices.Clone(r.offered)
	describe(&r.request, s.listener, x)
	r.request.Dry = true
	kept = s.policy.Order(&r.request, r.offered, len(r.offered))
	if len(kept) == 0 {
		r.offer(x)
		kept = fallback.Order(&r.request, r.offered, len(r.offered))
	}
	return offered, kept
}

// round is what one request needs in order to ask the policy.
type round struct {
	request policies.Request
	servers []policies.Server
	offered []*policies.Server
}

// offer lists the best of the candidates, those that are equally able: the
// policy decides among them. The one that the session has just left for a fault
// is left out when there is another.
func (r *round) offer(x *pipeline.Exchange) {
	best := slices.MinFunc(x.Candidates, ability)
	equal := 0
	for _, c := range x.Candidates {
		if ability(c, best) == 0 {
			equal++
		}
	}
	r.servers, r.offered = r.servers[:0], r.offered[:0]
	// Pointers into servers are taken below: it must not move.
	r.servers = slices.Grow(r.servers, equal)
	for _, c := range x.Candidates {
		if ability(c, best) != 0 || equal > 1 && c.Index == x.Soft {
			continue
		}
		r.servers = r.servers[:len(r.servers)+1]
		s := &r.servers[len(r.servers)-1]
		Server(s, x, c)
		r.offered = append(r.offered, s)
	}
}

func (*round) pick(x *pipeline.Exchange, s *policies.Server) {
	x.Pick, x.LegEnd = s.ID, uint32(s.Run)
}

// has reports whether upstream i was offered.
func (r *round) has(i int) bool {
	return slices.ContainsFunc(r.servers, func(s policies.Server) bool { return s.ID == i })
}

// ability orders candidates: online, then rank (3.2, keys 1 and 2).
func ability(a, b pipeline.Candidate) int {
	return cmp.Or(-compareBool(a.Online, b.Online), cmp.Compare(a.Rank, b.Rank))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
