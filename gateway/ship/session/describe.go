package session

import (
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
)

// Description is what an operator sees of a session at one moment.
type Description struct {
	ID uint64
	// Client is the client's address, with its port.
	Client  string
	Started time.Time
	// State is the phase, and Why what a hold waits for; "" without one.
	State fleet.SessionState
	Why   fleet.HoldReason
	// Upstream is the server that it has a link to; nil without.
	Upstream *fleet.Upstream
	// Asked: the client has made a request, which began at Start. Next is the
	// block that it gets next. Finality: it wants finality data.
	Asked       bool
	Start, Next uint32
	Finality    bool
	// Blocks, Bytes and Failovers count since the start; Blocks are results.
	Blocks, Bytes, Failovers uint64
}

// Describe tells how the session is doing.
func (s *Session) Describe() Description {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := Description{
		ID: s.x.Session, Client: s.client.RemoteAddr().String(), Started: s.started, State: s.state,
		Asked: s.x.Asked, Start: s.x.Want.Start, Next: s.x.Cursor, Finality: s.x.Want.V1 && s.x.Want.FetchFinality,
		Blocks: s.tally.results, Bytes: s.tally.bytes, Failovers: s.tally.failovers,
	}
	if s.state == fleet.Holding {
		d.Why = fleet.HoldOffline
		if s.stitched && s.x.Plan.Do == pipeline.Hold {
			d.Why = s.x.Plan.Why
		}
	}
	if s.link != nil {
		d.Upstream = &s.Fleet.View().Upstreams[s.link.upstream]
	}
	return d
}
