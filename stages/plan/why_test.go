package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

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
	told500 := func(x *pipeline.Exchange) { x.View.Holds, x.LIBSent = true, stagetest.Pos(500) }
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
		{"behind the client's LIB", stagetest.Told(510, 499), told500, "told that the block is irreversible"},
		{"as far as the client's LIB", stagetest.Told(510, 500), told500, ""},
		{"behind it, where nobody is held", stagetest.Told(510, 499), func(x *pipeline.Exchange) { told500(x); x.View.Holds = false }, ""},
		{"full", both(stagetest.MaxSessions(2), stagetest.Taken(2)), nil, "max_sessions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := stagetest.Node("b")
			if c.node != nil {
				c.node(&b)
			}
			x := stagetest.Exchange(stagetest.Node("a", stagetest.Told(1000, 900)), b)
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

// The same in front of a range-split fleet, where a is an archive of the blocks
// below 501 and b a live node with all of them. Each reason there is has a row.
func TestWhyOfStitched(t *testing.T) {
	until := now.Add(time.Second)
	archive := func(o ...stagetest.Option) fleet.Upstream { return stagetest.Archive("a", 1, 501, o...) }
	otherABI := func(x *pipeline.Exchange) {
		st := *x.View.Stitching
		st.ABIMismatch = "exclude"
		x.View.Stitching = &st
		x.View.ABI = &ship.ABI{Fingerprint: "one"}
		x.View.Upstreams[0].ABI = &ship.ABI{Fingerprint: "other"}
	}
	for _, c := range []struct {
		name   string
		node   fleet.Upstream
		block  uint32
		v1     bool
		change func(x *pipeline.Exchange)
		says   string
	}{
		{name: "an archive that has the block", node: archive(), block: 5},
		{name: "a stale live node", node: stagetest.Node("a", stagetest.Stale), block: 5},
		{name: "removed", node: archive(func(u *fleet.Upstream) { u.Removed = true }), block: 5, says: "no longer in the configuration"},
		{name: "disabled", node: archive(stagetest.Disabled), block: 5, says: "an operator has disabled it"},
		{name: "nothing asked", node: archive(), change: func(x *pipeline.Exchange) { x.Asked = false }, says: "nothing is asked for"},
		{name: "all was sent", node: archive(), block: 5, change: func(x *pipeline.Exchange) { x.Want.Start, x.Want.End, x.Fresh = 2, 5, false }, says: "all of it was sent"},
		{name: "unheard", node: stagetest.Archive("a", 1, 501, stagetest.Unheard), block: 5, says: "has not told yet"},
		{name: "an older version", node: archive(speaksV0), block: 5, v1: true, says: "requests of this version"},
		{name: "another ABI", node: archive(), block: 5, change: otherABI, says: "another ABI"},
		{name: "below its range", node: stagetest.Archive("a", 100, 501), block: 5, says: "does not have the block"},
		{name: "above its range", node: archive(), block: 501, says: "does not have the block"},
		{name: "in one of two logs", node: archive(stagetest.Log(fleet.ChainState, 100, 501)), block: 5,
			change: func(x *pipeline.Exchange) { x.Want.FetchTraces, x.Want.FetchDeltas = true, true }, says: "in all logs that are asked for"},
		{name: "positions to go back to", node: archive(), block: 100, says: "only a live node can go back",
			change: func(x *pipeline.Exchange) {
				x.Want.Start, x.Want.End, x.Fresh, x.Want.Have = 100, 100, true, []ship.Pos{stagetest.Pos(90)}
			}},
		{name: "excluded", node: archive(), block: 5, change: func(x *pipeline.Exchange) { x.Exclude(0, pipeline.Exclusion{Until: until}) }, says: "after a failure"},
		{name: "quarantined", node: archive(stagetest.Quarantined(5, 1, until)), block: 5, says: "quarantined at this block"},
		{name: "quarantined elsewhere", node: archive(stagetest.Quarantined(6, 1, until)), block: 5},
		{name: "offline", node: archive(stagetest.Offline), block: 5, says: "offline"},
		{name: "offline, and desperate", node: archive(stagetest.Offline), block: 5, change: desperate},
		{name: "full", node: archive(stagetest.NoSlots), block: 5, says: "max_sessions"},
		{name: "above the head", node: archive(), block: 400, change: tip(399, 300), says: "above the head or LIB"},
		{name: "above the LIB", node: archive(), block: 400, change: all(tip(500, 399), irreversible), says: "above the head or LIB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := stagetest.Stitched(c.node, stagetest.Node("b"))
			x.Cause, x.Asked, x.Fresh = pipeline.Replace, true, true
			x.Want = ship.BlocksRequest{V1: c.v1, Start: c.block, End: 1<<32 - 1, FetchTraces: true}
			x.Cursor = c.block
			if c.change != nil {
				c.change(x)
			}
			up(x)
			why := string(plan.Why(x, 0))
			if !strings.Contains(why, c.says) || (why == "") != (c.says == "") {
				t.Errorf("the reason is %q, want %q", why, c.says)
			}
			candidate := slices.ContainsFunc(x.Candidates, func(k pipeline.Candidate) bool { return k.Index == 0 })
			if candidate != (why == "") {
				t.Errorf("it is a candidate: %v, and the reason why not is %q", candidate, why)
			}
		})
	}
}
