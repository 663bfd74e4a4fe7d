package chainapi

import (
	"flotilla/gateway/fleet"
	"flotilla/gateway/recent"
)

// Result is how an attempt at an upstream API ended, as metrics label it.
type Result string

// The results (spec "observability" 3.4).
const (
	ResultOK           Result = "ok"
	ResultUnknownBlock Result = "unknown_block"
	ResultNotFound     Result = "not_found"
	ResultBusy         Result = "busy"
	ResultError        Result = "error"
	ResultConnect      Result = "connect"
	ResultTimeout      Result = "timeout"
)

// link is what changes of an upstream API too often for a View: its
// connections, its slots and its counters.
type link struct {
	client   *client
	slots    slots
	requests fleet.Labelled[Result]
	// heads are how long it took to the heads of the last answers.
	heads latency
	// id numbers the links of a port, apart from the servers of its listener:
	// one policy is asked about both.
	id int
	// latency and errors are those of clients' requests, for policies.
	latency recent.Latency
	errors  recent.Errors
}

// firstID is the id of the first link.
const firstID = 1 << 20

func newLink(address string, dial Dial) *link {
	return &link{
		client:   &client{address: address, dial: dial},
		requests: fleet.NewLabelled(ResultOK, ResultUnknownBlock, ResultNotFound, ResultBusy, ResultError, ResultConnect, ResultTimeout),
	}
}

// Link is what operators see of an upstream API's traffic.
type Link struct{ l *link }

// Link is the traffic of the API now, not at the time of the view.
func (a *API) Link() Link { return Link{a.link} }

// InFlight is how many requests are in flight to the API.
func (l Link) InFlight() int64 { return l.l.slots.used() }

// MaxInFlight is how many there may be.
func (l Link) MaxInFlight() int64 { return l.l.slots.cap.Load() }

// Requests counts the attempts of client requests by how they ended.
func (l Link) Requests() *fleet.Labelled[Result] { return &l.l.requests }
