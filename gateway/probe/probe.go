// Package probe asks nodes, once, who they are and what they hold. It is what
// "flotilla config test" runs; the monitors of a running gateway are those of
// the packages fleet and evm.
package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flotilla/gateway/ship"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/ship/frame"
)

// Result is what a node told.
type Result struct {
	ABI    *ship.ABI
	Status ship.Status
}

// Probe connects to a ws or wss URL, reads the ABI and asks for the status:
// version 1 when the ABI knows that request, else version 0. timeout bounds
// each of the three steps, maxMessage a message of the node in bytes; trust is
// asked for wss only. The error says which step failed; what was learned until
// then is in the Result. The connection is closed again.
func Probe(ctx context.Context, url string, timeout time.Duration, maxMessage int64, trust dial.Trust) (Result, error) {
	d := dial.Dialer{Trust: trust, Timeout: timeout, MaxMessage: maxMessage}
	node, err := d.Open(ctx, url)
	if err != nil {
		return Result{}, err
	}
	stop := context.AfterFunc(ctx, func() { node.Conn.Close() })
	defer func() {
		stop()
		node.Close()
	}()
	r := Result{ABI: node.ABI}
	if err := askStatus(node, timeout, &r.Status); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return r, fmt.Errorf("status: %w", err)
	}
	return r, nil
}

func askStatus(node *dial.Node, timeout time.Duration, status *ship.Status) error {
	if err := node.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	request := ship.AppendStatusRequest(nil, node.ABI.Knows("get_status_request_v1"))
	if err := node.Writer.Write(frame.AppendMasked(nil, frame.Binary, request)); err != nil {
		return err
	}
	var m frame.Message
	for {
		ok, err := node.Reader.Next(&m)
		if err != nil {
			return err
		}
		if !ok {
			if err := node.Reader.Fill(); err != nil {
				return fmt.Errorf("no reply came: %w", err)
			}
			continue
		}
		switch m.Op {
		case frame.Ping, frame.Pong:
		case frame.Binary:
			return ship.DecodeStatus(m.Payload(nil), status)
		case frame.Close:
			return errors.New("the node closed the connection")
		default:
			return errors.New("the reply is no binary message")
		}
	}
}
