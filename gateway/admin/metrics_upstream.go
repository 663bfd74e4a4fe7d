package admin

import (
	"sync/atomic"
	"time"

	"flotilla/gateway/fleet"
)

// upstreamSubject is one upstream at the moment of a scrape.
type upstreamSubject struct {
	*fleet.Upstream
	view  *fleet.View
	index int // in the view
	now   time.Time
}

// upstreamGauge is a gauge of every upstream without labels of its own.
func upstreamGauge(name, help string, read func(upstreamSubject) float64) metric[upstreamSubject] {
	return metric[upstreamSubject]{family{name, gauge, help, nil},
		func(u upstreamSubject, to sink) { to.value(read(u)) }}
}

// upstreamCount is a counter of every upstream without labels of its own.
func upstreamCount(name, help string, of func(*fleet.Live) *atomic.Uint64) metric[upstreamSubject] {
	return metric[upstreamSubject]{family{name, counter, help, nil},
		func(u upstreamSubject, to sink) { to.value(float64(of(u.Live).Load())) }}
}

// archivesOnly is a family that has no series for live nodes.
func archivesOnly(name string, k kind, help string, read func(upstreamSubject, sink), labels ...string) metric[upstreamSubject] {
	return metric[upstreamSubject]{family{name, k, help, labels}, func(u upstreamSubject, to sink) {
		if u.Frozen() {
			read(u, to)
		}
	}}
}

// archiveCount is a counter of every archive without labels of its own.
func archiveCount(name, help string, of func(*fleet.Live) *atomic.Uint64) metric[upstreamSubject] {
	return archivesOnly(name, counter, help, func(u upstreamSubject, to sink) { to.value(float64(of(u.Live).Load())) })
}

// reported is a bound of a log as the node reported it, 0 before: a range that
// is only declared is not shown (spec "observability" 3.1).
func reported(of func(upstreamSubject) uint32) func(upstreamSubject) float64 {
	return func(u upstreamSubject) float64 {
		if !u.Reported {
			return 0
		}
		return float64(of(u))
	}
}

var upstreamMetrics = []metric[upstreamSubject]{
	upstreamGauge("fleet_router_upstream_up", "1 while the node answers status requests.",
		func(u upstreamSubject) float64 { return flag(u.Online) }),
	upstreamGauge("fleet_router_upstream_stale", "1 while a live node does not move.",
		func(u upstreamSubject) float64 { return flag(u.Stale) }),
	upstreamGauge("fleet_router_upstream_operator_disabled", "1 while an operator keeps the node out.",
		func(u upstreamSubject) float64 { return flag(u.Disabled) }),
	upstreamGauge("fleet_router_upstream_priority", "Priority in effect; lower wins.",
		func(u upstreamSubject) float64 { return float64(u.Server.Priority) }),
	upstreamGauge("fleet_router_upstream_weight", "Weight in effect.",
		func(u upstreamSubject) float64 { return float64(u.Server.Weight) }),
	upstreamGauge("fleet_router_active_connections", "Session links to the node, those being dialed included.",
		func(u upstreamSubject) float64 { return float64(u.Live.Links()) }),
	upstreamGauge("flotilla_upstream_max_sessions", "Limit of session links, 0 for none.",
		func(u upstreamSubject) float64 { return float64(u.Server.MaxSessions) }),

	upstreamGauge("fleet_router_upstream_head_block", "Head of the last status, 0 before the first.",
		func(u upstreamSubject) float64 { return float64(u.Head.Num) }),
	upstreamGauge("fleet_router_upstream_lib_block", "Last irreversible block of the last status, 0 before the first.",
		func(u upstreamSubject) float64 { return float64(u.LIB.Num) }),
	upstreamGauge("fleet_router_upstream_trace_begin_block", "First block of the trace log, 0 before the first status.",
		reported(func(u upstreamSubject) uint32 { return u.Trace.Begin })),
	upstreamGauge("fleet_router_upstream_trace_end_block", "One past the last block of the trace log, 0 before the first status.",
		reported(func(u upstreamSubject) uint32 { return u.Trace.End })),
	upstreamGauge("fleet_router_upstream_chain_state_begin_block", "First block of the chain-state log, 0 before the first status.",
		reported(func(u upstreamSubject) uint32 { return u.ChainState.Begin })),
	upstreamGauge("fleet_router_upstream_chain_state_end_block", "One past the last block of the chain-state log, 0 before the first status.",
		reported(func(u upstreamSubject) uint32 { return u.ChainState.End })),
	upstreamGauge("fleet_router_upstream_finality_data_begin_block", "First block of the finality log, 0 for nodes without one.",
		reported(func(u upstreamSubject) uint32 { return u.Finality.Begin })),
	upstreamGauge("fleet_router_upstream_finality_data_end_block", "One past the last block of the finality log, 0 for nodes without one.",
		reported(func(u upstreamSubject) uint32 { return u.Finality.End })),

	upstreamCount("fleet_router_upstream_block_failures_total", "Failures counted against the node at a block.",
		func(l *fleet.Live) *atomic.Uint64 { return &l.BlockFailures }),
	upstreamGauge("fleet_router_upstream_quarantined", "1 while the node is not asked for some block range.",
		func(u upstreamSubject) float64 { quarantined, _ := quarantine(u); return flag(quarantined) }),
	upstreamGauge("fleet_router_upstream_quarantine_block", "Lowest first block of those ranges, else 0.",
		func(u upstreamSubject) float64 { _, block := quarantine(u); return float64(block) }),

	{family{"fleet_router_upstream_info", gauge, "Always 1; the label tells what the node is.", []string{"role"}},
		func(u upstreamSubject, to sink) { to.value(1, string(u.Server.Role)) }},
	upstreamGauge("fleet_router_upstream_ranges_known", "1 once the ranges of the node are known.",
		func(u upstreamSubject) float64 { return flag(u.Known) }),
	upstreamGauge("fleet_router_upstream_range_mismatch", "1 while an archive reports another range than the configuration declares.",
		func(u upstreamSubject) float64 { return flag(u.RangeMismatch()) }),
	{family{"fleet_router_upstream_abi_info", gauge, "Always 1; the label is the fingerprint of the node's ABI.", []string{"fingerprint"}},
		func(u upstreamSubject, to sink) {
			if u.ABI != nil {
				to.value(1, u.ABI.Fingerprint)
			}
		}},
	{family{"fleet_router_upstream_abi_compatible", gauge, "1 when the ABI of the node lists only message types known here.", nil},
		func(u upstreamSubject, to sink) {
			if u.ABI != nil {
				to.value(flag(u.ABI.Compatible()))
			}
		}},
	{family{"fleet_router_upstream_abi_match", gauge, "1 when the ABI of the node is the one that the listener shows; stitched listeners only.", nil},
		func(u upstreamSubject, to sink) {
			if u.view.ABI != nil && u.ABI != nil {
				to.value(flag(!u.view.ABIMismatched(u.index)))
			}
		}},

	{family{"fleet_router_upstream_links_total", counter, "Session links that came up.", []string{"purpose"}},
		func(u upstreamSubject, to sink) { eachLabel(&u.Live.LinksTotal, to) }},
	{family{"fleet_router_upstream_dial_failures_total", counter, "Session dials that failed.", []string{"reason"}},
		func(u upstreamSubject, to sink) { eachLabel(&u.Live.DialFailures, to) }},
	archivesOnly("fleet_router_upstream_contract_violations_total", counter, "Links ended because an archive did what archives must not.",
		func(u upstreamSubject, to sink) { eachLabel(&u.Live.Violations, to) }, "kind"),
	archivesOnly("fleet_router_upstream_no_block_log", gauge, "1 while an archive sends no block bodies.",
		func(u upstreamSubject, to sink) { to.value(flag(u.NoBlockLog)) }),
	archiveCount("fleet_router_upstream_results_without_block_total", "Results of an archive that lack the block body.",
		func(l *fleet.Live) *atomic.Uint64 { return &l.WithoutBlock }),
	archiveCount("fleet_router_upstream_prev_blocks_filled_total", "Results of an archive whose previous block was filled in.",
		func(l *fleet.Live) *atomic.Uint64 { return &l.PrevFilled }),
	upstreamCount("fleet_router_upstream_stalls_total", "Links left because blocks were owed and did not come.",
		func(l *fleet.Live) *atomic.Uint64 { return &l.Stalls }),
	upstreamCount("fleet_router_upstream_sequence_jumps_total", "Jumps over blocks that were passed on because nobody has them.",
		func(l *fleet.Live) *atomic.Uint64 { return &l.Jumps }),
	upstreamCount("flotilla_upstream_blocks_total", "Blocks of the node that went to clients.",
		func(l *fleet.Live) *atomic.Uint64 { return &l.Blocks }),
	upstreamCount("flotilla_upstream_bytes_total", "Bytes of the node that went to clients.",
		func(l *fleet.Live) *atomic.Uint64 { return &l.Bytes }),
}

// quarantine is the lowest first block among the ranges that the node is not
// asked for now.
func quarantine(u upstreamSubject) (active bool, block uint32) {
	for _, q := range u.Quarantines {
		if u.now.Before(q.Until) && (!active || q.Block < block) {
			active, block = true, q.Block
		}
	}
	return active, block
}
