package fleet

import (
	"reflect"
	"slices"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"

	"pgregory.net/rapid"
)

func br(begin, end uint32) ship.Range { return ship.Range{Begin: begin, End: end} }

func list(r ...ship.Range) []ship.Range { return r }

func offline(u Upstream) Upstream { return but(u, func(u *Upstream) { u.Online = false }) }

func disabled(u Upstream) Upstream { return but(u, func(u *Upstream) { u.Disabled = true }) }

// TestCoverage is M14 for the trace log of fleets whose head is 100.
func TestCoverage(t *testing.T) {
	live := func(begin uint32) Upstream { return known(begin, begin, 0) }
	declared := newUpstream(declares("d", 11, 21), nil)
	for name, tt := range map[string]struct {
		fleet []Upstream
		want  Coverage
		top   ship.Range
	}{
		"nobody":         {nil, Coverage{}, ship.Range{}},
		"never reported": {[]Upstream{{Server: server("a")}, {Server: declares("b", 0, 0)}}, Coverage{}, ship.Range{}},
		"no such log":    {[]Upstream{known(0, 5, 0)}, Coverage{}, ship.Range{}},
		"removed":        {[]Upstream{{Server: declares("d", 11, 21), Removed: true}}, Coverage{}, ship.Range{}},
		"a live node goes to the head": {[]Upstream{but(live(5), func(u *Upstream) { u.Trace.End = 90 })}, Coverage{
			Ranges: list(br(5, 101)), Segments: []Segment{{br(5, 101), []int{0}}},
		}, br(5, 101)},
		"an archive ends at its end": {[]Upstream{archive(5, 51)}, Coverage{
			Ranges: list(br(5, 51)), Segments: []Segment{{br(5, 51), []int{0}}},
		}, br(5, 51)},
		"also above the head": {[]Upstream{archive(5, 151), live(50)}, Coverage{
			Ranges: list(br(5, 151)), Segments: []Segment{{br(5, 50), []int{0}}, {br(50, 101), []int{0, 1}}, {br(101, 151), []int{0}}},
		}, br(5, 151)},
		"archives and a live node": {[]Upstream{archive(1, 51), archive(51, 91), live(80)}, Coverage{
			Ranges: list(br(1, 101)), Segments: []Segment{{br(1, 51), []int{0}}, {br(51, 80), []int{1}}, {br(80, 91), []int{1, 2}}, {br(91, 101), []int{2}}},
		}, br(1, 101)},
		"replicas": {[]Upstream{archive(1, 51), archive(1, 51), live(51)}, Coverage{
			Ranges: list(br(1, 101)), Segments: []Segment{{br(1, 51), []int{0, 1}}, {br(51, 101), []int{2}}},
		}, br(1, 101)},
		"holes": {[]Upstream{live(80), archive(31, 71), archive(1, 11), declared}, Coverage{
			Ranges: list(br(1, 21), br(31, 71), br(80, 101)), Gaps: list(br(21, 31), br(71, 80)),
			Offline:  nil,
			Segments: []Segment{{br(1, 11), []int{2}}, {br(11, 21), []int{3}}, {br(31, 71), []int{1}}, {br(80, 101), []int{0}}},
		}, br(80, 101)},
		"a replica is down": {[]Upstream{archive(1, 51), offline(archive(1, 51)), live(51)}, Coverage{
			Ranges: list(br(1, 101)), Segments: []Segment{{br(1, 51), []int{0, 1}}, {br(51, 101), []int{2}}},
		}, br(1, 101)},
		"what only those have that are down, disabled or declared": {[]Upstream{offline(archive(1, 11)), declared, disabled(archive(21, 51)), archive(41, 61), offline(live(61))}, Coverage{
			Ranges: list(br(1, 101)), Offline: list(br(1, 41), br(61, 101)),
			Segments: []Segment{{br(1, 11), []int{0}}, {br(11, 21), []int{1}}, {br(21, 41), []int{2}}, {br(41, 51), []int{2, 3}}, {br(51, 61), []int{3}}, {br(61, 101), []int{4}}},
		}, br(1, 101)},
		"below a hole nobody is missed": {[]Upstream{offline(archive(1, 11)), archive(21, 51), live(51)}, Coverage{
			Ranges: list(br(1, 11), br(21, 101)), Gaps: list(br(11, 21)),
			Segments: []Segment{{br(1, 11), []int{0}}, {br(21, 51), []int{1}}, {br(51, 101), []int{2}}},
		}, br(21, 101)},
	} {
		t.Run(name, func(t *testing.T) {
			v := &View{Upstreams: tt.fleet}
			if got := v.Coverage(Trace, 100); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("it is %+v, %+v was due", got, tt.want)
			}
			if got := v.Reported(Trace, 100); got != tt.top {
				t.Errorf("a status says %v, %v was due", got, tt.top)
			}
		})
	}
}

// TestCoverageOfADeclaredRange: it stands for traces and chain state, until the
// archive reports; and it says nothing of finality.
func TestCoverageOfADeclaredRange(t *testing.T) {
	w := silentSplit(t, declares("z", 1, 101), server("l"))
	is := func(trace, finality ship.Range) {
		t.Helper()
		v := w.View()
		if got := [...]ship.Range{v.Reported(Trace, 0), v.Reported(ChainState, 0), v.Reported(Finality, 0)}; got != [...]ship.Range{trace, trace, finality} {
			t.Errorf("the logs are %v, %v was due", got, trace)
		}
	}
	is(br(1, 101), ship.Range{})
	w.serve(declares("z", 1, 91), server("l"))
	is(br(1, 91), ship.Range{})
	w.says(0, archived(1, 81))
	is(br(1, 81), br(1, 81))
	w.serve(declares("z", 1, 71), server("l"))
	is(br(1, 81), br(1, 81))
	w.loses(0)
	is(br(1, 81), br(1, 81))
	w.serve(declares("z", 0, 0), server("l"))
	is(br(1, 81), br(1, 81))
	w.serve(server("l"))
	is(ship.Range{}, ship.Range{})
	w.serve(declares("z", 1, 71), server("l"))
	is(br(1, 71), ship.Range{})
	w.serve(declares("z", 0, 0), server("l"))
	is(ship.Range{}, ship.Range{})
}

// TestCoverageAgreesWithTheRules, block by block.
func TestCoverageAgreesWithTheRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := &View{Upstreams: rapid.SliceOfN(rapid.Custom(drawUpstream), 0, 6).Draw(rt, "fleet")}
		for i := range v.Upstreams {
			if v.Upstreams[i].Removed {
				v.Upstreams[i] = Upstream{Server: v.Upstreams[i].Server, Removed: true}
			}
		}
		head := rapid.Uint32Range(0, horizon-2).Draw(rt, "head")
		log := rapid.SampledFrom(Logs[:]).Draw(rt, "log")
		c := v.Coverage(log, head)
		top := c.Top()
		in := func(list []ship.Range, n uint32) (count int) {
			for _, r := range list {
				if r.Contains(n) {
					count++
				}
			}
			return count
		}
		for n := range uint32(horizon) {
			var holders []int
			counted := false
			for i := range v.Upstreams {
				u := &v.Upstreams[i]
				if (naive{v}).has(i, log, n) && (u.Frozen() || n <= head) {
					holders = append(holders, i)
					counted = counted || u.Online && !u.Disabled && !u.Removed
				}
			}
			flag := func(on bool) int {
				if on {
					return 1
				}
				return 0
			}
			if got, want := in(c.Ranges, n), flag(len(holders) > 0); got != want {
				rt.Fatalf("block %d is in %d ranges, %d was due: %+v", n, got, want, c)
			}
			hole := len(holders) == 0 && len(c.Ranges) > 0 && n >= c.Ranges[0].Begin && n < top.End
			if got, want := in(c.Gaps, n), flag(hole); got != want {
				rt.Fatalf("block %d is in %d gaps, %d was due: %+v", n, got, want, c)
			}
			if got, want := in(c.Offline, n), flag(top.Contains(n) && !counted); got != want {
				rt.Fatalf("block %d is in %d parts that are offline, %d was due: %+v", n, got, want, c)
			}
			var listed []int
			for _, s := range c.Segments {
				if s.Contains(n) {
					listed = append(listed, s.Upstreams...)
				}
			}
			if !slices.Equal(listed, holders) {
				rt.Fatalf("block %d is of %v, %v was due: %+v", n, listed, holders, c)
			}
		}
		for i := 1; i < len(c.Segments); i++ {
			a, b := c.Segments[i-1], c.Segments[i]
			if a.End > b.Begin || a.End == b.Begin && slices.Equal(a.Upstreams, b.Upstreams) {
				rt.Fatalf("segments that are one, or out of order: %+v", c.Segments)
			}
		}
	})
}

func TestGaps(t *testing.T) {
	if got, want := Gaps(list(br(1, 5), br(7, 9), br(20, 30))), list(br(5, 7), br(9, 20)); !slices.Equal(got, want) {
		t.Errorf("the gaps are %v, %v was due", got, want)
	}
	if got := Gaps(list(br(1, 5))); got != nil {
		t.Errorf("one range has the gaps %v", got)
	}
}

// TestLiveOverlap is M15.
func TestLiveOverlap(t *testing.T) {
	live := func(begin uint32) Upstream { return known(begin, begin, begin) }
	for name, tt := range map[string]struct {
		fleet []Upstream
		want  int64
		ok    bool
	}{
		"nobody":                          {nil, 0, false},
		"archives alone":                  {[]Upstream{archive(1, 51)}, 0, false},
		"live nodes alone":                {[]Upstream{live(1)}, 0, false},
		"they overlap":                    {[]Upstream{archive(1, 51), live(41)}, 10, true},
		"they touch":                      {[]Upstream{archive(1, 51), live(51)}, 0, true},
		"a hole":                          {[]Upstream{archive(1, 51), live(61)}, -10, true},
		"the highest end and lowest node": {[]Upstream{archive(1, 51), archive(51, 71), live(65), live(61)}, 10, true},
		"offline live nodes are left out": {[]Upstream{archive(1, 51), offline(live(41)), live(45)}, 6, true},
		"none is online":                  {[]Upstream{archive(1, 51), offline(live(41))}, 0, false},
		"disabled live nodes count":       {[]Upstream{archive(1, 51), disabled(live(41))}, 10, true},
		"offline archives count":          {[]Upstream{offline(archive(1, 51)), live(41)}, 10, true},
		"declared ones, too":              {[]Upstream{newUpstream(declares("d", 1, 51), nil), live(41)}, 10, true},
		"a live node without that log":    {[]Upstream{archive(1, 51), known(0, 41, 0)}, 0, false},
		"a removed archive does not":      {[]Upstream{{Server: declares("d", 1, 51), Removed: true}, live(41)}, 0, false},
	} {
		if got, ok := (&View{Upstreams: tt.fleet}).LiveOverlap(Trace); ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s: it is %d (%v), %d (%v) was due", name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		declared     config.Range
		trace, state ship.Range
		want         bool
	}{
		{config.Range{Begin: 1, End: 51}, br(1, 51), br(1, 51), true},
		{config.Range{Begin: 1, End: 51}, br(2, 51), br(1, 51), true},
		{config.Range{Begin: 1, End: 51}, br(2, 50), br(2, 51), true},
		{config.Range{Begin: 1, End: 51}, br(1, 51), br(1, 50), true},
		{config.Range{Begin: 1, End: 51}, br(1, 50), br(1, 50), false},
		{config.Range{Begin: 1, End: 51}, br(3, 51), br(1, 51), false},
		{config.Range{Begin: 2, End: 51}, br(3, 51), br(2, 51), false},
		{config.Range{Begin: 1, End: 51}, br(1, 52), br(1, 51), false},
		{config.Range{Begin: 1, End: 51}, br(1, 51), br(1, 52), false},
		{config.Range{Begin: 1, End: 51}, br(0, 0), br(1, 51), false},
		{config.Range{Begin: 1, End: 3}, br(2, 2), br(1, 3), false},
	} {
		if got := Fits(c.declared, c.trace, c.state); got != c.want {
			t.Errorf("%v with %v and %v: got %v", c.declared, c.trace, c.state, got)
		}
	}
}

// TestRangeMismatch needs an archive, a declared range and a report.
func TestRangeMismatch(t *testing.T) {
	s := archived(1, 41)
	for name, tt := range map[string]struct {
		u    Upstream
		want bool
	}{
		"another range": {Heard(declares("z", 1, 51), &s), true},
		"the same":      {Heard(declares("z", 1, 41), &s), false},
		"not reported":  {Heard(declares("z", 1, 51), nil), false},
		"not declared":  {Heard(declares("z", 0, 0), &s), false},
		"offline":       {offline(Heard(declares("z", 1, 51), &s)), true},
		"a live node":   {Heard(server("l"), &s), false},
	} {
		if got := tt.u.RangeMismatch(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
