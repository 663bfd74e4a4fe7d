package plan_test

import (
	"strings"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/plan"
	"flotilla/stages/stagetest"
)

// Whoever is no candidate has a reason, and a candidate has none.
func TestWhy(t *testing.T) {
	now := stagetest.Exchange().Now
	for _, c := range []struct {
		name   string
		node   stagetest.Option
		change func(x *pipeline.Exchange)
		says   string
	}{
		{"a healthy one", nil, nil, ""},
		{"stale", stagetest.Stale, nil, ""},
		{"disabled", stagetest.Disabled, nil, "disabled"},
		{"removed", func(u *fleet.Upstream) { u.Removed = true }, nil, "no longer in the configuration"},
		{"an archive", func(u *fleet.Upstream) { u.Server.Role = config.Frozen }, nil, "archive"},
		{"offline", stagetest.Offline, nil, "offline"},
		{"excluded", nil, func(x *pipeline.Exchange) { x.Exclude(1, pipeline.Exclusion{Until: now.Add(1)}) }, "after a failure"},
		{"quarantined", stagetest.Quarantined(500, 1, now.Add(1)), nil, "quarantined"},
		{"too old for the request", speaksV0, nil, "requests of this version"},
		{"full", both(stagetest.MaxSessions(2), stagetest.Taken(2)), nil, "max_sessions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := stagetest.Node("b")
			if c.node != nil {
				c.node(&b)
			}
			x := stagetest.Exchange(stagetest.Node("a"), b)
			if c.change != nil {
				c.change(x)
			}
			receive(x, 500, ship.BlocksRequest{V1: true})
			up(x)
			why := string(plan.Why(x, 1))
			if !strings.Contains(why, c.says) || (why == "") != (c.says == "") {
				t.Errorf("the reason is %q, want %q", why, c.says)
			}
			if candidate := len(x.Candidates) == 2; candidate != (why == "") {
				t.Errorf("it is a candidate: %v, and the reason why not is %q", candidate, why)
			}
			if why := plan.Why(x, 0); why != "" {
				t.Errorf("of the other it is %q", why)
			}
		})
	}
}
