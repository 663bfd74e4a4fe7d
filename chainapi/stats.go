package chainapi

import (
	"sync/atomic"
	"time"

	"flotilla/gateway/fleet"

	"github.com/prometheus/client_golang/prometheus"
)

// Rejection is why a client was turned away, as metrics label it.
type Rejection string

// The rejections (spec "observability" 3.4).
const (
	RejectedConnections Rejection = "connections"
	RejectedInFlight    Rejection = "in_flight"
	RejectedBody        Rejection = "body_too_large"
	RejectedTimeout     Rejection = "timeout"
)

// Retry is why an attempt passed a request on.
type Retry string

// The retries. RetryError is a 5xx other than 503, for get_info only.
const (
	RetryUnknownBlock Retry = "unknown_block"
	RetryNotFound     Retry = "not_found"
	RetryBusy         Retry = "busy"
	RetryConnect      Retry = "connect"
	RetryTimeout      Retry = "timeout"
	RetryError        Retry = "error"
)

// Served is a block request by the region of its block and the role of who
// answered it, with a slash between them.
type Served string

// The pairs there are. None is an answer of the port itself; unhinted is a
// request whose block cannot be read.
const (
	IrreversibleLive   Served = "irreversible/live"
	IrreversibleFrozen Served = "irreversible/frozen"
	IrreversibleNone   Served = "irreversible/none"
	ReversibleLive     Served = "reversible/live"
	ReversibleNone     Served = "reversible/none"
	UnhintedLive       Served = "unhinted/live"
	UnhintedNone       Served = "unhinted/none"
)

// PushResult is how a push ended.
type PushResult string

// The results of pushes. PushError includes pushes that reached no node.
const (
	PushOK        PushResult = "ok"
	PushError     PushResult = "error"
	PushAmbiguous PushResult = "ambiguous"
)

// HedgeResult is what became of a second node that was asked beside a slow one.
type HedgeResult string

// The results of hedges: the answer came from the second node, or not.
const (
	HedgeWon  HedgeResult = "won"
	HedgeLost HedgeResult = "lost"
)

// CacheResult is how a request for an irreversible block met the cache.
type CacheResult string

// The results: the answer was there, it was that of a request at the same time,
// or a node had to be asked.
const (
	CacheHit    CacheResult = "hit"
	CacheShared CacheResult = "shared"
	CacheMiss   CacheResult = "miss"
)

// Codes are the classes of status codes in requests_total.
var Codes = []string{"2xx", "3xx", "4xx", "5xx"}

// bounds are the buckets of the duration histograms, in seconds.
var bounds = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// Stats are the counters of a port. All of it is safe for concurrent use.
type Stats struct {
	Rejected      fleet.Labelled[Rejection]
	Retries       fleet.Labelled[Retry]
	BlockRequests fleet.Labelled[Served]
	Pushes        fleet.Labelled[PushResult]
	Hedges        fleet.Labelled[HedgeResult]
	CacheLookups  fleet.Labelled[CacheResult]
	// InFlight is how many requests are being forwarded.
	InFlight atomic.Int64
	// Connections is how many client connections are open.
	Connections atomic.Int64

	classes map[Class]*classStats
}

// classStats are the answered requests of one class.
type classStats struct {
	codes     [4]atomic.Uint64
	durations prometheus.Histogram
}

func newStats() *Stats {
	s := &Stats{
		Rejected:      fleet.NewLabelled(RejectedConnections, RejectedInFlight, RejectedBody, RejectedTimeout),
		Retries:       fleet.NewLabelled(RetryUnknownBlock, RetryNotFound, RetryBusy, RetryConnect, RetryTimeout, RetryError),
		BlockRequests: fleet.NewLabelled(IrreversibleLive, IrreversibleFrozen, IrreversibleNone, ReversibleLive, ReversibleNone, UnhintedLive, UnhintedNone),
		Pushes:        fleet.NewLabelled(PushOK, PushError, PushAmbiguous),
		Hedges:        fleet.NewLabelled(HedgeWon, HedgeLost),
		CacheLookups:  fleet.NewLabelled(CacheHit, CacheShared, CacheMiss),
		classes:       map[Class]*classStats{},
	}
	for _, c := range Classes {
		s.classes[c] = &classStats{durations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fleet_router_api_request_duration_seconds", Buckets: bounds,
		})}
	}
	return s
}

// answered counts a request whose answer begins now.
func (s *Stats) answered(class Class, status int, took time.Duration) {
	c := s.classes[class]
	c.codes[min(max(status/100-2, 0), 3)].Add(1)
	c.durations.Observe(took.Seconds())
}

// Requests is how many requests of a class were answered with a code, which is
// an index of Codes.
func (s *Stats) Requests(class Class, code int) uint64 { return s.classes[class].codes[code].Load() }

// Durations is the histogram of a class: from the head of a request to the head
// of its answer, in seconds.
func (s *Stats) Durations(class Class) prometheus.Metric { return s.classes[class].durations }
