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
	// scratch holds the *policies.Round of a request until the next one.
	scratch sync.Pool
}

// New makes the stage with the default policy.
func New(cfg *config.Listener) pipeline.Stage {
	return With(cfg, policies.New(policies.Default))
}

// With makes the stage with a policy.
func With(cfg *config.Listener, policy policies.Policy) *Stage {
	s := &Stage{policy: policy, scratch: sync.Pool{New: func() any { return &policies.Round{} }}}
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
	r := s.scratch.Get().(*policies.Round)
	defer s.scratch.Put(r)
	offer(r, x)
	if r.Len() == 1 {
		// There is nothing to order, only to refuse, which leaves nobody.
		pick(x, r.At(0))
		return pipeline.Step{}
	}
	describe(&r.Request, s.listener, x)
	kept, own := r.Ask(s.policy, 1)
	if own && x.Cause == pipeline.Received && len(kept) < r.Len() {
		x.Unwanted = offered(r, x.Current) && !slices.ContainsFunc(kept, func(c *policies.Server) bool { return c.ID == x.Current })
	}
	pick(x, kept[0])
	return pipeline.Step{}
}

// Order is what would become of the candidates of an exchange: those that are
// offered, and those that are kept, the best first. The policy is asked in a dry
// question, or not at all about one alone. Nothing in the exchange is changed.
func (s *Stage) Order(x *pipeline.Exchange) (asked, kept []*policies.Server) {
	if len(x.Candidates) == 0 {
		return nil, nil
	}
	r := &policies.Round{}
	offer(r, x)
	for i := range r.Len() {
		asked = append(asked, r.At(i))
	}
	if len(asked) == 1 {
		return asked, asked
	}
	describe(&r.Request, s.listener, x)
	r.Request.Dry = true
	kept, _ = r.Ask(s.policy, r.Len())
	return asked, kept
}

// offer lists the best of the candidates, those that are equally able: the
// policy decides among them. The one that the session has just left for a fault
// is left out when there is another.
func offer(r *policies.Round, x *pipeline.Exchange) {
	best := slices.MinFunc(x.Candidates, ability)
	equal := 0
	for _, c := range x.Candidates {
		if ability(c, best) == 0 {
			equal++
		}
	}
	r.Reset(equal)
	for _, c := range x.Candidates {
		if ability(c, best) != 0 || equal > 1 && c.Index == x.Soft {
			continue
		}
		Server(r.Add(), x, c)
	}
}

func pick(x *pipeline.Exchange, s *policies.Server) {
	x.Pick, x.LegEnd = s.ID, uint32(s.Run)
}

// offered reports whether upstream i is.
func offered(r *policies.Round, i int) bool {
	for k := range r.Len() {
		if r.At(k).ID == i {
			return true
		}
	}
	return false
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
