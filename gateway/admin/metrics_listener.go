package admin

import (
	"strconv"
	"strings"
	"sync/atomic"

	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
)

// listenerSubject is one listener at the moment of a scrape.
type listenerSubject struct {
	*Listener
	view      *fleet.View
	stats     *fleet.Stats
	head, lib ship.Pos
	logs      map[fleet.Log]fleet.Coverage
}

func newListenerSubject(l *Listener) listenerSubject {
	s := listenerSubject{Listener: l, view: l.Fleet.View(), stats: l.Fleet.Stats, logs: map[fleet.Log]fleet.Coverage{}}
	s.head, s.lib, _ = l.Fleet.Tip()
	for _, log := range fleet.Logs {
		s.logs[log] = s.view.Coverage(log, s.head.Num)
	}
	return s
}

// count is a counter of the listener without labels of its own.
func count(name, help string, of func(*fleet.Stats) *atomic.Uint64) metric[listenerSubject] {
	return metric[listenerSubject]{family{name, counter, help, nil},
		func(l listenerSubject, to sink) { to.value(float64(of(l.stats).Load())) }}
}

// perLog is a gauge with one series for each log.
func perLog(name, help string, read func(fleet.Coverage) float64) metric[listenerSubject] {
	return metric[listenerSubject]{family{name, gauge, help, []string{"log"}},
		func(l listenerSubject, to sink) {
			for _, log := range fleet.Logs {
				to.value(read(l.logs[log]), log.String())
			}
		}}
}

// blocks is how many blocks the ranges hold together.
func blocks(ranges []ship.Range) (n uint64) {
	for _, r := range ranges {
		n += uint64(r.End - r.Begin)
	}
	return n
}

// closeCodes are the codes that this process sends, 0 being none. They are
// there from the start, so that the first of them is an increase.
var closeCodes = []int{0, 1000, 1001, 1003, 1007, 1008, 1011}

var listenerMetrics = []metric[listenerSubject]{
	{family{"fleet_router_fleet_head_block", gauge, "Newest block of the fleet, 0 until known.", nil},
		func(l listenerSubject, to sink) { to.value(float64(l.head.Num)) }},
	{family{"fleet_router_fleet_lib_block", gauge, "Last irreversible block of the fleet, 0 until known; never falls.", nil},
		func(l listenerSubject, to sink) { to.value(float64(l.lib.Num)) }},
	{family{"fleet_router_fleet_head_age_seconds", gauge, "Seconds since the head last rose.", nil},
		func(l listenerSubject, to sink) { to.value(float64(l.Fleet.HeadAge().Milliseconds()) / 1000) }},
	perLog("fleet_router_fleet_coverage_begin_block", "First block of the newest unbroken range, 0 if there is none.",
		func(c fleet.Coverage) float64 { return float64(c.Top().Begin) }),
	perLog("fleet_router_fleet_coverage_end_block", "One past the last block of the newest unbroken range, 0 if there is none.",
		func(c fleet.Coverage) float64 { return float64(c.Top().End) }),
	perLog("fleet_router_fleet_coverage_gaps", "Holes below the newest unbroken range.",
		func(c fleet.Coverage) float64 { return float64(len(c.Gaps)) }),
	perLog("fleet_router_fleet_offline_coverage_blocks", "Blocks of the newest unbroken range that only offline or disabled upstreams have.",
		func(c fleet.Coverage) float64 { return float64(blocks(c.Offline)) }),
	{family{"fleet_router_fleet_live_overlap_blocks", gauge, "Blocks that archives and live nodes both have; only with archives.", []string{"log"}},
		func(l listenerSubject, to sink) {
			for _, log := range []fleet.Log{fleet.Trace, fleet.ChainState} {
				if n, ok := l.view.LiveOverlap(log); ok {
					to.value(float64(n), log.String())
				}
			}
		}},
	{family{"fleet_router_fleet_frozen_unreported", gauge, "Archives whose range is not known yet.", nil},
		func(l listenerSubject, to sink) { to.value(float64(l.view.Unreported())) }},

	{family{"fleet_router_sessions", gauge, "Client sessions by what they do.", []string{"state"}},
		func(l listenerSubject, to sink) {
			for _, state := range fleet.SessionStates {
				to.value(float64(l.stats.Sessions(state)), string(state))
			}
		}},
	{family{"fleet_router_status_replies_total", counter, "Status replies sent to clients.", []string{"version", "source"}},
		func(l listenerSubject, to sink) {
			l.stats.StatusReplies.Each(func(reply fleet.StatusReply, n uint64) {
				version, source, _ := strings.Cut(string(reply), "/")
				to.value(float64(n), version, source)
			})
		}},
	// A pool never hands off, so its series stay at 0.
	count("fleet_router_handoffs_total", "Changes to the upstream that has the next part of a stream.",
		func(s *fleet.Stats) *atomic.Uint64 { return &s.Handoffs }),
	{family{"fleet_router_handoff_latency_seconds", histogram, "Pause in a stream that a handoff made.", nil},
		func(l listenerSubject, to sink) { to.histogram(l.stats.HandoffLatency) }},
	{family{"fleet_router_predials_total", counter, "Links dialed ahead of a handoff.", []string{"result"}},
		func(l listenerSubject, to sink) { eachLabel(&l.stats.Predials, to) }},
	{family{"fleet_router_failovers_total", counter, "Links that were replaced in the middle of a stream.", []string{"reason"}},
		func(l listenerSubject, to sink) { eachLabel(&l.stats.Failovers, to) }},
	count("fleet_router_reroutes_total", "Requests moved to another upstream before they were sent.",
		func(s *fleet.Stats) *atomic.Uint64 { return &s.Reroutes }),
	count("fleet_router_duplicates_dropped_total", "Results withheld because the client had them already.",
		func(s *fleet.Stats) *atomic.Uint64 { return &s.Duplicates }),
	count("fleet_router_fork_redeliveries_total", "Blocks passed on again with another id after a fork.",
		func(s *fleet.Stats) *atomic.Uint64 { return &s.ForkRedeliveries }),
	count("fleet_router_keepalives_total", "Results without a block that were passed on.",
		func(s *fleet.Stats) *atomic.Uint64 { return &s.KeepAlives }),
	count("fleet_router_credit_overruns_total", "Results sent beyond the credit of the client.",
		func(s *fleet.Stats) *atomic.Uint64 { return &s.CreditOverruns }),
	count("fleet_router_patched_results_total", "Results whose head or LIB was raised.",
		func(s *fleet.Stats) *atomic.Uint64 { return &s.Patched }),
	{family{"fleet_router_holds_total", counter, "Blocks that a session had to wait for because nobody could serve them.", []string{"why"}},
		func(l listenerSubject, to sink) { eachLabel(&l.stats.Holds, to) }},
	{family{"fleet_router_hold_closes_total", counter, "Clients closed because such a wait took too long.", []string{"why"}},
		func(l listenerSubject, to sink) { eachLabel(&l.stats.HoldCloses, to) }},
	{family{"fleet_router_client_protocol_errors_total", counter, "Client messages that are no known request.", []string{"kind"}},
		func(l listenerSubject, to sink) { eachLabel(&l.stats.ProtocolErrors, to) }},
	count("fleet_router_too_large_closes_total", "Clients closed because a message of an upstream was too large.",
		func(s *fleet.Stats) *atomic.Uint64 { return &s.TooLarge }),

	count("flotilla_connections_accepted_total", "Client connections let in.",
		func(s *fleet.Stats) *atomic.Uint64 { return &s.Accepted }),
	count("flotilla_connections_rejected_total", "Client connections refused because of max_connections.",
		func(s *fleet.Stats) *atomic.Uint64 { return &s.Rejected }),
	{family{"flotilla_connections_open", gauge, "Client connections open now.", nil},
		func(l listenerSubject, to sink) { to.value(float64(l.stats.Clients.Load())) }},
	{family{"flotilla_connections_closed_total", counter, "Client connections that ended, by the code of our Close frame.", []string{"code"}},
		func(l listenerSubject, to sink) {
			closed := map[int]uint64{}
			for _, code := range closeCodes {
				closed[code] = 0
			}
			l.stats.EachClosed(func(code int, n uint64) { closed[code] = n })
			for code, n := range closed {
				to.value(float64(n), closeLabel(code))
			}
		}},
	{family{"flotilla_max_connections", gauge, "Limit of client connections.", nil},
		func(l listenerSubject, to sink) { to.value(float64(l.Config.MaxConnections)) }},
	count("flotilla_slow_client_closes_total", "Links closed because their client did not take what was sent.",
		func(s *fleet.Stats) *atomic.Uint64 { return &s.SlowClients }),
}

// eachLabel adds the series of a counter with one label.
func eachLabel[L ~string](c *fleet.Labelled[L], to sink) {
	c.Each(func(label L, n uint64) { to.value(float64(n), string(label)) })
}

func closeLabel(code int) string {
	if code == 0 {
		return "none"
	}
	return strconv.Itoa(code)
}
