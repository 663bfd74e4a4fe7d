package chainapi

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"flotilla/gateway/config"
)

// exchange is one request on its way.
type exchange struct {
	c     *conn
	p     *Port
	s     *settings
	class Class
	path  []byte
	start time.Time
	call  call
	// region is what is known of a block request's block.
	region string

	// reply is set while the answer is not to be written yet; it then becomes
	// what writes it.
	reply func() error
	// keep takes an answer into the cache, kept is the one that it took; nil
	// while there is nothing to keep.
	keep func(*entry)
	kept *entry
	// slot is the API on which the request has a slot, inside whether it has a
	// place among the requests of the port.
	slot   *API
	inside bool
	// forwarded: the request was not the port's to answer.
	forwarded bool
	// tries counts attempts; by is who answered, nil for the port itself.
	tries  int
	by     *API
	status int
}

// serve answers the request. An error ends the connection.
func (x *exchange) serve() error {
	switch {
	case x.class == Invalid:
		return x.answer(illegal)
	case x.class == Node && string(x.c.head.Method()) == "OPTIONS":
		return x.answer(options)
	case x.class == Node:
		return x.answer(own{status: 200, body: x.p.supported()})
	case x.class == Denied || !x.s.allows(x.class):
		x.class = Denied
		return x.answer(unknown)
	}
	most := x.s.api.MaxInFlight
	if x.p.Stats.InFlight.Add(1) > int64(most) {
		x.p.Stats.InFlight.Add(-1)
		x.p.Stats.Rejected.Inc(RejectedInFlight)
		return x.answer(tooMany(most))
	}
	x.inside, x.forwarded = true, true
	defer x.leave()
	h := &x.c.head
	x.call = call{
		method: h.Method(), path: x.path, body: x.c.body.Bytes(),
		contentType: h.ContentType(), accept: h.Peek("Accept"), userAgent: h.UserAgent(),
		connect: x.s.ConnectTimeout(), head: x.s.api.UpstreamTimeout, until: x.start.Add(x.s.api.RequestDeadline),
	}
	return x.forward()
}

// release gives the slot back, if there is one.
func (x *exchange) release() {
	if x.slot != nil {
		x.slot.link.slots.release()
		x.slot = nil
	}
}

// leave gives up what the request occupies. It comes right before the last bytes
// are written, so that a client which has its answer finds its place free.
func (x *exchange) leave() {
	x.release()
	if x.inside {
		x.inside = false
		x.p.Stats.InFlight.Add(-1)
	}
}

// begun counts and logs the request at the moment when its answer begins: a
// client that has its answer finds it counted.
func (x *exchange) begun(status int) {
	x.status = status
	took := time.Since(x.start)
	x.p.Stats.answered(x.class, status, took)
	x.count()
	if x.p.log.Enabled(context.Background(), slog.LevelDebug) {
		server, api := "", ""
		if x.by != nil {
			server, api = x.by.Server.Name, x.by.Server.APIEndpoint
		}
		x.p.log.Debug("a chain API request", "class", string(x.class), "path", string(x.path), "status", status,
			"server", server, "api", api, "attempts", x.tries, "took", took)
	}
}

// answer writes an answer of the port's own.
func (x *exchange) answer(o own) error {
	x.leave()
	x.begun(o.status)
	buf := blocks.Get().(*[]byte)
	defer blocks.Put(buf)
	b := o.appendHead((*buf)[:0], x.s.cors, x.c.framing(len(o.body)))
	if !x.c.head.IsHead() {
		b = append(b, o.body...)
	}
	*buf = b
	_, err := x.c.Write(b)
	return err
}

// relay passes on the answer of an API. It ends the response.
func (x *exchange) relay(a *API, r *response) error {
	if x.reply != nil {
		x.reply = func() error { return x.relay(a, r) }
		return nil
	}
	x.by = a
	most := x.s.api.MaxResponse
	if x.class == Push {
		// It tells of a push that the node may have applied.
		most = 0
	}
	if most > 0 && int64(r.length) > most && !r.empty() {
		r.done()
		x.warnTooLong(a, "refused")
		return x.answer(answerTooLarge(most))
	}
	err := x.c.relay(r, x.s.cors, most, x)
	r.done()
	var stopped upstreamError
	switch {
	case errors.Is(err, errTooLong):
		x.warnTooLong(a, "cut off")
	case errors.As(err, &stopped):
		x.p.log.Debug("an answer was cut off: its upstream stopped sending", "server", a.Server.Name, "api", a.Server.APIEndpoint,
			"path", string(x.path), "error", stopped.error)
	}
	return err
}

func (x *exchange) warnTooLong(a *API, what string) {
	x.p.log.Warn("an answer was "+what+": it is over max_response_bytes", "server", a.Server.Name, "api", a.Server.APIEndpoint,
		"path", string(x.path), "limit", x.s.api.MaxResponse)
}

// count counts what is counted once for each forwarded request.
func (x *exchange) count() {
	if !x.forwarded {
		return
	}
	switch x.class {
	case Block:
		role := "none"
		if x.by != nil {
			role = string(x.by.Server.Role)
		}
		x.p.Stats.BlockRequests.Inc(Served(x.region + "/" + role))
	case Push:
		switch {
		case x.by != nil && x.status/100 == 2:
			x.p.Stats.Pushes.Inc(PushOK)
		case x.by == nil && x.tries > 0 && x.region == ambiguous:
			x.p.Stats.Pushes.Inc(PushAmbiguous)
		default:
			x.p.Stats.Pushes.Inc(PushError)
		}
	}
}

// The regions of a block request. ambiguous stands for a push that may have
// reached a node.
const (
	irreversible = "irreversible"
	reversible   = "reversible"
	unhinted     = "unhinted"
	ambiguous    = "ambiguous"
)

// none answers for want of an upstream.
func (x *exchange) none(o own) error {
	if x.reply != nil {
		x.reply = func() error { return x.none(o) }
		return nil
	}
	x.by = nil
	return x.answer(o)
}

func isLive(a *API) bool { return a.Server.Role == config.Live }
