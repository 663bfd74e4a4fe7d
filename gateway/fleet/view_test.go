package fleet

import (
	"math"
	"slices"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
)

// known is an online node with these first blocks of its logs; 0 is no log.
func known(trace, state, finality uint32) Upstream {
	u := Upstream{Server: server("a"), Online: true, Known: true, StatusV1: true, Head: pos(100), LIB: pos(90)}
	log := func(begin uint32) ship.Range {
		if begin == 0 {
			return ship.Range{}
		}
		return ship.Range{Begin: begin, End: 101}
	}
	u.Trace, u.ChainState, u.Finality = log(trace), log(state), log(finality)
	return u
}

func but(u Upstream, change func(*Upstream)) Upstream {
	change(&u)
	return u
}

// TestEligible is G1 to G4: whether the first node of a view can serve a block.
func TestEligible(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	all := Need{Traces: true, Deltas: true, Finality: true, V1: true}
	none := Need{}
	v0 := func(u *Upstream) { u.ABI = &ship.ABI{Requests: []string{"get_blocks_request_v0"}} }
	for name, tt := range map[string]struct {
		nodes []Upstream
		block uint32
		need  Need
		want  bool
	}{
		"it has all":                            {[]Upstream{known(2, 1, 1)}, 50, all, true},
		"its first block":                       {[]Upstream{known(50, 50, 50)}, 50, all, true},
		"blocks to come":                        {[]Upstream{known(2, 1, 1)}, 5000, all, true},
		"the largest block":                     {[]Upstream{known(2, 1, 1)}, math.MaxUint32, all, true},
		"below its logs, as everybody":          {[]Upstream{known(50, 50, 50), known(60, 60, 60)}, 10, all, true},
		"below its logs, and another has it":    {[]Upstream{known(50, 50, 50), known(2, 1, 1)}, 10, all, false},
		"nothing is asked, but the id is there": {[]Upstream{known(50, 50, 50), known(2, 0, 0)}, 10, none, false},
		"the id is there by any log":            {[]Upstream{known(0, 0, 5), known(2, 1, 1)}, 10, none, true},
		"no traces":                             {[]Upstream{known(0, 1, 1), known(2, 1, 1)}, 50, Need{Traces: true}, false},
		"no traces asked":                       {[]Upstream{known(0, 1, 1), known(2, 1, 1)}, 50, Need{Deltas: true}, true},
		"no deltas":                             {[]Upstream{known(2, 0, 1), known(2, 1, 1)}, 50, Need{Deltas: true}, false},
		"no deltas anywhere":                    {[]Upstream{known(2, 0, 1), known(2, 0, 1)}, 50, Need{Deltas: true}, true},
		"no finality":                           {[]Upstream{known(2, 1, 0), known(2, 1, 1)}, 50, Need{Finality: true}, false},
		"another that is offline":               {[]Upstream{known(50, 50, 50), but(known(2, 1, 1), func(u *Upstream) { u.Online = false })}, 10, all, true},
		"another that is disabled":              {[]Upstream{known(50, 50, 50), but(known(2, 1, 1), func(u *Upstream) { u.Disabled = true })}, 10, all, true},
		"another that is removed":               {[]Upstream{known(50, 50, 50), but(known(2, 1, 1), func(u *Upstream) { u.Removed = true })}, 10, all, true},
		"it is offline":                         {[]Upstream{but(known(2, 1, 1), func(u *Upstream) { u.Online = false })}, 50, all, true},
		"it was never seen":                     {[]Upstream{but(known(2, 1, 1), func(u *Upstream) { u.Known = false })}, 50, all, false},
		"it is disabled":                        {[]Upstream{but(known(2, 1, 1), func(u *Upstream) { u.Disabled = true })}, 50, all, false},
		"it is removed":                         {[]Upstream{but(known(2, 1, 1), func(u *Upstream) { u.Removed = true })}, 50, all, false},
		"it does not know the request":          {[]Upstream{but(known(2, 1, 1), v0)}, 50, all, false},
		"it knows the older one":                {[]Upstream{but(known(2, 1, 1), v0)}, 50, Need{Traces: true}, true},
		"its ABI lists nothing":                 {[]Upstream{but(known(2, 1, 1), func(u *Upstream) { u.ABI = &ship.ABI{} })}, 50, all, true},
		"it is quarantined": {[]Upstream{but(known(2, 1, 1), func(u *Upstream) {
			u.Quarantines = []Quarantine{{Block: 40, Range: 11, Until: now.Add(time.Second)}}
		})}, 50, all, false},
		"it is quarantined elsewhere": {[]Upstream{but(known(2, 1, 1), func(u *Upstream) {
			u.Quarantines = []Quarantine{{Block: 40, Range: 10, Until: now.Add(time.Second)}}
		})}, 50, all, true},
		"it was quarantined": {[]Upstream{but(known(2, 1, 1), func(u *Upstream) {
			u.Quarantines = []Quarantine{{Block: 40, Range: 11, Until: now}}
		})}, 50, all, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := &View{Upstreams: tt.nodes}
			if got := v.Eligible(0, tt.block, tt.need, now); got != tt.want {
				t.Errorf("eligible: %v, %v was due", got, tt.want)
			}
		})
	}
}

func TestNeedOf(t *testing.T) {
	got := NeedOf(&ship.BlocksRequest{V1: true, FetchBlock: true, FetchTraces: true, FetchFinality: true})
	if want := (Need{Traces: true, Finality: true, V1: true}); got != want {
		t.Errorf("%+v, %+v was due", got, want)
	}
	if got := NeedOf(&ship.BlocksRequest{FetchBlock: true, FetchDeltas: true}); got != (Need{Deltas: true}) {
		t.Errorf("%+v", got)
	}
}

// TestLagging is G5. The node has block 100.
func TestLagging(t *testing.T) {
	for _, tt := range []struct {
		lag, block, head uint32
		want             bool
	}{
		{10, 101, 110, false}, {10, 101, 111, true}, {10, 100, 111, false}, {10, NoBlock, 111, true}, {10, NoBlock, 0, false},
		{0, 101, math.MaxUint32, false}, {math.MaxUint32, 101, math.MaxUint32, false}, {math.MaxUint32 - 101, 101, math.MaxUint32, true},
	} {
		v := &View{Lag: tt.lag, Upstreams: []Upstream{known(2, 1, 1)}}
		if got := v.Lagging(0, tt.block, tt.head); got != tt.want {
			t.Errorf("with a lag of %d, for block %d of %d: %v", tt.lag, tt.block, tt.head, got)
		}
	}
	v := &View{Lag: 1, Upstreams: []Upstream{but(known(2, 1, 1), func(u *Upstream) {
		s := *u.Server
		s.Role, u.Server = config.Frozen, &s
	})}}
	if v.Lagging(0, NoBlock, 5000) {
		t.Error("an archive lags")
	}
}

// TestCoverageOfAPool is M14 and T3 for a pool, with the fleet at block 200.
func TestCoverageOfAPool(t *testing.T) {
	begins := func(list ...uint32) (all []Upstream) {
		for _, b := range list {
			all = append(all, known(b, b, 0))
		}
		return all
	}
	for name, tt := range map[string]struct {
		nodes    []Upstream
		head     uint32
		want     []ship.Range
		reported ship.Range
	}{
		"nobody":        {nil, 200, nil, ship.Range{}},
		"one":           {begins(2), 200, []ship.Range{{Begin: 2, End: 201}}, ship.Range{Begin: 2, End: 201}},
		"the lowest":    {begins(50, 2, 70), 200, []ship.Range{{Begin: 2, End: 201}}, ship.Range{Begin: 2, End: 201}},
		"no log":        {begins(0), 200, nil, ship.Range{}},
		"some have it":  {begins(0, 60), 200, []ship.Range{{Begin: 60, End: 201}}, ship.Range{Begin: 60, End: 201}},
		"beyond a head": {begins(2), 50, []ship.Range{{Begin: 2, End: 51}}, ship.Range{Begin: 2, End: 51}},
		"above a head":  {begins(80), 50, nil, ship.Range{}},
		"no more numbers": {begins(2), math.MaxUint32, []ship.Range{{Begin: 2, End: math.MaxUint32}},
			ship.Range{Begin: 2, End: math.MaxUint32}},
		"one that is offline counts": {[]Upstream{but(known(2, 2, 0), func(u *Upstream) { u.Online = false })}, 200,
			[]ship.Range{{Begin: 2, End: 201}}, ship.Range{Begin: 2, End: 201}},
		"one that is disabled counts": {[]Upstream{but(known(2, 2, 0), func(u *Upstream) { u.Disabled = true })}, 200,
			[]ship.Range{{Begin: 2, End: 201}}, ship.Range{Begin: 2, End: 201}},
		"one that was never seen does not": {[]Upstream{but(known(2, 2, 0), func(u *Upstream) { u.Known = false }), known(9, 9, 0)}, 200,
			[]ship.Range{{Begin: 9, End: 201}}, ship.Range{Begin: 9, End: 201}},
	} {
		t.Run(name, func(t *testing.T) {
			v := &View{Upstreams: tt.nodes}
			for _, l := range []Log{Trace, ChainState} {
				if got := v.Ranges(l, tt.head); !slices.Equal(got, tt.want) {
					t.Errorf("segments of %s: %v, %v was due", l, got, tt.want)
				}
				if got := v.Reported(l, tt.head); got != tt.reported {
					t.Errorf("reported of %s: %v, %v was due", l, got, tt.reported)
				}
			}
			if got := v.Reported(Finality, tt.head); got != (ship.Range{}) {
				t.Errorf("reported of finality: %v", got)
			}
		})
	}
}

// TestCoverageStays while nodes are offline, and goes when they are removed.
func TestCoverageStays(t *testing.T) {
	w := silent(t, nil, "a", "b")
	w.tells(0, 100, 90)
	w.loses(0)
	if got := w.View().Reported(Trace, 100); got != (ship.Range{Begin: 2, End: 101}) {
		t.Errorf("reported while all are offline: %v", got)
	}
	w.Update(w.changed(func(c *config.Listener) { c.Servers = servers("b") }))
	if got := w.View().Reported(Trace, 100); got != (ship.Range{}) {
		t.Errorf("reported after the server was removed: %v", got)
	}
}

func TestLogNames(t *testing.T) {
	u := known(2, 3, 4)
	for i, want := range []string{"trace", "chain_state", "finality"} {
		if l := Logs[i]; l.String() != want || u.Range(l).Begin != uint32(i+2) {
			t.Errorf("log %d is %s from %d", i, l, u.Range(l).Begin)
		}
	}
}

func TestReadinessCountsRoutableUpstreams(t *testing.T) {
	w := silent(t, nil, "a", "b", "c")
	for _, step := range []struct {
		play func()
		want int
	}{
		{func() {}, 0}, {func() { w.tells(0, 1, 1) }, 1}, {func() { w.tells(1, 1, 1) }, 2},
		{func() { w.SetDisabled(0, true) }, 1}, {func() { w.loses(1) }, 0}, {func() { w.SetDisabled(0, false) }, 1},
	} {
		step.play()
		if got := w.View().Online(); got != step.want {
			t.Errorf("%d online, %d was due", got, step.want)
		}
	}
}
