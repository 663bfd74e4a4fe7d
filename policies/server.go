package policies

import "time"

// Server is what a policy may know of a server at the moment of a request.
type Server struct {
	// ID numbers the servers of a listener. One number means one server for as
	// long as the listener lives.
	ID int
	// Name, Endpoint, Labels, Role (live, frozen), Priority (lower is better),
	// Weight (at least 1) and MaxSessions (0 is no limit) are as configured.
	Name, Endpoint   string
	Labels           map[string]string
	Role             string
	Priority, Weight uint32
	MaxSessions      int

	// Head, LIB and Lag, which is how far its head is behind the fleet's, are
	// in blocks.
	Head, LIB, Lag uint64
	// Traces, Deltas and Finality are the blocks that its logs have.
	Traces, Deltas, Finality Range
	// Run is the end, exclusive, of what the server can serve in one go.
	Run uint64

	// Linked is how many links the session has to it already.
	Linked int

	// Sessions are the links of sessions, with those in the making, and
	// InFlight the requests without an answer.
	Sessions, InFlight int64
	// Latency is how long it takes to answer, averaged; 0 while unknown.
	Latency time.Duration
	// Errors are those of the last minute.
	Errors int
	// Online, Stale and Quarantined are as the coverage page tells.
	Online, Stale, Quarantined bool

	// place is that in its round.
	place int
}

// Range is a block range, Begin to End exclusive; empty when they are equal.
type Range struct{ Begin, End uint64 }

// Load is what a policy counts as the server's load: links and requests.
func (s *Server) Load() int64 { return s.Sessions + s.InFlight }
