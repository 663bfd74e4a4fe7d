package evm

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/evm/jsonrpc"
	"flotilla/gateway/evm/upstream"

	"github.com/valyala/fasthttp"
)

// job is one client request on its way. Jobs are pooled.
type job struct {
	request upstream.Request
	calls   []jsonrpc.Call
	// readable is true when calls are those of the body; batch tells whether
	// they came as one.
	readable, batch bool
	// tried are the nodes that have had the request.
	tried []*Node
	// from is the client, and handshake the headers of its WebSocket's; nil
	// over HTTP.
	from      net.Addr
	handshake http.Header
	// needs are those of the calls of a batch, answers those of a node.
	needs   []jsonrpc.Need
	answers []jsonrpc.Answer
}

var jobs = sync.Pool{New: func() any { return &job{} }}

func (j *job) release() {
	clear(j.calls)
	clear(j.tried)
	clear(j.needs)
	clear(j.answers)
	*j = job{calls: j.calls[:0], tried: j.tried[:0], needs: j.needs[:0], answers: j.answers[:0]}
	jobs.Put(j)
}

// decode reads the body of a request. One that cannot be read is passed on as
// it is: the node has the better words for what is wrong.
func (j *job) decode() {
	var err error
	j.calls, j.batch, err = jsonrpc.Read(j.request.Body, j.calls[:0])
	if err != nil {
		j.calls = j.calls[:0]
		return
	}
	j.readable = true
}

// logs is how many eth_getLogs the request holds.
func (j *job) logs() (n int64) {
	for i := range j.calls {
		if string(j.calls[i].Method) == "eth_getLogs" {
			n++
		}
	}
	return n
}

// once reports whether the request must not reach a second node once one may
// have taken it in: the node would sign or take in a second transaction.
func (j *job) once() bool {
	for i := range j.calls {
		if once(j.calls[i].Method) {
			return true
		}
	}
	return false
}

// once are the methods that submit something and for which a second submission
// is not certain to be harmless. That of eth_sendRawTransaction is: at worst it is
// answered "already known".
func once(method []byte) bool {
	return string(method) != "eth_sendRawTransaction" && (bytes.HasPrefix(method, []byte("eth_send")) || bytes.HasPrefix(method, []byte("personal_send")))
}

// forward answers a request over HTTP.
func (l *Listener) forward(ctx *fasthttp.RequestCtx) {
	j := jobs.Get().(*job)
	defer j.release()
	h := &ctx.Request.Header
	j.request = upstream.Request{Method: h.Method(), URI: h.RequestURI(), Header: h, Body: ctx.Request.Body()}
	l.handle(j, ctx.RemoteAddr(), &ctx.Response)
}

// handle sends the request of a client at an address to the nodes, within the
// limits, and answers it.
func (l *Listener) handle(j *job, from net.Addr, resp *fasthttp.Response) {
	limits := l.limits.Load()
	j.from = from
	j.decode()
	if !l.allows(from, max(1, len(j.calls))) {
		l.refuse(j, &refusal{fasthttp.StatusTooManyRequests, tooMany}, resp)
		return
	}
	if most := limits.cfg.Limits.MaxBatch; j.batch && most > 0 && len(j.calls) > most {
		l.refuse(j, &refusal{fasthttp.StatusOK, jsonrpc.Fault{Code: jsonrpc.CodeInvalidRequest, Message: "batch too large"}}, resp)
		return
	}
	if n := j.logs(); n > 0 {
		n = min(n, int64(limits.cfg.Limits.GetLogs))
		if limits.logs.Acquire(l.ctx, n) != nil {
			l.refuse(j, unavailable("shutting down"), resp)
			return
		}
		defer limits.logs.Release(n)
	}
	j.request.Deadline = time.Now().Add(limits.cfg.Limits.RequestTimeout)
	if limits.cfg.Routing == config.RouteFreshest {
		l.freshest(j, resp)
		return
	}
	l.byBlock(j, resp)
}

var tooMany = jsonrpc.Fault{Code: jsonrpc.CodeLimit, Message: "too many calls a second from this address"}

// allows reports whether an address may make so many calls now, and counts when
// it may not.
func (l *Listener) allows(from net.Addr, calls int) bool {
	ok := l.limits.Load().rates.allow(from, calls, time.Now())
	if !ok {
		l.Stats.Limited.Add(1)
	}
	return ok
}

// freshest sends the whole request to the freshest node, and to the next one
// when that fails (seed 004 "Routing").
func (l *Listener) freshest(j *job, resp *fasthttp.Response) {
	v := l.View()
	if len(v.Pool) == 0 {
		l.Stats.Unserved.Add(1)
		plain(resp, fasthttp.StatusServiceUnavailable, textNoBackend)
		return
	}
	j.request.Once = j.once()
	var err error
	for _, n := range v.Pool {
		if err = l.attempt(n.Node, j, resp); err == nil {
			return
		}
		err = byEndpoint(err, n)
		if j.request.Once && !notTaken(err) {
			break
		}
	}
	l.Stats.Unserved.Add(1)
	plain(resp, fasthttp.StatusBadGateway, textAllFailed+err.Error())
}

// byEndpoint is the error of an attempt as erigon_proxy words it, with the
// endpoint in the place of the name.
func byEndpoint(err error, n *NodeView) error {
	var e *upstream.Error
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	named.Label = n.Server.Endpoint
	return &named
}

// attempt sends a request to one node.
func (l *Listener) attempt(n *Node, j *job, resp *fasthttp.Response) error {
	n.counters.Requests.Add(1)
	n.inFlight.Add(1)
	began := time.Now()
	err := n.client.Do(&j.request, resp)
	n.inFlight.Add(-1)
	if err != nil {
		l.fleet.broke(n, err)
		return err
	}
	n.latency.Observe(time.Since(began))
	return nil
}

// notTaken reports whether the node has certainly had nothing of the request.
func notTaken(err error) bool {
	var e *upstream.Error
	return errors.As(err, &e) && e.Stage == upstream.Connecting
}
