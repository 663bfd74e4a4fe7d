// Package forward is the stage between the gateway and the node: what is sent
// to an upstream, what its answers cost, and what follows when it fails.
//
// It decides; the session owns the connection. Its rules are a file each:
// request.go, credit.go, ends.go, silence.go.
package forward

import (
	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
)

// Name is the stage's name.
const Name = "forward"

// Stage is the forward stage.
type Stage struct{}

// New makes the stage.
func New(*config.Listener) pipeline.Stage { return &Stage{} }

// Name is "forward".
func (*Stage) Name() string { return Name }

// maxPending bounds the messages that wait for a link, in bytes (S34).
const maxPending = 65536

// Up decides what a client message means for the link (spec "ship" 2.3 to 2.5).
func (*Stage) Up(x *pipeline.Exchange) pipeline.Step {
	x.Relink = pipeline.KeepLink
	if x.Cause != pipeline.Received {
		return pipeline.Step{}
	}
	switch x.Request.Variant {
	case ship.BlocksRequestV0, ship.BlocksRequestV1:
		take(x)
	case ship.AckRequestV0:
		addCredit(x, x.Request.Ack)
	case ship.StatusRequestV0, ship.StatusRequestV1:
		// The session answers these from what is known of the fleet.
	default:
		if x.Stitched {
			return pipeline.Closing(frame.CloseUnsupport, "unsupported request variant %d", x.Request.Variant)
		}
		return pend(x)
	}
	return pipeline.Step{}
}

// pend keeps a message of an unknown variant for the link, which the session
// sends on at once when there is one (S34).
func pend(x *pipeline.Exchange) pipeline.Step {
	// With a link and nothing before it, a message does not wait.
	waits := !x.Link.Up || len(x.Pending) > 0
	x.PendingBytes += max(1, len(x.Message))
	if waits && x.PendingBytes > maxPending {
		return pipeline.Closing(frame.ClosePolicy, "pending client buffer exceeded")
	}
	x.Pending = append(x.Pending, append([]byte(nil), x.Message...))
	return pipeline.Step{}
}

// Down finds out what a result stands for, and takes it off the client's
// credit (S20, S22). Results that nobody asked for go no further.
func (*Stage) Down(x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
	if x.Link.Frozen && (!x.Link.Requested || r.HasThis && x.Link.Exact && x.Link.Cursor >= x.Link.End) {
		r.Violation = fleet.ViolationVariant
		return pipeline.Leaving(fleet.EndViolation)
	}
	x.Link.Head, x.Link.LIB = r.Head.Num, r.LIB.Num
	if !x.Link.Requested {
		return pipeline.Step{Do: pipeline.Done}
	}
	classify(x, r)
	if x.Link.Frozen {
		r.Violation = breach(x, r)
	}
	if r.Violation != "" || incomplete(x, r) {
		return pipeline.Leaving(fleet.EndViolation)
	}
	charge(x, r)
	return pipeline.Step{}
}
