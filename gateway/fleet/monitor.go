package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"flotilla/gateway/ship"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/ship/frame"

	"github.com/cenkalti/backoff/v5"
)

// maxReconnect caps the growing pause between failed connects (M3), unless the
// configured base is longer.
const maxReconnect = 30 * time.Second

// longest is what the pause grows to with a base: five times doubled.
func longest(base time.Duration) time.Duration { return max(base, min(maxReconnect, 32*base)) }

// monitor keeps one connection to one upstream and asks for its status.
type monitor struct {
	f     *Fleet
	index int
	url   string
	live  *Live

	// silent counts connections in a row on which a v1 request was sent and no
	// status came; two of them mean that the node knows v0 only (M2). It is
	// forgotten when the node shows another ABI.
	silent int
	abi    *ship.ABI
	told   bool
	// asked is when the last status request was sent, zero once it is answered.
	asked time.Time
}

// settle tells the fleet of the first outcome, good or bad.
func (m *monitor) settle() {
	if m.told {
		return
	}
	m.told = true
	m.f.settle()
}

// log names the server as the configuration in force does. It needs a view with
// the upstream in it, which there is once the owner has been told anything.
func (m *monitor) log() *slog.Logger {
	s := m.f.View().Upstreams[m.index].Server
	return m.f.log.With("server", s.Name, "upstream", s.Endpoint)
}

// tell has the owner run event, unless the monitor was stopped: its upstream
// may be watched by another one already.
func (m *monitor) tell(ctx context.Context, event func(*owner)) {
	m.f.do(func(o *owner) {
		if ctx.Err() == nil {
			event(o)
		}
	})
}

func (m *monitor) run(ctx context.Context) {
	defer m.settle()
	var pause *backoff.ExponentialBackOff // of the connects that failed in a row
	for {
		base := m.f.Config().Reconnect
		wait := base
		node, err := m.f.Open(ctx, m.url)
		var failed *dial.Error
		switch {
		case err == nil:
			pause = nil
			err = m.watch(ctx, node)
			node.Close()
		case errors.As(err, &failed) && failed.Reason != dial.BadABI:
			if pause == nil || pause.InitialInterval != base {
				pause = &backoff.ExponentialBackOff{InitialInterval: base, Multiplier: 2, MaxInterval: longest(base)}
				pause.Reset()
			}
			wait = pause.NextBackOff()
		default:
			pause = nil
		}
		if ctx.Err() != nil {
			return
		}
		m.tell(ctx, func(o *owner) {
			if o.upstreams[m.index].Online {
				o.offline(m.index)
			}
		})
		m.settle()
		m.log().Warn("an upstream cannot be watched; trying again", "error", err, "retry_in", wait)
		m.sleep(ctx, base, wait)
	}
}

// sleep waits, but once a session has reached the node no longer than base.
func (m *monitor) sleep(ctx context.Context, base, wait time.Duration) {
	from := time.Now()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-m.live.wake:
			timer.Reset(max(0, base-time.Since(from)))
		}
	}
}

// watch polls the status until something goes wrong: one request in flight,
// the next one Status after the last was sent.
func (m *monitor) watch(ctx context.Context, node *dial.Node) error {
	stop := context.AfterFunc(ctx, func() { node.Conn.Close() })
	defer stop()
	if m.abi == nil || m.abi.Fingerprint != node.ABI.Fingerprint {
		m.abi, m.silent = node.ABI, 0
	}
	m.tell(ctx, func(o *owner) { o.abi(m.index, node.ABI) })
	m.log().Info("monitoring an upstream")
	v1 := m.asksV1()
	answered := false
	for {
		m.asked = time.Now()
		due := m.asked.Add(m.f.Config().Status)
		if err := node.Writer.WriteMasked(frame.Binary, ship.AppendStatusRequest(nil, v1)); err != nil {
			return err
		}
		status, err := m.poll(ctx, node, due)
		switch {
		case status != nil:
			answered, m.silent = true, 0
			v1 = v1 && status.V1
		case v1 && !answered:
			m.silent++
		}
		if err != nil {
			return err
		}
	}
}

// asksV1 decides the version of the first request: what the ABI lists. An ABI
// that lists nothing is taken to know both until the node proves otherwise.
func (m *monitor) asksV1() bool {
	if len(m.abi.Requests) > 0 && !m.abi.Knows("get_status_request_v1") {
		return false
	}
	return m.silent < 2
}

// poll reads until due. It returns the status that came, and an error when
// none came or the connection ended. One reply may be late by as much again: a
// node that is busy for a moment is not offline for everybody.
func (m *monitor) poll(ctx context.Context, node *dial.Node, due time.Time) (got *ship.Status, err error) {
	if err := node.SetReadDeadline(due); err != nil {
		return nil, err
	}
	late := false
	var msg frame.Message
	for {
		ok, err := node.Reader.Next(&msg)
		if err != nil {
			return got, err
		}
		if !ok {
			switch err := node.Reader.Fill(); {
			case errors.Is(err, os.ErrDeadlineExceeded) && got != nil:
				return got, nil
			case errors.Is(err, os.ErrDeadlineExceeded) && !late:
				late = true
				m.tell(ctx, func(o *owner) { o.late(m.index) })
				if err := node.SetReadDeadline(due.Add(m.f.Config().Status)); err != nil {
					return nil, err
				}
			case errors.Is(err, os.ErrDeadlineExceeded):
				return nil, fmt.Errorf("no status came within twice %v", m.f.Config().Status)
			case errors.Is(err, io.EOF):
				return got, errors.New("the connection ended")
			case err != nil:
				return got, err
			}
			continue
		}
		switch msg.Op {
		case frame.Ping:
			if err := node.Writer.WriteMasked(frame.Pong, msg.Payload(nil)); err != nil {
				return got, err
			}
		case frame.Close:
			return got, fmt.Errorf("the node closed with %d", frame.CloseCode(msg.Payload(nil)))
		case frame.Binary:
			if s := m.status(&msg); s != nil {
				got = s
				if !m.asked.IsZero() {
					m.live.Latency.Observe(time.Since(m.asked))
					m.asked = time.Time{}
				}
				m.tell(ctx, func(o *owner) { o.status(m.index, s) })
				m.settle()
				if late {
					return got, nil
				}
			}
		}
	}
}

// status decodes a message that counts as a status, and nil for all others.
func (m *monitor) status(msg *frame.Message) *ship.Status {
	head := msg.Head(make([]byte, 0, 1))
	if len(head) == 0 || !ship.IsStatus(head[0], msg.Size) {
		return nil
	}
	var s ship.Status
	if err := ship.DecodeStatus(msg.Payload(nil), &s); err != nil {
		m.log().Warn("an upstream sent a status that cannot be read", "error", err)
		return nil
	}
	return &s
}
