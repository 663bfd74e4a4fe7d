package admin

import (
	"fmt"
	"strings"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/simulator"
)

// archive is a frozen server at an address; an end of 0 declares no range.
func archive(name, address string, begin, end uint32) *config.Server {
	s := server(name, address)
	s.Role = config.Frozen
	if end > 0 {
		s.Range = &config.Range{Begin: begin, End: end}
	}
	return s
}

// downArchive is one that cannot be reached.
func downArchive(name string, begin, end uint32) *config.Server {
	return archive(name, "127.0.0.1:1", begin, end)
}

// split is a range-split listener with a fleet that nobody runs.
func split(name string, servers ...*config.Server) Listener {
	l := pool(name, servers...)
	l.Config.Topology = config.TopologyStitched
	l.Fleet = fleet.New(l.Config, &dial.Dialer{Timeout: l.Config.ConnectTimeout(), MaxMessage: l.Config.MaxMessage}, quiet)
	return l
}

// splitFleet is a range-split listener whose nodes are all up: the archive y has
// the blocks up to 50, z, an old node, those up to 100, and l those from 95 to
// the head, 150.
func splitFleet(t *testing.T) (Listener, *simulator.Chain) {
	t.Helper()
	chain := simulator.NewChain(simulator.ChainOptions{Head: 150, LIBLag: 20})
	y := node(t, chain, simulator.Options{First: 1, End: 51})
	z := node(t, chain, simulator.Options{First: 51, End: 101, V0Only: true})
	l := node(t, chain, simulator.Options{First: 95})
	s := split("eos", archive("y", y.Addr(), 1, 51), archive("z", z.Addr(), 51, 99), server("l", l.Addr()))
	runs(t, s.Fleet)
	await(t, s.Fleet, 3)
	return s, chain
}

func TestReadyOfASplitFleet(t *testing.T) {
	eos, _ := splitFleet(t)
	st := State{Listeners: []Listener{eos}, ReloadOK: true}
	const y, z, l = 0, 1, 2
	for _, step := range []struct {
		name         string
		disabled     []int
		tip, history string
	}{
		{"all are up", nil, "ready (eos): 3 upstream(s) online", "ready (eos): 3 upstream(s) online"},
		{"an archive is out", []int{z}, "ready (eos): 2 upstream(s) online",
			"not ready (eos): segment [51,95) has no online upstream (trace, chain_state)"},
		{"both are", []int{y, z}, "ready (eos): 1 upstream(s) online",
			"not ready (eos): segment [1,95) has no online upstream (chain_state); segment [2,95) has no online upstream (trace)"},
		{"the live node is", []int{l}, "not ready (eos): no live upstreams online",
			"not ready (eos): no live upstreams online; segment [101,151) has no online upstream (trace, chain_state)"},
	} {
		for i := range eos.Fleet.View().Upstreams {
			eos.Fleet.SetDisabled(i, false)
		}
		for _, i := range step.disabled {
			eos.Fleet.SetDisabled(i, true)
		}
		for target, want := range map[string]string{"/ready/eos": step.tip, "/ready/eos?scope=tip": step.tip, "/ready/eos?scope=history": step.history} {
			code := 200
			if strings.HasPrefix(want, "not") {
				code = 503
			}
			checkReady(t, st, target, code, want+"\n")
		}
	}
}

// TestReadyTexts of listeners none of whose nodes is up, alone and together.
func TestReadyTexts(t *testing.T) {
	wax := pool("wax", down("a"))
	holes := split("holes", downArchive("x", 1, 11), downArchive("y", 21, 31), downArchive("z", 41, 51))
	unknown := split("unknown", downArchive("x", 0, 0), downArchive("y", 0, 0), down("l"))
	multi := func(l ...Listener) State { return State{Listeners: l, ReloadOK: true} }
	single := func(l Listener) State {
		l.Config.Name = "default"
		return State{Listeners: []Listener{l}, Single: true, ReloadOK: true}
	}
	const (
		holesHistory = "no upstreams online; gap [11,21) has no upstream (trace, chain_state); gap [31,41) has no upstream (trace, chain_state); " +
			"segment [41,51) has no online upstream (trace, chain_state)"
		unknownHistory = "no live upstreams online; 2 frozen upstream(s) have neither reported nor declared a range"
	)
	for _, c := range []struct {
		st           State
		path         string
		tip, history string
	}{
		{multi(holes), "/ready/holes", "not ready (holes): no upstreams online", "not ready (holes): " + holesHistory},
		{multi(unknown), "/ready/unknown", "not ready (unknown): no live upstreams online", "not ready (unknown): " + unknownHistory},
		{multi(holes), "/ready", "not ready: holes: no upstreams online", "not ready: holes: " + holesHistory},
		{multi(wax), "/ready", "not ready: listener(s) with no online upstreams: wax", "not ready: listener(s) with no online upstreams: wax"},
		{multi(wax, holes, unknown), "/ready",
			"not ready: wax: no upstreams online, holes: no upstreams online, unknown: no live upstreams online",
			"not ready: wax: no upstreams online, holes: " + holesHistory + ", unknown: " + unknownHistory},
		{single(split("", downArchive("x", 0, 0), down("l"))), "/ready", "not ready: no live upstreams online",
			"not ready: no live upstreams online; 1 frozen upstream(s) have neither reported nor declared a range"},
	} {
		checkReady(t, c.st, c.path, 503, c.tip+"\n")
		checkReady(t, c.st, c.path+"?scope=history", 503, c.history+"\n")
	}
}

// TestReadyWithoutLiveNodes: archives alone are ready with any of them.
func TestReadyWithoutLiveNodes(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 150})
	z := node(t, chain, simulator.Options{First: 51, End: 101})
	l := split("eos", downArchive("y", 1, 51), archive("z", z.Addr(), 0, 0))
	runs(t, l.Fleet)
	await(t, l.Fleet, 1)
	st := State{Listeners: []Listener{l, pool("wax", down("a"))}, ReloadOK: true}
	checkReady(t, st, "/ready/eos", 200, "ready (eos): 1 upstream(s) online\n")
	checkReady(t, st, "/ready/eos?scope=history", 503, "not ready (eos): segment [1,51) has no online upstream (trace, chain_state)\n")
	// The pool alone fails for the tip, and both for the history.
	checkReady(t, st, "/ready", 503, "not ready: listener(s) with no online upstreams: wax\n")
	checkReady(t, st, "/ready?scope=history", 503, "not ready: eos: segment [1,51) has no online upstream (trace, chain_state), wax: no upstreams online\n")
	st.Listeners = st.Listeners[:1]
	checkReady(t, st, "/ready", 200, "ready: 1 listener(s) ready, 1 upstream(s) online\n")
}

func TestCoverageOfASplitFleet(t *testing.T) {
	eos, chain := splitFleet(t)
	const z = 1
	eos.Fleet.SetDisabled(z, true)
	if eos.Fleet.Reserve(func() int { return 0 }) != 0 {
		t.Fatal("no slot was free")
	}
	v := eos.Fleet.View()
	head, lib := chain.Head(), chain.LIB()
	upstream := func(name, role, more string) string {
		return fmt.Sprintf(`{"server":%q,"role":%q,"online":true,"sessions":%s}`, name, role, more)
	}
	y, arcZ, l := upstream("y", "frozen", "1"), upstream("z", "frozen", `0,"operator_disabled":true`), upstream("l", "live", "0")
	log := func(begin string) string {
		return `{"reported":{"begin":` + begin + `,"end":151},"gaps":[],"offline_only":[{"begin":51,"end":95}],"segments":[
			{"begin":` + begin + `,"end":51,"upstreams":[` + y + `]},{"begin":51,"end":95,"upstreams":[` + arcZ + `]},
			{"begin":95,"end":101,"upstreams":[` + arcZ + `,` + l + `]},{"begin":101,"end":151,"upstreams":[` + l + `]}]}`
	}
	want := fmt.Sprintf(`{"listeners":[{"name":"eos","topology":"stitched","generation":%d,
		"head":{"num":150,"id":%q},"lib":{"num":130,"id":%q},"chain_id":%q,"status_ready":true,"frozen_unreported":0,
		"abi":{"fingerprint":%q,"source":"l","provisional":false,"mismatched":["z"]},"chain_api":null,
		"logs":{"trace":%s,"chain_state":%s,"finality":{"reported":{"begin":95,"end":151},"gaps":[{"begin":51,"end":95}],"offline_only":[],
			"segments":[{"begin":1,"end":51,"upstreams":[%s]},{"begin":95,"end":151,"upstreams":[%s]}]}}}]}`,
		v.Generation, head.ID, lib.ID, chain.ID(), v.Upstreams[2].ABI.Fingerprint, log("2"), log("1"), y, l)
	s := serving(State{Listeners: []Listener{eos, pool("wax", down("a"))}, ReloadOK: true})
	code, got := get(t, s, "/coverage/eos")
	if code != 200 {
		t.Fatalf("it is %d %s", code, got)
	}
	sameJSON(t, got, want)
	if _, all := get(t, s, "/coverage"); !strings.HasPrefix(all, strings.TrimSuffix(got, "]}\n")+",") {
		t.Errorf("among all it is %s", all)
	}
}

// TestCoverageOfUnreportedArchives is T1: no status is answered while the range
// of an archive is not known, however well the tip is.
func TestCoverageOfUnreportedArchives(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 150})
	n := node(t, chain, simulator.Options{First: 95})
	for _, c := range []struct {
		archive     *config.Server
		ready       string
		unreported  string
		provisional string
	}{
		{downArchive("y", 0, 0), `"status_ready":false,`, `"frozen_unreported":1,`, `"provisional":false,`},
		{downArchive("y", 1, 95), `"status_ready":true,`, `"frozen_unreported":0,`, `"provisional":false,`},
	} {
		l := split("eos", c.archive, server("l", n.Addr()))
		runs(t, l.Fleet)
		await(t, l.Fleet, 1)
		_, got := get(t, serving(State{Listeners: []Listener{l}, ReloadOK: true}), "/coverage")
		for _, part := range []string{c.ready, c.unreported, c.provisional} {
			if !strings.Contains(got, part) {
				t.Errorf("it lacks %s: %s", part, got)
			}
		}
	}
	// An ABI that only an archive has sent is one until a live node sends its own.
	z := node(t, chain, simulator.Options{End: 51})
	l := split("eos", archive("z", z.Addr(), 1, 51), down("l"))
	runs(t, l.Fleet)
	await(t, l.Fleet, 1)
	_, got := get(t, serving(State{Listeners: []Listener{l}, ReloadOK: true}), "/coverage")
	for _, part := range []string{`"source":"z","provisional":true,"mismatched":[]`, `"status_ready":false`, `"head":null`} {
		if !strings.Contains(got, part) {
			t.Errorf("it lacks %s: %s", part, got)
		}
	}
}

func TestMetricsOfASplitFleet(t *testing.T) {
	eos, _ := splitFleet(t)
	eos.Fleet.SetDisabled(1, true)
	st := eos.Fleet.Stats
	up := eos.Fleet.View().Upstreams
	for i, kind := range fleet.Violations {
		for range i + 1 {
			up[0].Live.Violations.Inc(kind)
		}
	}
	up[0].Live.WithoutBlock.Add(3)
	up[1].Live.PrevFilled.Add(4)
	up[0].Live.LinksTotal.Inc(fleet.Handoff)
	eos.Fleet.LacksBlocks(0, 7)
	st.Handoffs.Add(5)
	for _, seconds := range []float64{0.0005, 0.001, 0.3, 20} {
		st.HandoffLatency.Observe(seconds)
	}
	st.Predials.Inc(fleet.PredialUsed)
	st.Predials.Inc(fleet.PredialUsed)
	st.Predials.Inc(fleet.PredialFailed)
	st.Holds.Inc(fleet.HoldOffline)
	st.Holds.Inc(fleet.HoldAtCapacity)
	st.HoldCloses.Inc(fleet.HoldAtCapacity)

	s := serving(State{Listeners: []Listener{eos}, ReloadOK: true})
	got := scrapeOf(t, s)
	want := map[string]float64{
		"fleet_router_fleet_live_overlap_blocks{listener=eos,log=trace}": 6, "fleet_router_fleet_live_overlap_blocks{listener=eos,log=chain_state}": 6,
		"fleet_router_fleet_offline_coverage_blocks{listener=eos,log=trace}": 44, "fleet_router_fleet_offline_coverage_blocks{listener=eos,log=chain_state}": 44,
		"fleet_router_fleet_offline_coverage_blocks{listener=eos,log=finality}": 0,
		"fleet_router_fleet_coverage_gaps{listener=eos,log=trace}":              0, "fleet_router_fleet_coverage_gaps{listener=eos,log=finality}": 1,
		"fleet_router_fleet_coverage_begin_block{listener=eos,log=trace}":    2,
		"fleet_router_fleet_coverage_begin_block{listener=eos,log=finality}": 95,
		"fleet_router_fleet_coverage_end_block{listener=eos,log=trace}":      151,
		"fleet_router_fleet_frozen_unreported{listener=eos}":                 0,
		"fleet_router_handoffs_total{listener=eos}":                          5,
		"fleet_router_handoff_latency_seconds{listener=eos}":                 20.3015,
		"fleet_router_predials_total{listener=eos,result=used}":              2, "fleet_router_predials_total{listener=eos,result=failed}": 1,
		"fleet_router_predials_total{listener=eos,result=discarded}": 0,
		"fleet_router_holds_total{listener=eos,why=offline}":         1, "fleet_router_holds_total{listener=eos,why=at_capacity}": 1,
		"fleet_router_holds_total{listener=eos,why=busy}": 0, "fleet_router_hold_closes_total{listener=eos,why=at_capacity}": 1,
		"fleet_router_hold_closes_total{listener=eos,why=quarantined}": 0,
	}
	series := func(i int, name, label string) string {
		s := up[i].Server
		labels := map[bool]string{true: label + ",", false: ""}
		early, late := "", ""
		// Labels come sorted.
		if label != "" && label < "listener" {
			early = labels[true]
		} else if label != "" {
			late = labels[true]
		}
		return "fleet_router_upstream_" + name + "{endpoint=" + s.Endpoint + "," + early + "listener=eos," + late + "server=" + s.Name + "}"
	}
	for i, kind := range fleet.Violations {
		want[series(0, "contract_violations_total", "kind="+string(kind))] = float64(i + 1)
		want[series(1, "contract_violations_total", "kind="+string(kind))] = 0
	}
	for name, values := range map[string][3]float64{
		"no_block_log": {1, 0, -1}, "results_without_block_total": {3, 0, -1}, "prev_blocks_filled_total": {0, 4, -1},
		"range_mismatch": {0, 1, 0}, "ranges_known": {1, 1, 1}, "abi_match": {1, 0, 1}, "stale": {0, 0, 0},
		"trace_begin_block": {2, 51, 95}, "trace_end_block": {51, 101, 151},
	} {
		for i, v := range values {
			if v >= 0 {
				want[series(i, name, "")] = v
			} else if key := series(i, name, ""); has(got, key) {
				t.Errorf("%s is there", key)
			}
		}
	}
	want[series(0, "info", "role=frozen")], want[series(2, "info", "role=live")] = 1, 1
	want[series(0, "links_total", "purpose=handoff")] = 1
	got.check(t, want)
	for _, kind := range fleet.Violations {
		if key := series(2, "contract_violations_total", "kind="+string(kind)); has(got, key) {
			t.Errorf("%s is there", key)
		}
	}

	_, text := get(t, s, "/metrics")
	for _, line := range []string{
		`fleet_router_handoff_latency_seconds_bucket{listener="eos",le="0.001"} 2`,
		`fleet_router_handoff_latency_seconds_bucket{listener="eos",le="0.005"} 2`,
		`fleet_router_handoff_latency_seconds_bucket{listener="eos",le="0.25"} 2`,
		`fleet_router_handoff_latency_seconds_bucket{listener="eos",le="0.5"} 3`,
		`fleet_router_handoff_latency_seconds_bucket{listener="eos",le="10"} 3`,
		`fleet_router_handoff_latency_seconds_bucket{listener="eos",le="+Inf"} 4`,
		`fleet_router_handoff_latency_seconds_sum{listener="eos"} 20.3015`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the text lacks %s", line)
		}
	}
}

func has(s scrape, key string) bool { _, there := s.samples[key]; return there }

// TestMetricsBeforeAnArchiveReports: what is only declared counts for the fleet,
// and is known; it is not what the archive reported.
func TestMetricsBeforeAnArchiveReports(t *testing.T) {
	l := split("eos", downArchive("y", 1, 51), downArchive("z", 0, 0), down("l"))
	got := scrapeOf(t, serving(State{Listeners: []Listener{l}, ReloadOK: true}))
	series := func(name, server string) string {
		return "fleet_router_upstream_" + name + "{endpoint=127.0.0.1:1,listener=eos,server=" + server + "}"
	}
	got.check(t, map[string]float64{
		series("ranges_known", "y"): 1, series("ranges_known", "z"): 0, series("ranges_known", "l"): 0,
		series("trace_begin_block", "y"): 0, series("trace_end_block", "y"): 0, series("chain_state_end_block", "y"): 0,
		series("range_mismatch", "y"): 0, series("no_block_log", "z"): 0,
		"fleet_router_fleet_frozen_unreported{listener=eos}":                       1,
		"fleet_router_fleet_coverage_end_block{listener=eos,log=trace}":            51,
		"fleet_router_fleet_coverage_end_block{listener=eos,log=finality}":         0,
		"fleet_router_fleet_offline_coverage_blocks{listener=eos,log=chain_state}": 50,
	})
	for _, name := range []string{"fleet_router_fleet_live_overlap_blocks", "fleet_router_upstream_abi_match"} {
		if got.has(name) {
			t.Errorf("%s has a series, though no node was ever up", name)
		}
	}
}
