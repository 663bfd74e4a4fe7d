package admin

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"flotilla/gateway/fleet"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/simulator"
)

// scrape is an answer of /metrics: the types by family, and the samples as "name{label=value,…}".
type scrape struct {
	types   map[string]string
	samples map[string]float64
}

// scrapeOf asks for /metrics, has the text checked by a parser of the format,
// and reads it.
func scrapeOf(t *testing.T, s *Server) scrape {
	t.Helper()
	r := request(s, "GET", "/metrics")
	text := body(t, r)
	if got := r.Header.Get("Content-Type"); r.StatusCode != 200 || got != "text/plain; version=0.0.4" {
		t.Fatalf("it is %d %q", r.StatusCode, got)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	out := scrape{types: map[string]string{}, samples: map[string]float64{}}
	for l := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(l, "# TYPE "); ok {
			name, kind, _ := strings.Cut(strings.TrimSpace(rest), " ")
			if out.types[name] != "" {
				t.Errorf("%s is declared twice", name)
			}
			out.types[name] = kind
		}
	}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			key := name
			if len(labels) > 0 {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			if _, twice := out.samples[key]; twice {
				t.Errorf("%s is there twice", key)
			}
			out.samples[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return out
}

func (s scrape) check(t *testing.T, want map[string]float64) {
	t.Helper()
	for key, v := range want {
		if got, ok := s.samples[key]; !ok || got != v {
			t.Errorf("%s is %v (there: %v), %v was due", key, got, ok, v)
		}
	}
}

// has reports whether a family has any sample.
func (s scrape) has(name string) bool {
	for key := range s.samples {
		if key == name || strings.HasPrefix(key, name+"{") {
			return true
		}
	}
	return false
}

// peerFamilies are the families that an alert rule of the peer may name, with
// their labels after those of the listener and the upstream (3.1 and 3.2).
const peerFamilies = `
up gauge
upstream_up gauge U
upstream_stale gauge U
upstream_operator_disabled gauge U
upstream_priority gauge U
upstream_weight gauge U
active_connections gauge U
upstream_trace_begin_block gauge U
upstream_trace_end_block gauge U
upstream_chain_state_begin_block gauge U
upstream_chain_state_end_block gauge U
upstream_finality_data_begin_block gauge U
upstream_finality_data_end_block gauge U
upstream_block_failures_total counter U
upstream_quarantined gauge U
upstream_quarantine_block gauge U
upstream_head_block gauge U
upstream_lib_block gauge U
upstream_info gauge U role
upstream_ranges_known gauge U
upstream_range_mismatch gauge U
upstream_abi_info gauge U fingerprint
upstream_abi_compatible gauge U
upstream_abi_match gauge U
upstream_links_total counter U purpose
upstream_dial_failures_total counter U reason
upstream_contract_violations_total counter U kind
upstream_no_block_log gauge U
upstream_results_without_block_total counter U
upstream_prev_blocks_filled_total counter U
upstream_stalls_total counter U
upstream_sequence_jumps_total counter U
fleet_head_block gauge L
fleet_lib_block gauge L
fleet_head_age_seconds gauge L
fleet_coverage_begin_block gauge L log
fleet_coverage_end_block gauge L log
fleet_coverage_gaps gauge L log
fleet_offline_coverage_blocks gauge L log
fleet_live_overlap_blocks gauge L log
fleet_frozen_unreported gauge L
sessions gauge L state
status_replies_total counter L version source
handoffs_total counter L
handoff_latency_seconds histogram L
failovers_total counter L reason
reroutes_total counter L
duplicates_dropped_total counter L
fork_redeliveries_total counter L
keepalives_total counter L
credit_overruns_total counter L
patched_results_total counter L
holds_total counter L why
hold_closes_total counter L why
predials_total counter L result
client_protocol_errors_total counter L kind
too_large_closes_total counter L
upstream_api_up gauge U
upstream_api_chain_id_mismatch gauge U
upstream_api_head_block gauge U
upstream_api_earliest_block gauge U
upstream_api_blocks_begin_block gauge U
upstream_api_blocks_end_block gauge U
upstream_api_verified gauge U
upstream_api_in_flight gauge U
upstream_api_max_in_flight gauge U
upstream_api_requests_total counter U result
api_requests_total counter L class code
api_request_duration_seconds histogram L class
api_in_flight gauge L
api_rejected_total counter L reason
api_retries_total counter L reason
api_block_requests_total counter L region role
api_pushes_total counter L result
`

// declaredLines are our families as "name kind labels", with the labels of
// their subject.
func declaredLines() []string {
	var lines []string
	add := func(f family, subject []string) {
		lines = append(lines, f.name+" "+string(f.kind)+" "+strings.Join(slices.Concat(subject, f.labels), ", "))
	}
	for _, m := range processMetrics {
		add(m.family, nil)
	}
	for _, m := range slices.Concat(listenerMetrics, listenerCertificateMetrics, apiCertificateMetrics) {
		add(m.family, listenerLabels)
	}
	for _, m := range policyMetrics {
		add(m.family, listenerLabels)
	}
	for _, m := range upstreamMetrics {
		add(m.family, upstreamLabels)
	}
	for _, m := range apiMetrics {
		add(m.family, listenerLabels)
	}
	for _, m := range apiUpstreamMetrics {
		add(m.family, upstreamLabels)
	}
	for _, m := range slices.Concat(evmMetrics, evmCertificateMetrics) {
		add(m.family, listenerLabels)
	}
	for _, m := range evmNodeMetrics {
		add(m.family, evmNodeLabels)
	}
	slices.Sort(lines)
	return lines
}

func TestPeersFamiliesAreDeclared(t *testing.T) {
	ours := declaredLines()
	subjects := map[string][]string{"": nil, "L": listenerLabels, "U": upstreamLabels}
	n := 0
	for l := range strings.Lines(strings.TrimSpace(peerFamilies)) {
		f := append(strings.Fields(l), "")
		labels := slices.Concat(subjects[f[2]], f[min(3, len(f)-1):len(f)-1])
		if want := "fleet_router_" + f[0] + " " + f[1] + " " + strings.Join(labels, ", "); !slices.Contains(ours, want) {
			t.Errorf("%q is not declared", want)
		}
		n++
	}
	if n != 74 {
		t.Errorf("the list has %d families", n)
	}
}

// The manual and the collector cannot drift apart.
func TestManualListsEveryFamily(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (gauge|counter|histogram) \\| ([^|]*) \\| ([^|]+) \\| ([^|]+) \\|$")
	var told []string
	for _, m := range row.FindAllStringSubmatch(string(manual), -1) {
		labels := strings.TrimSpace(m[3])
		if labels == "none" {
			labels = ""
		}
		told = append(told, m[1]+" "+m[2]+" "+strings.ReplaceAll(labels, "`", ""))
	}
	slices.Sort(told)
	ours := declaredLines()
	for _, l := range ours {
		if !slices.Contains(told, l) {
			t.Errorf("docs/metrics.md lacks %q", l)
		}
	}
	for _, l := range told {
		if !slices.Contains(ours, l) {
			t.Errorf("docs/metrics.md has %q, which is not declared", l)
		}
	}
	if len(slices.Compact(told)) != len(ours) {
		t.Errorf("docs/metrics.md has %d rows, %d were due", len(told), len(ours))
	}
}

func TestEveryFamilyIsDeclaredWithoutSeries(t *testing.T) {
	s := serving(State{ReloadOK: true, Revision: 3})
	got := scrapeOf(t, s)
	for _, f := range declared(false) {
		if got.types[f.name] != string(f.kind) {
			t.Errorf("%s has the type %q, %q was due", f.name, got.types[f.name], f.kind)
		}
		if f.help == "" || strings.ContainsAny(f.help, "\n\\") {
			t.Errorf("%s has the help %q", f.name, f.help)
		}
	}
	got.check(t, map[string]float64{
		"fleet_router_up": 1, "flotilla_config_revision": 3, "fleet_router_config_last_reload_successful": 1, "flotilla_draining": 0,
	})
	for _, name := range []string{"process_start_time_seconds", "go_goroutines", "flotilla_build_info"} {
		if !got.has(name) {
			t.Errorf("%s is not there", name)
		}
	}
	if r := scrapeOf(t, serving(State{Draining: true})); r.samples["fleet_router_config_last_reload_successful"] != 0 || r.samples["flotilla_draining"] != 1 {
		t.Error("a failed reload or a shutdown does not show")
	}
}

func TestBuildInfo(t *testing.T) {
	_, text := get(t, serving(State{}), "/metrics")
	if !regexp.MustCompile(`(?m)^flotilla_build_info\{commit="abc",goversion="[^"]+",version="1\.2\.3"\} 1$`).MatchString(text) {
		t.Errorf("flotilla_build_info is not as due in\n%s", text)
	}
}

// expiry is certificates that end then, and are as in their files.
type expiry time.Time

func (e expiry) NotAfter() time.Time { return time.Time(e) }
func (expiry) UpToDate() bool        { return true }

func TestMetricsInSingleMode(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 100, LIBLag: 10})
	n := node(t, chain, simulator.Options{First: 5, TraceBegin: 7, StateBegin: 9, FinalityBegin: 11})
	a := server("node \"a\"\\x", n.Addr())
	a.Priority, a.Weight, a.MaxSessions = 2, 3, 4
	l := running(t, "default", a)
	l.Certificates = expiry(time.Unix(1900000000, 0))
	await(t, l.Fleet, 1)
	s := serving(State{Listeners: []Listener{l}, Single: true, ReloadOK: true})
	got := scrapeOf(t, s)

	id := "{endpoint=" + n.Addr() + ",server=" + a.Name + "}"
	want := map[string]float64{
		"fleet_router_fleet_head_block": 100, "fleet_router_fleet_lib_block": 90, "fleet_router_fleet_frozen_unreported": 0,
		"fleet_router_fleet_coverage_begin_block{log=trace}": 7, "fleet_router_fleet_coverage_end_block{log=trace}": 101,
		"fleet_router_fleet_coverage_begin_block{log=chain_state}": 9, "fleet_router_fleet_coverage_begin_block{log=finality}": 11,
		"fleet_router_fleet_coverage_gaps{log=trace}": 0, "fleet_router_fleet_offline_coverage_blocks{log=trace}": 0,
		"fleet_router_handoffs_total": 0, "fleet_router_handoff_latency_seconds": 0, "fleet_router_predials_total{result=used}": 0,
		"fleet_router_status_replies_total{source=router,version=v0}":   0,
		"fleet_router_status_replies_total{source=upstream,version=v1}": 0,
		"fleet_router_hold_closes_total{why=at_capacity}":               0,
		"flotilla_connections_closed_total{code=none}":                  0, "flotilla_connections_closed_total{code=1011}": 0,
		"flotilla_max_connections": 100, "flotilla_tls_certificate_expiry_timestamp_seconds": 1900000000, "flotilla_tls_certificate_up_to_date": 1,
	}
	// Labels come sorted, so that of the family stands between the others.
	fingerprint := l.Fleet.View().Upstreams[0].ABI.Fingerprint
	own := func(label string) string {
		return "{endpoint=" + n.Addr() + "," + label + ",server=" + a.Name + "}"
	}
	want["fleet_router_upstream_info"+own("role=live")] = 1
	want["fleet_router_upstream_abi_info"+own("fingerprint="+fingerprint)] = 1
	want["fleet_router_upstream_links_total"+own("purpose=predial")] = 0
	want["fleet_router_upstream_dial_failures_total"+own("reason=busy")] = 0
	for name, v := range map[string]float64{
		"upstream_up": 1, "upstream_stale": 0, "upstream_operator_disabled": 0, "upstream_priority": 2, "upstream_weight": 3,
		"active_connections": 0, "upstream_trace_begin_block": 7, "upstream_trace_end_block": 101,
		"upstream_chain_state_begin_block": 9, "upstream_chain_state_end_block": 101,
		"upstream_finality_data_begin_block": 11, "upstream_finality_data_end_block": 101,
		"upstream_block_failures_total": 0, "upstream_quarantined": 0, "upstream_quarantine_block": 0,
		"upstream_head_block": 100, "upstream_lib_block": 90, "upstream_ranges_known": 1, "upstream_range_mismatch": 0,
		"upstream_abi_compatible": 1, "upstream_stalls_total": 0, "upstream_sequence_jumps_total": 0,
	} {
		want["fleet_router_"+name+id] = v
	}
	want["flotilla_upstream_max_sessions"+id] = 4
	want["flotilla_upstream_blocks_total"+id] = 0
	got.check(t, want)
	for key := range got.samples {
		if strings.Contains(key, "listener=") {
			t.Errorf("%s names a listener", key)
		}
	}
	for _, name := range []string{
		"fleet_router_fleet_live_overlap_blocks", "fleet_router_upstream_abi_match", "fleet_router_upstream_contract_violations_total",
		"fleet_router_upstream_no_block_log", "fleet_router_upstream_results_without_block_total", "fleet_router_upstream_prev_blocks_filled_total",
	} {
		if got.has(name) {
			t.Errorf("%s has a series, though nothing is stitched", name)
		}
	}
	_, text := get(t, s, "/metrics")
	for _, line := range []string{
		"fleet_router_reroutes_total 0",
		`fleet_router_upstream_up{endpoint="` + n.Addr() + `",server="node \"a\"\\x"} 1`,
		`fleet_router_handoff_latency_seconds_bucket{le="0.001"} 0`,
		`fleet_router_handoff_latency_seconds_bucket{le="10"} 0`,
		`fleet_router_handoff_latency_seconds_bucket{le="+Inf"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the text lacks %s", line)
		}
	}
}

func TestMetricsOfListeners(t *testing.T) {
	eos, wax := pool("eos", down("a"), down("b")), pool("wax", down("a"))
	got := scrapeOf(t, serving(State{Listeners: []Listener{eos, wax}, ReloadOK: true}))
	got.check(t, map[string]float64{
		"fleet_router_upstream_up{endpoint=127.0.0.1:1,listener=eos,server=b}": 0,
		"fleet_router_upstream_up{endpoint=127.0.0.1:1,listener=wax,server=a}": 0,
		"fleet_router_fleet_head_block{listener=wax}":                          0,
		"fleet_router_failovers_total{listener=eos,reason=unclean}":            0,
		"fleet_router_failovers_total{listener=eos,reason=no_block_log}":       0,
		"fleet_router_sessions{listener=eos,state=waiting}":                    0,
	})
	for key := range got.samples {
		ours := strings.HasPrefix(key, "fleet_router_") || strings.HasPrefix(key, "flotilla_")
		process := slices.ContainsFunc(processMetrics, func(m metric[process]) bool { return key == m.name || strings.HasPrefix(key, m.name+"{") })
		if ours && !process && !strings.Contains(key, "listener=") {
			t.Errorf("%s names no listener", key)
		}
	}
	if got.has("fleet_router_upstream_abi_info") || got.has("fleet_router_upstream_abi_compatible") || got.has("flotilla_tls_certificate_expiry_timestamp_seconds") {
		t.Error("there are series of ABIs or certificates that nobody has")
	}
}

func TestMetricsCount(t *testing.T) {
	l := pool("eos", down("a"))
	st := l.Fleet.Stats
	st.Accepted.Add(3)
	st.Rejected.Add(2)
	st.Clients.Add(1)
	st.SlowClients.Add(4)
	st.Move("", fleet.Streaming)
	st.Failovers.Inc(fleet.EndStall)
	st.StatusReplies.Inc(fleet.V1Router)
	st.Holds.Inc(fleet.HoldBusy)
	st.HoldCloses.Inc(fleet.HoldOffline)
	st.ProtocolErrors.Inc(fleet.Malformed)
	for _, c := range []struct {
		of interface{ Add(uint64) uint64 }
		n  uint64
	}{
		{&st.Reroutes, 11}, {&st.Duplicates, 12}, {&st.ForkRedeliveries, 13}, {&st.KeepAlives, 14},
		{&st.CreditOverruns, 15}, {&st.Patched, 16}, {&st.TooLarge, 17},
	} {
		c.of.Add(c.n)
	}
	st.Closed(0)
	st.Closed(1011)
	st.Closed(1011)
	st.Closed(1015)
	live := l.Fleet.View().Upstreams[0].Live
	live.BlockFailures.Add(21)
	live.Stalls.Add(22)
	live.Jumps.Add(23)
	live.Blocks.Add(24)
	live.Bytes.Add(25)
	live.LinksTotal.Inc(fleet.Failover)
	live.DialFailures.Inc(dial.Handshake)
	if i := l.Fleet.Reserve(func() int { return 0 }); i != 0 {
		t.Fatalf("upstream %d was reserved", i)
	}
	const id = "{endpoint=127.0.0.1:1,listener=eos,server=a}"
	scrapeOf(t, serving(State{Listeners: []Listener{l}})).check(t, map[string]float64{
		"flotilla_connections_accepted_total{listener=eos}": 3, "flotilla_connections_rejected_total{listener=eos}": 2,
		"flotilla_connections_open{listener=eos}": 1, "flotilla_slow_client_closes_total{listener=eos}": 4,
		"fleet_router_sessions{listener=eos,state=streaming}": 1, "fleet_router_sessions{listener=eos,state=idle}": 0,
		"fleet_router_failovers_total{listener=eos,reason=stall}":                    1,
		"fleet_router_status_replies_total{listener=eos,source=router,version=v1}":   1,
		"fleet_router_status_replies_total{listener=eos,source=upstream,version=v1}": 0,
		"fleet_router_holds_total{listener=eos,why=busy}":                            1,
		"fleet_router_hold_closes_total{listener=eos,why=offline}":                   1,
		"fleet_router_client_protocol_errors_total{kind=malformed,listener=eos}":     1,
		"fleet_router_reroutes_total{listener=eos}":                                  11,
		"fleet_router_duplicates_dropped_total{listener=eos}":                        12,
		"fleet_router_fork_redeliveries_total{listener=eos}":                         13,
		"fleet_router_keepalives_total{listener=eos}":                                14,
		"fleet_router_credit_overruns_total{listener=eos}":                           15,
		"fleet_router_patched_results_total{listener=eos}":                           16,
		"fleet_router_too_large_closes_total{listener=eos}":                          17,
		"flotilla_connections_closed_total{code=none,listener=eos}":                  1,
		"flotilla_connections_closed_total{code=1011,listener=eos}":                  2,
		"flotilla_connections_closed_total{code=1015,listener=eos}":                  1,
		"flotilla_connections_closed_total{code=1001,listener=eos}":                  0,

		"fleet_router_upstream_block_failures_total" + id:                                                        21,
		"fleet_router_upstream_stalls_total" + id:                                                                22,
		"fleet_router_upstream_sequence_jumps_total" + id:                                                        23,
		"flotilla_upstream_blocks_total" + id:                                                                    24,
		"flotilla_upstream_bytes_total" + id:                                                                     25,
		"fleet_router_active_connections" + id:                                                                   1,
		"fleet_router_upstream_links_total{endpoint=127.0.0.1:1,listener=eos,purpose=failover,server=a}":         1,
		"fleet_router_upstream_dial_failures_total{endpoint=127.0.0.1:1,listener=eos,reason=handshake,server=a}": 1,
	})
}

func TestQuarantine(t *testing.T) {
	now := time.Unix(1000, 0)
	until := func(block uint32, s int) fleet.Quarantine {
		return fleet.Quarantine{Block: block, Range: 10, Until: now.Add(time.Duration(s) * time.Second)}
	}
	for _, c := range []struct {
		list   []fleet.Quarantine
		active bool
		block  uint32
	}{
		{nil, false, 0},
		{[]fleet.Quarantine{until(5, 0)}, false, 0},
		{[]fleet.Quarantine{until(5, 1)}, true, 5},
		{[]fleet.Quarantine{until(9, 1), until(7, 1), until(5, -1), until(8, 1)}, true, 7},
		{[]fleet.Quarantine{until(0, 1), until(3, 1)}, true, 0},
	} {
		active, block := quarantine(upstreamSubject{Upstream: &fleet.Upstream{Quarantines: c.list}, now: now})
		if active != c.active || block != c.block {
			t.Errorf("%v is %v %d, %v %d was due", c.list, active, block, c.active, c.block)
		}
	}
}

// Two servers that cannot be told apart cost their own series only.
func TestTwinsDoNotBreakTheScrape(t *testing.T) {
	var said strings.Builder
	st := State{Listeners: []Listener{pool("eos", down("a"), down("a"))}}
	s := New(func() *State { return &st }, "1", "c", slog.New(slog.NewTextHandler(&said, nil)))
	if got := scrapeOf(t, s); !got.has("fleet_router_up") || !got.has("fleet_router_reroutes_total") {
		t.Error("the other series are gone")
	}
	if !strings.Contains(said.String(), "metrics are missing") {
		t.Errorf("nothing was logged of it: %q", said.String())
	}
}

func TestRequestsAtTheSameTime(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 20})
	n := node(t, chain, simulator.Options{})
	l := running(t, "eos", server("a", n.Addr()))
	await(t, l.Fleet, 1)
	single, multi := State{Listeners: []Listener{l}, Single: true}, State{Listeners: []Listener{l}, ReloadOK: true}
	var turn sync.Mutex
	odd := false
	s := New(func() *State {
		turn.Lock()
		defer turn.Unlock()
		if odd = !odd; odd {
			return &single
		}
		return &multi
	}, "1", "c", quiet)
	var all sync.WaitGroup
	for range 4 {
		for _, path := range []string{"/metrics", "/coverage", "/ready", "/ready/eos", "/health"} {
			all.Go(func() {
				for range 10 {
					if code, text := get(t, s, path); code != 200 {
						t.Errorf("%s is %d %s", path, code, text)
					}
				}
			})
		}
	}
	all.Go(func() {
		for i := range 200 {
			chain.Advance(1)
			l.Fleet.Stats.Failovers.Inc(fleet.EndClean)
			l.Fleet.Stats.Closed(1000)
			p := chain.Head()
			l.Fleet.Observe(l.Fleet.View(), 0, &p, &p)
			l.Fleet.View().Upstreams[0].Live.Blocks.Add(uint64(i))
		}
	})
	all.Wait()
	scrapeOf(t, serving(multi)).check(t, map[string]float64{"fleet_router_failovers_total{listener=eos,reason=clean}": 200})
}
