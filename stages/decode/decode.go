// Package decode is the first stage: it reads what the client asks for.
package decode

import (
	"flotilla/gateway/config"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
)

// Name is the stage's name.
const Name = "decode"

// Stage is the decode stage.
type Stage struct{}

// New makes the stage.
func New(*config.Listener) pipeline.Stage { return &Stage{} }

// Name is "decode".
func (*Stage) Name() string { return Name }

// Up decodes Exchange.Message into Exchange.Request. A malformed one ends the
// session (1007); an unknown variant goes on to the next stage.
func (*Stage) Up(x *pipeline.Exchange) pipeline.Step {
	if x.Cause != pipeline.Received {
		return pipeline.Step{}
	}
	if err := ship.DecodeRequest(x.Message, &x.Request); err != nil {
		return pipeline.Closing(frame.CloseInvalid, "invalid request")
	}
	return pipeline.Step{}
}
