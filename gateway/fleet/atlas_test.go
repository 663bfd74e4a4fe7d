package fleet

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"

	"pgregory.net/rapid"
)

// stitched is the configuration of a range-split listener.
func stitched(servers ...*config.Server) *config.Listener {
	cfg := listener(servers...)
	cfg.Topology, cfg.ChainID = config.TopologyStitched, &[32]byte{1}
	cfg.Stitching = config.Stitching{HistoryPreference: "frozen", PatchHeadLIB: true, ABIMismatch: "warn"}
	return cfg
}

// declares is an archive that has not reported yet; an end of 0 declares
// nothing.
func declares(name string, begin, end uint32) *config.Server {
	s := server(name)
	s.Role = config.Frozen
	if end > 0 {
		s.Range = &config.Range{Begin: begin, End: end}
	}
	return s
}

// archived is what an archive with all logs reports.
func archived(begin, end uint32) ship.Status {
	s := status(end-1, end-1)
	s.Trace = ship.Range{Begin: begin, End: end}
	s.ChainState, s.Finality = s.Trace, s.Trace
	return s
}

// archive is one that has reported.
func archive(begin, end uint32) Upstream {
	s := archived(begin, end)
	return Heard(declares("archive", 0, 0), &s)
}

func hasLogs(trace, state, finality ship.Range) func(*Upstream) {
	return func(u *Upstream) { u.Trace, u.ChainState, u.Finality = trace, state, finality }
}

var (
	traces  = Need{Traces: true}
	deltas  = Need{Deltas: true}
	both    = Need{Traces: true, Deltas: true}
	all     = Need{Traces: true, Deltas: true, Finality: true, V1: true}
	nothing = Need{}
)

// holders are those of a block, as "index:end of the run"; "-" is no end.
func holders(v *View, n uint32, need Need) (list []string) {
	v.Holders(n, need, func(h Holder) bool {
		end := fmt.Sprint(h.End)
		if h.End == NoBlock {
			end = "-"
		}
		list = append(list, fmt.Sprintf("%d:%s", h.Index, end))
		return true
	})
	return list
}

// TestHolders is G2, G3 and P7 by example.
func TestHolders(t *testing.T) {
	r := func(b, e uint32) ship.Range { return ship.Range{Begin: b, End: e} }
	split := []Upstream{archive(1, 51), archive(51, 101), known(95, 95, 95)}
	for name, tt := range map[string]struct {
		fleet []Upstream
		need  Need
		want  map[uint32]string // by block
		place map[uint32]Place
	}{
		"nobody":          {nil, all, map[uint32]string{5: "[]"}, map[uint32]Place{0: Unheard, 5: Unheard}},
		"nobody reported": {[]Upstream{{Server: declares("a", 0, 0)}, {Server: server("b")}}, all, map[uint32]string{5: "[]"}, map[uint32]Place{5: Unheard}},
		"a split fleet":   {split, all, map[uint32]string{1: "[0:51]", 50: "[0:51]", 51: "[1:101]", 94: "[1:101]", 95: "[1:101 2:-]", 100: "[1:101 2:-]", 101: "[2:-]", 9999: "[2:-]", math.MaxUint32: "[2:-]"}, map[uint32]Place{0: Below, 1: Covered, 9999: Covered, math.MaxUint32: Covered}},
		"replicas":        {[]Upstream{archive(1, 51), archive(1, 51), archive(20, 60)}, both, map[uint32]string{19: "[0:51 1:51]", 20: "[0:51 1:51 2:60]", 55: "[2:60]"}, map[uint32]Place{60: Beyond, 61: Beyond}},
		"a hole":          {[]Upstream{archive(1, 51), archive(61, 101), known(95, 95, 0)}, both, map[uint32]string{50: "[0:51]", 51: "[]", 60: "[]", 61: "[1:101]"}, map[uint32]Place{50: Covered, 51: Hole, 60: Hole, 61: Covered}},
		"archives alone":  {[]Upstream{archive(1, 51)}, both, map[uint32]string{50: "[0:51]", 51: "[]"}, map[uint32]Place{50: Covered, 51: Beyond, 100: Beyond}},
		"down to what a declared one has": {[]Upstream{newUpstream(declares("a", 10, 51), nil), known(95, 95, 0)}, both,
			map[uint32]string{50: "[0:51]", 51: "[]"}, map[uint32]Place{9: Below, 10: Covered, 51: Hole}},
		"a declared one has no finality": {[]Upstream{newUpstream(declares("a", 1, 51), nil), archive(1, 51)}, all, map[uint32]string{5: "[1:51]"}, nil},
		"finality that nobody else has ends a run": {[]Upstream{known(1, 1, 0), known(1, 1, 80)}, all,
			map[uint32]string{5: "[0:80 1:-]", 79: "[0:80 1:-]", 80: "[1:-]"}, nil},
		"but only one that wants it": {[]Upstream{known(1, 1, 0), known(1, 1, 80)}, both, map[uint32]string{80: "[0:- 1:-]"}, nil},
		"from a snapshot": {[]Upstream{archive(1, 101), known(101, 100, 101)}, both,
			map[uint32]string{99: "[0:101]", 100: "[0:101]", 101: "[1:-]"}, map[uint32]Place{100: Covered, 101: Covered}},
		"deltas alone from a snapshot": {[]Upstream{archive(1, 101), known(101, 100, 101)}, deltas,
			map[uint32]string{99: "[0:101]", 100: "[0:101 1:-]"}, nil},
		"any log will do for nothing":  {[]Upstream{archive(1, 101), known(101, 100, 101)}, nothing, map[uint32]string{100: "[0:101 1:-]"}, nil},
		"nobody has traces of block 1": {[]Upstream{but(archive(1, 51), hasLogs(r(2, 51), r(1, 51), ship.Range{}))}, both, map[uint32]string{1: "[0:51]"}, nil},
		"traces end a block early":     {[]Upstream{but(archive(1, 51), hasLogs(r(1, 50), r(1, 51), ship.Range{})), archive(50, 70)}, traces, map[uint32]string{49: "[0:50]", 50: "[1:70]"}, nil},
		"offline ones count": {[]Upstream{but(archive(1, 51), func(u *Upstream) { u.Online = false }), known(40, 40, 0)}, both,
			map[uint32]string{39: "[0:51]", 45: "[0:51 1:-]"}, nil},
		"a disabled one is no holder, but others have less than the fleet": {[]Upstream{but(archive(1, 51), func(u *Upstream) { u.Disabled = true }), but(archive(1, 51), hasLogs(r(1, 51), ship.Range{}, ship.Range{}))}, both,
			map[uint32]string{5: "[]"}, map[uint32]Place{5: Covered}},
		"a removed one counts for nothing": {[]Upstream{but(archive(1, 51), func(u *Upstream) { u.Removed = true }), but(archive(1, 51), hasLogs(r(1, 51), ship.Range{}, ship.Range{}))}, both,
			map[uint32]string{5: "[1:51]"}, map[uint32]Place{5: Covered}},
		"below the first block": {[]Upstream{archive(20, 51), archive(10, 30), known(25, 25, 25)}, both,
			map[uint32]string{1: "[1:30]", 9: "[1:30]", 10: "[1:30]"}, map[uint32]Place{1: Below, 9: Below, 10: Covered}},
		"below the first block, and with less than others from there on": {
			[]Upstream{but(archive(10, 30), hasLogs(ship.Range{}, r(10, 30), ship.Range{})), archive(10, 30)}, traces,
			map[uint32]string{1: "[0:10 1:30]", 10: "[1:30]"}, nil},
		"an old node is not asked for v1": {[]Upstream{but(archive(1, 51), func(u *Upstream) { u.ABI = &ship.ABI{Requests: []string{"get_blocks_request_v0"}} }), archive(1, 51)}, all,
			map[uint32]string{5: "[1:51]"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := NewView(stitched(), tt.fleet)
			for n, want := range tt.want {
				if got := fmt.Sprint(holders(v, n, tt.need)); got != want {
					t.Errorf("holders of %d: %s, %s was due", n, got, want)
				}
			}
			for n, want := range tt.place {
				if got := v.Place(n); got != want {
					t.Errorf("the place of %d is %d, %d was due", n, got, want)
				}
			}
		})
	}
}

func TestHoldersStopsWhenTold(t *testing.T) {
	v := NewView(stitched(), []Upstream{archive(1, 51), archive(1, 51)})
	for _, n := range []uint32{0, 5} {
		calls := 0
		v.Holders(n, both, func(Holder) bool { calls++; return false })
		if calls != 1 {
			t.Errorf("%d calls at block %d after the first said stop", calls, n)
		}
	}
}

// TestAcceptsByABI is P21: exclude keeps those out that send another ABI than
// clients have; one that has sent none yet is asked.
func TestAcceptsByABI(t *testing.T) {
	with := func(fingerprint string) Upstream {
		return but(archive(1, 51), func(u *Upstream) { u.ABI = &ship.ABI{Fingerprint: fingerprint} })
	}
	nodes := []Upstream{with("a"), with("b"), archive(1, 51), but(known(95, 95, 0), func(u *Upstream) { u.ABI = &ship.ABI{Fingerprint: "a"} })}
	for mismatch, want := range map[string]string{"warn": "[0:51 1:51 2:51]", "exclude": "[0:51 2:51]"} {
		cfg := stitched()
		cfg.Stitching.ABIMismatch = mismatch
		if got := fmt.Sprint(holders(NewView(cfg, nodes), 5, nothing)); got != want {
			t.Errorf("%s: %s, %s was due", mismatch, got, want)
		}
	}
}

// TestAtlasIsShared by views until a range changes.
func TestAtlasIsShared(t *testing.T) {
	w := silentSplit(t, declares("y", 1, 51), declares("z", 51, 101), server("l"))
	same := func(what string, want bool, play func()) {
		t.Helper()
		before := w.View()
		play()
		if w.View() == before {
			t.Fatalf("%s makes no view", what)
		}
		if got := w.View().atlas == before.atlas; got != want {
			t.Errorf("%s: the atlas is the same: %v", what, got)
		}
	}
	same("the first status of a live node", false, func() { w.tells(2, 150, 130) })
	same("the next block", true, func() { w.tells(2, 151, 131) })
	same("an archive that reports what it declares, finality too", false, func() { w.says(0, archived(1, 51)) })
	same("an archive that goes", true, func() { w.loses(0) })
	same("one that is disabled", true, func() { w.SetDisabled(1, true) })
	same("one that is told to have no block log", true, func() { w.LacksBlocks(1, 60) })
	same("a live node that prunes its log", false, func() {
		s := status(152, 132)
		s.Trace.Begin = 100
		w.says(2, s)
	})
	same("another declared range", false, func() { w.serve(declares("y", 1, 51), declares("z", 41, 101), server("l")) })
	same("a server that is removed", false, func() { w.serve(declares("z", 41, 101), server("l")) })
	same("one that is back", false, func() { w.serve(declares("y", 1, 51), declares("z", 41, 101), server("l")) })
}

// TestAtlasIsMadeByManyAtOnce: the first of the sessions that ask for some logs
// makes their holders.
func TestAtlasIsMadeByManyAtOnce(t *testing.T) {
	v := NewView(stitched(), []Upstream{archive(1, 51), archive(51, 101), known(95, 95, 95)})
	var sessions sync.WaitGroup
	for i := range 32 {
		sessions.Go(func() {
			need := Need{Traces: i&1 > 0, Deltas: i&2 > 0, Finality: i&4 > 0, V1: true}
			if got := fmt.Sprint(holders(v, 97, need)); got != "[1:101 2:-]" {
				t.Errorf("holders: %s", got)
			}
		})
	}
	sessions.Wait()
}

// horizon is above every block that the property draws.
const horizon = 48

// naive answers the questions of an atlas block by block, from the rules as they
// are written.
type naive struct{ v *View }

func (f naive) has(i int, log Log, n uint32) bool {
	u := &f.v.Upstreams[i]
	r := u.Range(log)
	switch {
	case !u.Known || u.Removed:
		return false
	case u.Server.Role == config.Live:
		return r.End > 0 && r.Begin <= n
	default:
		return r.Begin <= n && n < r.End
	}
}

func (f naive) anyone(log Log, n uint32) bool {
	for i := range f.v.Upstreams {
		if f.has(i, log, n) {
			return true
		}
	}
	return false
}

func (f naive) ids(i int, n uint32) bool {
	return f.has(i, Trace, n) || f.has(i, ChainState, n) || f.has(i, Finality, n)
}

func (f naive) anyIDs(n uint32) bool {
	return f.anyone(Trace, n) || f.anyone(ChainState, n) || f.anyone(Finality, n)
}

// first is the lowest block that upstream i has, or anyone with i < 0.
func (f naive) first(i int) (uint32, bool) {
	for n := range uint32(horizon) {
		if i < 0 && f.anyIDs(n) || i >= 0 && f.ids(i, n) {
			return n, true
		}
	}
	return 0, false
}

func (f naive) place(n uint32) Place {
	first, some := f.first(-1)
	switch {
	case !some:
		return Unheard
	case n < first:
		return Below
	case f.anyIDs(n):
		return Covered
	}
	for m := n; m < horizon; m++ {
		if f.anyIDs(m) {
			return Hole
		}
	}
	return Beyond
}

// holds is G3 for a block that somebody has, and P3 below the first one.
func (f naive) holds(i int, n uint32, need Need) bool {
	switch f.place(n) {
	case Below:
		own, some := f.first(i)
		first, _ := f.first(-1)
		return some && own == first
	case Covered:
		return f.ids(i, n) &&
			(!need.Traces || !f.anyone(Trace, n) || f.has(i, Trace, n)) &&
			(!need.Deltas || !f.anyone(ChainState, n) || f.has(i, ChainState, n)) &&
			(!need.Finality || !f.anyone(Finality, n) || f.has(i, Finality, n))
	default:
		return false
	}
}

// runEnd is P7: the first block above n that the upstream does not hold.
func (f naive) runEnd(i int, n uint32, need Need) (uint32, bool) {
	if !f.v.Upstreams[i].Routable() || !f.holds(i, n, need) {
		return 0, false
	}
	for n++; n < horizon; n++ {
		if !f.holds(i, n, need) {
			return n, true
		}
	}
	return NoBlock, true
}

// drawUpstream is a node of any kind whose logs may begin and end anywhere
// below the horizon.
func drawUpstream(rt *rapid.T) Upstream {
	block := rapid.Uint32Range(0, horizon-8)
	log := func(name string) ship.Range {
		if rapid.IntRange(0, 4).Draw(rt, name+" is there") == 0 {
			return ship.Range{}
		}
		begin := block.Draw(rt, name+" begins")
		return ship.Range{Begin: begin, End: begin + rapid.Uint32Range(0, 7).Draw(rt, name+" has")}
	}
	var u Upstream
	switch rapid.IntRange(0, 4).Draw(rt, "kind") {
	case 0:
		u = newUpstream(server("l"), nil)
	case 1:
		u = newUpstream(declares("a", 0, 0), nil)
	case 2:
		begin := block.Draw(rt, "declared from")
		u = newUpstream(declares("a", begin, begin+rapid.Uint32Range(1, 7).Draw(rt, "declared")), nil)
	case 3:
		s := ship.Status{Head: pos(1), Trace: log("trace"), ChainState: log("state"), Finality: log("finality")}
		u = Heard(server("l"), &s)
	default:
		s := ship.Status{Head: pos(1), Trace: log("trace"), ChainState: log("state"), Finality: log("finality")}
		begin := block.Draw(rt, "declared from")
		u = Heard(declares("a", begin, begin+1), &s)
	}
	u.Online = u.Reported && rapid.Bool().Draw(rt, "online")
	u.Disabled = rapid.IntRange(0, 5).Draw(rt, "disabled") == 0
	u.Removed = rapid.IntRange(0, 7).Draw(rt, "removed") == 0
	return u
}

// TestAtlasAgreesWithTheRules compares the atlas, for fleets of any shape and
// through changes of them, with the rules told block by block.
func TestAtlasAgreesWithTheRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.SliceOfN(rapid.Custom(drawUpstream), 0, 6).Draw(rt, "fleet")
		v := NewView(stitched(), nodes)
		for range rapid.IntRange(1, 3).Draw(rt, "views") {
			checkAtlas(rt, v)
			nodes = slices.Clone(nodes)
			if len(nodes) > 0 && rapid.Bool().Draw(rt, "change") {
				nodes[rapid.IntRange(0, len(nodes)-1).Draw(rt, "which")] = drawUpstream(rt)
			} else {
				nodes = append(nodes, drawUpstream(rt))
			}
			v = v.next(stitched(), nodes)
		}
	})
}

func checkAtlas(rt *rapid.T, v *View) {
	rules := naive{v}
	if first, some := rules.first(-1); some && v.FirstBlock() != first {
		rt.Fatalf("the first block is %d, %d was due", v.FirstBlock(), first)
	}
	need := Need{Traces: rapid.Bool().Draw(rt, "traces"), Deltas: rapid.Bool().Draw(rt, "deltas"), Finality: rapid.Bool().Draw(rt, "finality"), V1: true}
	for n := range uint32(horizon) {
		if got, want := v.Place(n), rules.place(n); got != want {
			rt.Fatalf("the place of %d is %d, %d was due", n, got, want)
		}
		var got, want []Holder
		v.Holders(n, need, func(h Holder) bool { got = append(got, h); return true })
		for i := range v.Upstreams {
			end, ok := rules.runEnd(i, n, need)
			if ok {
				want = append(want, Holder{i, end})
			}
			if gotEnd, gotOK := v.RunEnd(i, n, need); gotOK != ok || gotEnd != end {
				rt.Fatalf("the run of %d from %d ends at %d (%v), %d (%v) was due", i, n, gotEnd, gotOK, end, ok)
			}
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("holders of %d for %+v: %v, %v was due", n, need, got, want)
		}
	}
}

// splitFleet is a fleet of archives, two replicas to a range, and live nodes.
func splitFleet(servers int) []Upstream {
	const length, live = 1000, 2
	var nodes []Upstream
	for i := range servers - live {
		begin := uint32(i/2)*length + 1
		nodes = append(nodes, archive(begin, begin+length))
	}
	end := nodes[len(nodes)-1].Trace.End
	for range live {
		nodes = append(nodes, known(end-10, end-10, end-10))
	}
	return nodes
}

var sizes = []int{4, 64, 1000}

// BenchmarkHolders is one question of a plan.
func BenchmarkHolders(b *testing.B) {
	for _, servers := range sizes {
		v := NewView(stitched(), splitFleet(servers))
		top := v.Upstreams[servers-1].Trace.Begin + 100
		b.Run(fmt.Sprint(servers), func(b *testing.B) {
			b.ReportAllocs()
			found := 0
			for n := uint32(0); b.Loop(); n += 7919 {
				v.Holders(n%top, both, func(Holder) bool { found++; return true })
			}
			if found == 0 {
				b.Fatal("nobody holds anything")
			}
		})
	}
}

// BenchmarkAtlas is what a change of any range costs: the atlas, and the holders
// for one set of logs.
func BenchmarkAtlas(b *testing.B) {
	for _, servers := range sizes {
		nodes := splitFleet(servers)
		b.Run(fmt.Sprint(servers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				atlasOf(nodes, nil).stretches(both.logs())
			}
		})
	}
}

// BenchmarkView is what a view costs that changes no range.
func BenchmarkView(b *testing.B) {
	for _, servers := range sizes {
		nodes := splitFleet(servers)
		v := NewView(stitched(), nodes)
		cfg := stitched()
		b.Run(fmt.Sprint(servers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v = v.next(cfg, nodes)
			}
		})
	}
}
