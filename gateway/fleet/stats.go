package fleet

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// SessionState is a phase of a session (S4), as metrics label it.
type SessionState string

// The phases.
const (
	Idle      SessionState = "idle"
	Streaming SessionState = "streaming"
	Dialing   SessionState = "dialing"
	Backoff   SessionState = "backoff"
	Holding   SessionState = "holding"
	Waiting   SessionState = "waiting"
)

// SessionStates are all phases, in the order of the documents.
var SessionStates = []SessionState{Idle, Streaming, Dialing, Backoff, Holding, Waiting}

// End is how a link ended, as failovers_total labels it (spec "ship" 5.2).
type End string

// The ways a link ends.
const (
	EndUnclean       End = "unclean"
	EndClean         End = "clean"
	EndIdle          End = "idle"
	EndStall         End = "stall"
	EndOffline       End = "offline"
	EndViolation     End = "violation"
	EndUncovered     End = "uncovered"
	EndDiscontinuity End = "discontinuity"
	EndSend          End = "send"
	EndSilent        End = "silent"
	EndOperator      End = "operator"
	EndNoBlockLog    End = "no_block_log"
	EndBehind        End = "behind"
)

var ends = []End{EndUnclean, EndClean, EndIdle, EndStall, EndOffline, EndViolation, EndUncovered, EndDiscontinuity, EndSend, EndSilent, EndOperator, EndNoBlockLog, EndBehind}

// StatusReply labels status_replies_total: the version, and who answered.
type StatusReply string

// The four series.
const (
	V0Router   StatusReply = "v0/router"
	V0Upstream StatusReply = "v0/upstream"
	V1Router   StatusReply = "v1/router"
	V1Upstream StatusReply = "v1/upstream"
)

// ProtocolError labels client_protocol_errors_total.
type ProtocolError string

// The kinds of client messages that are no known request.
const (
	Malformed      ProtocolError = "malformed"
	UnknownVariant ProtocolError = "unknown_variant"
)

// HoldReason labels holds_total and hold_closes_total.
type HoldReason string

// Why a block cannot be served at present.
const (
	HoldOffline     HoldReason = "offline"
	HoldQuarantined HoldReason = "quarantined"
	HoldAtCapacity  HoldReason = "at_capacity"
	HoldBusy        HoldReason = "busy"
)

// Violation labels contract_violations_total: what an archive sent that it
// must not (seed "Failover and strikes").
type Violation string

// The kinds.
const (
	ViolationIdless        Violation = "idless"
	ViolationGap           Violation = "gap"
	ViolationRewind        Violation = "rewind"
	ViolationMissingField  Violation = "missing_field"
	ViolationCredit        Violation = "credit"
	ViolationVariant       Violation = "variant"
	ViolationDiscontinuity Violation = "discontinuity"
)

// Violations are all kinds, in the order of the documents.
var Violations = []Violation{
	ViolationIdless, ViolationGap, ViolationRewind, ViolationMissingField, ViolationCredit, ViolationVariant, ViolationDiscontinuity,
}

// PredialResult labels predials_total: what became of a standby link.
type PredialResult string

// The results.
const (
	PredialUsed      PredialResult = "used"
	PredialFailed    PredialResult = "failed"
	PredialDiscarded PredialResult = "discarded"
)

// Stats are the counters of a listener. All of it is safe for concurrent use.
type Stats struct {
	// Accepted and Rejected count client connections: those let in, and those
	// closed because max_connections was reached.
	Accepted, Rejected atomic.Uint64
	// Clients is how many client connections are open.
	Clients atomic.Int64

	StatusReplies  Labelled[StatusReply]
	Failovers      Labelled[End]
	ProtocolErrors Labelled[ProtocolError]
	Holds          Labelled[HoldReason]
	HoldCloses     Labelled[HoldReason]

	Predials Labelled[PredialResult]

	// Handoffs counts legs that began on another upstream; HandoffLatency is
	// how long that took, in seconds: from the last result of the leg before,
	// or from the end of a wait or hold in between, to the first one.
	Handoffs       atomic.Uint64
	HandoffLatency prometheus.Histogram

	Reroutes, Duplicates, ForkRedeliveries, KeepAlives atomic.Uint64
	CreditOverruns, Patched, TooLarge                  atomic.Uint64
	// SlowClients counts links closed because their client did not take what
	// was sent to it.
	SlowClients atomic.Uint64

	states map[SessionState]*atomic.Int64
	closes [closeCodes]atomic.Uint64
}

// Close codes 1000 to 1015 have a counter each; 0 stands for a connection that
// ended without a Close frame of ours.
const closeCodes = 17

func newStats() *Stats {
	s := &Stats{
		StatusReplies:  NewLabelled(V0Router, V0Upstream, V1Router, V1Upstream),
		Failovers:      NewLabelled(ends...),
		ProtocolErrors: NewLabelled(Malformed, UnknownVariant),
		Holds:          NewLabelled(HoldOffline, HoldQuarantined, HoldAtCapacity, HoldBusy),
		HoldCloses:     NewLabelled(HoldOffline, HoldQuarantined, HoldAtCapacity, HoldBusy),
		Predials:       NewLabelled(PredialUsed, PredialFailed, PredialDiscarded),
		HandoffLatency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fleet_router_handoff_latency_seconds", Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		states: map[SessionState]*atomic.Int64{},
	}
	for _, st := range SessionStates {
		s.states[st] = new(atomic.Int64)
	}
	return s
}

// Move counts a session out of one phase and into another; "" is neither.
func (s *Stats) Move(from, to SessionState) {
	if from == to {
		return
	}
	if c := s.states[from]; c != nil {
		c.Add(-1)
	}
	if c := s.states[to]; c != nil {
		c.Add(1)
	}
}

// Sessions is how many sessions are in a phase.
func (s *Stats) Sessions(state SessionState) int64 { return s.states[state].Load() }

// Closed counts a client connection that ended; code is that of the Close
// frame that was sent to it, 0 for none.
func (s *Stats) Closed(code int) {
	if code < 1000 || code > 1015 {
		s.closes[0].Add(1)
		return
	}
	s.closes[code-999].Add(1)
}

// EachClosed calls f for every close code that was counted; 0 is none.
func (s *Stats) EachClosed(f func(code int, count uint64)) {
	for i := range s.closes {
		if n := s.closes[i].Load(); n > 0 {
			if i > 0 {
				i += 999
			}
			f(i, n)
		}
	}
}
