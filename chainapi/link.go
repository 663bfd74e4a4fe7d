package chainapi

import (
	"flotilla/gateway/fleet"
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
}

func newLink(address string, dial Dial) *link {
	return &link{
		client:   &client{address: address, dial: dial},
		requests: fleet.NewLabelled(ResultOK, ResultUnknownBlock, ResultNotFound, ResultBusy, ResultError, ResultConnect, ResultTimeout),
	}
}
