package admin

import (
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/evm"
	"flotilla/policies"
	"flotilla/policies/choice"

	"github.com/prometheus/client_golang/prometheus"
)

// EVM is one EVM port and what is known about it.
type EVM struct {
	Config   *config.EVM
	Listener *evm.Listener
	// Policy and Explain are as those of Listener.
	Policy  policies.Policy
	Explain func(request []byte) (choice.Answer, error)
	// Certificates is nil for a plaintext port.
	Certificates Certificates
}

// evmListener finds an EVM listener by name, nil when there is none.
func (s *State) evmListener(name string) *EVM {
	for i := range s.EVM {
		if s.EVM[i].Config.Name == name {
			return &s.EVM[i]
		}
	}
	return nil
}

// evmSubject is one EVM listener at the moment of a scrape, evmNode one of its
// nodes.
type (
	evmSubject struct {
		*EVM
		view *evm.View
	}
	evmNode struct {
		*evm.NodeView
		tip uint64
		now time.Time
	}
)

// evmNodeLabels leave the endpoint out: its path may be a secret.
var evmNodeLabels = []string{"listener", "server"}

func evmGauge(name, help string, read func(evmSubject) float64) metric[evmSubject] {
	return metric[evmSubject]{family{name, gauge, help, nil}, func(l evmSubject, to sink) { to.value(read(l)) }}
}

func evmCount(name, help string, read func(*evm.Stats) uint64) metric[evmSubject] {
	return metric[evmSubject]{family{name, counter, help, nil}, func(l evmSubject, to sink) { to.value(float64(read(l.Listener.Stats))) }}
}

func evmNodeGauge(name, help string, read func(evmNode) float64) metric[evmNode] {
	return metric[evmNode]{family{name, gauge, help, nil}, func(n evmNode, to sink) { to.value(read(n)) }}
}

func evmNodeCount(name, help string, read func(*evm.NodeCounters) uint64) metric[evmNode] {
	return metric[evmNode]{family{name, counter, help, nil}, func(n evmNode, to sink) { to.value(float64(read(n.Counters()))) }}
}

var evmMetrics = []metric[evmSubject]{
	evmGauge("flotilla_evm_tip_block", "Highest block of the nodes that are believed, 0 until known.",
		func(l evmSubject) float64 { return float64(l.view.Tip) }),
	evmGauge("flotilla_evm_told_block", "Highest block that clients have been told; never falls.",
		func(l evmSubject) float64 { return float64(l.Listener.Told()) }),
	{family{"flotilla_evm_reference_block", gauge, "Last height of the reference; absent until known.", nil},
		func(l evmSubject, to sink) {
			if l.view.External != nil {
				to.value(float64(*l.view.External))
			}
		}},
	evmGauge("flotilla_evm_fleet_lagging", "1 while the whole fleet is behind the reference.",
		func(l evmSubject) float64 { return flag(l.view.Lagging) }),
	evmGauge("flotilla_evm_nodes", "Nodes of the fleet.", func(l evmSubject) float64 { return float64(len(l.view.Nodes)) }),
	evmGauge("flotilla_evm_nodes_healthy", "Nodes in the health band.", func(l evmSubject) float64 { return float64(len(l.view.Pool)) }),
	evmGauge("flotilla_evm_connections_open", "Client connections now, WebSockets included.",
		func(l evmSubject) float64 { return float64(l.Listener.Stats.Clients.Load()) }),
	evmGauge("flotilla_evm_max_connections", "The limit on flotilla_evm_connections_open.",
		func(l evmSubject) float64 { return float64(l.Config.Limits.MaxConnections) }),
	evmCount("flotilla_evm_connections_accepted_total", "Client connections let in.", func(s *evm.Stats) uint64 { return s.Accepted.Load() }),
	evmCount("flotilla_evm_connections_rejected_total", "Client connections closed at once because of max_connections.",
		func(s *evm.Stats) uint64 { return s.Rejected.Load() }),
	evmCount("flotilla_evm_requests_total", "Requests of clients, a batch being one.", func(s *evm.Stats) uint64 { return s.Requests.Load() }),
	evmCount("flotilla_evm_unserved_total", "Requests that no node answered.", func(s *evm.Stats) uint64 { return s.Unserved.Load() }),
	evmCount("flotilla_evm_limited_total", "Requests refused because of rate.", func(s *evm.Stats) uint64 { return s.Limited.Load() }),
	evmCount("flotilla_evm_retries_total", "Calls that went to one more node.", func(s *evm.Stats) uint64 { return s.Retries.Load() }),
	evmCount("flotilla_evm_held_total", "Calls that waited for a node with their block.", func(s *evm.Stats) uint64 { return s.Held.Load() }),
	evmCount("flotilla_evm_heads_raised_total", "Answers whose block number was raised to what clients had been told.",
		func(s *evm.Stats) uint64 { return s.HeadsRaised.Load() }),
	evmGauge("flotilla_evm_websockets_open", "Client WebSockets now.", func(l evmSubject) float64 { return float64(l.Listener.Stats.Sessions.Load()) }),
	evmCount("flotilla_evm_websockets_total", "Client WebSockets that were asked for and not refused.", func(s *evm.Stats) uint64 { return s.Upgrades.Load() }),
	evmCount("flotilla_evm_websocket_rotations_total", "Client WebSockets closed with 1001 so that the client reconnects.",
		func(s *evm.Stats) uint64 { return s.Rotated.Load() }),
	evmCount("flotilla_evm_websocket_moves_total", "Times that a client's subscriptions moved to another node.",
		func(s *evm.Stats) uint64 { return s.Moved.Load() }),
	evmGauge("flotilla_evm_filters", "Filters of clients now (eth_newFilter and its kind).", func(l evmSubject) float64 { return float64(l.Listener.Filters()) }),
	{family{"flotilla_evm_filters_made_total", counter, "Filters that clients have made.", nil},
		func(l evmSubject, to sink) { to.value(float64(l.Listener.FilterStats().Made.Load())) }},
	{family{"flotilla_evm_filters_ended_total", counter, "Filters that have ended, by why.", []string{"reason"}},
		func(l evmSubject, to sink) {
			s := l.Listener.FilterStats()
			to.value(float64(s.Uninstalled.Load()), "uninstalled")
			to.value(float64(s.Expired.Load()), "expired")
			to.value(float64(s.Displaced.Load()), "displaced")
			to.value(float64(s.Lost.Load()), "lost")
		}},
}

var evmNodeMetrics = []metric[evmNode]{
	evmNodeGauge("flotilla_evm_node_healthy", "1 while the node is in the health band.", func(n evmNode) float64 { return flag(n.State.Healthy) }),
	evmNodeGauge("flotilla_evm_node_aside", "1 while the node is not believed: another chain, a fork, or an absurd height.",
		func(n evmNode) float64 { return flag(n.Aside != "") }),
	evmNodeGauge("flotilla_evm_node_head_block", "Last height that the node told.", func(n evmNode) float64 { return float64(n.State.Height) }),
	evmNodeGauge("flotilla_evm_node_lag_blocks", "Blocks behind the tip.", func(n evmNode) float64 { return float64(n.tip - min(n.tip, n.State.Height)) }),
	evmNodeGauge("flotilla_evm_node_check_seconds", "How long the last check took, 0 when it failed.", func(n evmNode) float64 { return n.RTT.Seconds() }),
	evmNodeGauge("flotilla_evm_node_consecutive_failures", "Failed checks and calls since the last good check.",
		func(n evmNode) float64 { return float64(n.State.Failures) }),
	evmNodeGauge("flotilla_evm_node_in_flight", "Calls that the node has not answered yet.", func(n evmNode) float64 { return float64(n.InFlight()) }),
	evmNodeCount("flotilla_evm_node_requests_total", "Requests sent to the node.", func(c *evm.NodeCounters) uint64 { return c.Requests.Load() }),
	evmNodeCount("flotilla_evm_node_failures_total", "Requests that the node did not answer.", func(c *evm.NodeCounters) uint64 { return c.Failures.Load() }),
	evmNodeCount("flotilla_evm_node_retries_total", "Answers of the node that sent a call to another one.", func(c *evm.NodeCounters) uint64 { return c.Retries.Load() }),
	evmNodeCount("flotilla_evm_node_checks_total", "Checks that told a height.", func(c *evm.NodeCounters) uint64 { return c.Checks.Load() }),
	evmNodeCount("flotilla_evm_node_check_failures_total", "Checks that told none.", func(c *evm.NodeCounters) uint64 { return c.CheckFailures.Load() }),
	evmNodeCount("flotilla_evm_node_evictions_total", "Times that the node left the pool.", func(c *evm.NodeCounters) uint64 { return c.Evictions.Load() }),
	evmNodeCount("flotilla_evm_node_websockets_total", "WebSockets of clients that were opened to the node.", func(c *evm.NodeCounters) uint64 { return c.Sessions.Load() }),
}

// collectEVM reads every family about the EVM listeners.
func collectEVM(out chan<- prometheus.Metric, st *State, now time.Time) {
	for i := range st.EVM {
		l := evmSubject{&st.EVM[i], st.EVM[i].Listener.View()}
		name := []string{l.Config.Name}
		collect(out, evmMetrics, l, listenerLabels, name)
		collect(out, evmCertificateMetrics, l, listenerLabels, name)
		collect(out, policyMetrics, l.Policy, listenerLabels, name)
		for _, n := range l.view.Nodes {
			collect(out, evmNodeMetrics, evmNode{n, l.view.Tip, now}, evmNodeLabels, []string{l.Config.Name, n.Server.Name})
		}
	}
}
