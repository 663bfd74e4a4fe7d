// Package selection is the select stage: it picks one of the upstreams that
// the plan allows. (select is a word of the language.)
package selection

import (
	"cmp"
	"slices"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/policies"
)

// Name is the stage's name.
const Name = "select"

// Policy orders two upstreams that could serve a session equally well;
// negative means that a goes first.
type Policy func(session uint64, a, b *fleet.Upstream) int

// Stage is the select stage.
type Stage struct {
	policy Policy
}

// New makes the stage with the built-in policy.
func New(*config.Listener) pipeline.Stage { return &Stage{policy: policies.LeastConnections} }

// Name is "select".
func (*Stage) Name() string { return Name }

// Up sets Exchange.Pick: online first, then rank, then the policy (spec "ship"
// 3.2). The upstream that the session has just left for a fault yields to any
// other that is as good (G11).
func (s *Stage) Up(x *pipeline.Exchange) pipeline.Step {
	x.Pick = pipeline.None
	if len(x.Candidates) == 0 {
		return pipeline.Step{}
	}
	order := func(a, b pipeline.Candidate) int {
		return cmp.Or(
			-compareBool(a.Online, b.Online),
			cmp.Compare(a.Rank, b.Rank),
			cmp.Compare(x.View.Upstreams[a.Index].Server.Priority, x.View.Upstreams[b.Index].Server.Priority),
			// The longest run first: fewer seams.
			cmp.Compare(b.Run, a.Run),
			// A link that is there saves a dial.
			-cmp.Compare(x.Own(a.Index), x.Own(b.Index)),
			s.policy(x.Session, &x.View.Upstreams[a.Index], &x.View.Upstreams[b.Index]),
		)
	}
	best := slices.MinFunc(x.Candidates, order)
	if best.Index == x.Soft {
		others := slices.DeleteFunc(slices.Clone(x.Candidates), func(c pipeline.Candidate) bool {
			return c.Index == x.Soft || c.Rank > best.Rank || best.Online && !c.Online
		})
		if len(others) > 0 {
			best = slices.MinFunc(others, order)
		}
	}
	x.Pick, x.LegEnd = best.Index, best.Run
	return pipeline.Step{}
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
