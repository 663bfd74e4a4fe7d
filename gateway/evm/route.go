package evm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"flotilla/gateway/evm/jsonrpc"
	"flotilla/gateway/evm/upstream"

	"github.com/valyala/fasthttp"
)

// maxAttempts bounds at how many nodes a call is tried.
const maxAttempts = 4

// refusal is why a call could not be answered.
type refusal struct {
	status int
	fault  jsonrpc.Fault
}

func unavailable(format string, args ...any) *refusal {
	return &refusal{fasthttp.StatusServiceUnavailable, jsonrpc.Fault{Code: jsonrpc.CodeUnavailable, Message: fmt.Sprintf(format, args...)}}
}

// byBlock sends each call to a node that has its block.
func (l *Listener) byBlock(j *job, resp *fasthttp.Response) {
	j.request.Plain, j.request.Whole = true, true
	if j.readable && j.batch && len(j.calls) > 0 {
		l.batch(j, resp)
		return
	}
	var call *jsonrpc.Call
	need := jsonrpc.Need{Head: true}
	if j.readable && len(j.calls) == 1 {
		call = &j.calls[0]
		need = jsonrpc.NeedOf(call)
		l.replaceTags(j, &need)
	}
	if r := l.answer(j, call, need, resp); r != nil {
		l.refuse(j, r, resp)
	}
}

func (l *Listener) plan(need jsonrpc.Need) want {
	return plan(need, l.heads.latest.Load(), l.View().Tip)
}

// replaceTags puts the blocks that clients have been told in the place of "safe"
// and "finalized": nodes learn of them at different times.
func (l *Listener) replaceTags(j *job, need *jsonrpc.Need) {
	original := j.request.Body
	l.heads.settle(need, func(tag []byte, n uint64) {
		at := cap(original) - cap(tag)
		j.request.Body = slices.Concat(j.request.Body[:at], appendQuantity(nil, n), j.request.Body[at+len(tag):])
	})
}

// replaced is body with other in the place of part, which is a slice of it.
func replaced(body, part, other []byte) []byte {
	at := cap(body) - cap(part)
	return slices.Concat(body[:at], other, body[at+len(part):])
}

// send asks nodes until one gives a good answer, which is in resp then. When
// none does, but one has answered, the last answer is.
func (l *Listener) send(j *job, call *jsonrpc.Call, need jsonrpc.Need, w want, resp *fasthttp.Response) *refusal {
	j.request.Once = call != nil && once(call.Method) || call == nil && j.once()
	j.request.Most = 0
	if tellsHead(j, call, &need) {
		j.request.Most = maxTold
	}
	j.tried = j.tried[:0]
	deadline := time.Now().Add(l.Config().HoldWait)
	var last error
	for {
		n, r := l.next(w, j, call, &need, deadline)
		if r != nil {
			if last != nil {
				r = &refusal{fasthttp.StatusBadGateway, jsonrpc.Fault{Code: jsonrpc.CodeUnavailable, Message: "no node has answered: " + last.Error()}}
			}
			return r
		}
		j.tried = append(j.tried, n.Node)
		j.request.Deadline = time.Now().Add(l.Config().Limits.RequestTimeout)
		if err := l.attempt(n.Node, j, resp); err != nil {
			last = err
			if j.request.Once && !notTaken(err) {
				return &refusal{fasthttp.StatusBadGateway, jsonrpc.Fault{Code: jsonrpc.CodeUnavailable,
					Message: "the node may have taken the transaction in, and was lost before it answered"}}
			}
			if len(j.tried) >= maxAttempts {
				return &refusal{fasthttp.StatusBadGateway, jsonrpc.Fault{Code: jsonrpc.CodeUnavailable, Message: "no node has answered: " + err.Error()}}
			}
			l.Stats.Retries.Add(1)
			continue
		}
		v := judge(resp, call, need, w)
		if v == good && call != nil {
			v = l.rewrite(n.Node, call, need, w, resp)
		}
		if v == pruned {
			n.forget(need)
		}
		if v == good || len(j.tried) >= maxAttempts || j.request.Once || firstFit(l.View(), w, j.tried) == nil {
			if call != nil && len(j.tried) > 1 && !resp.IsBodyStream() {
				if body, ok := l.settled(n.Node, call, resp.Body()); ok {
					resp.SetBody(body)
				}
			}
			return nil
		}
		n.counters.Retries.Add(1)
		l.Stats.Retries.Add(1)
		upstream.Wipe(resp)
	}
}

// maxTold is the largest answer, in bytes, that is read for the head that it tells.
const maxTold = 64 << 20

// tellsHead reports whether the answer to a call, or to batch j when call is nil,
// tells a client of the head.
func tellsHead(j *job, call *jsonrpc.Call, need *jsonrpc.Need) bool {
	if call != nil {
		return need.Latest() && isHead(call.Method)
	}
	return slices.ContainsFunc(j.calls, func(c jsonrpc.Call) bool { return isHead(c.Method) })
}

func isHead(method []byte) bool {
	switch string(method) {
	case "eth_blockNumber", "eth_getBlockByNumber", "eth_getHeaderByNumber", "erigon_getHeaderByNumber":
		return true
	}
	return false
}

// forget notes that the node has not kept the history that was asked for.
func (n *Node) forget(need jsonrpc.Need) {
	switch {
	case !need.Named:
	case need.State:
		raise(&n.statesFrom, need.Lowest+1)
	default:
		raise(&n.blocksFrom, need.Lowest+1)
	}
}

// next is the node to ask now. When the pool has nodes but none of them has the
// block that clients have been told of, it waits for one until deadline.
func (l *Listener) next(w want, j *job, call *jsonrpc.Call, need *jsonrpc.Need, deadline time.Time) (*NodeView, *refusal) {
	chooser := l.chooser.Load()
	if n := chooser.choose(l.View(), w, j, call, need); n != nil {
		return n, nil
	}
	held := false
	for {
		changed := l.fleet.changes()
		v := l.View()
		if n := chooser.choose(v, w, j, call, need); n != nil {
			return n, nil
		}
		if len(v.Pool) == 0 {
			return nil, unavailable("no healthy node")
		}
		if w.bounded && slices.ContainsFunc(v.Pool, func(n *NodeView) bool { return n.reached(w) && !n.reaches(w) && !slices.Contains(j.tried, n.Node) }) {
			// What was learned about history may be out of date, and the node has
			// better words than we have.
			w.bounded = false
			continue
		}
		if !slices.ContainsFunc(v.Pool, func(n *NodeView) bool { return !n.reached(w) }) {
			return nil, unavailable("no node is left to try")
		}
		if !held {
			held = true
			l.Stats.Held.Add(1)
		}
		if time.Until(deadline) <= 0 {
			return nil, unavailable("no node has block %d yet, try again", w.height)
		}
		waitFor(l.ctx, changed, time.Until(deadline))
		if l.ctx.Err() != nil {
			return nil, unavailable("shutting down")
		}
	}
}

// rewrite keeps what a client is told from going back. It may send the call to
// another node.
func (l *Listener) rewrite(n *Node, call *jsonrpc.Call, need jsonrpc.Need, w want, resp *fasthttp.Response) verdict {
	if resp.IsBodyStream() {
		return good
	}
	if string(call.Method) == "eth_blockNumber" {
		if number, err := jsonrpc.Number(jsonrpc.Inside(resp.Body(), "result")); err == nil && !l.credible(number) {
			return elsewhere
		}
		if body, changed := l.rewriteNumber(n, resp.Body()); changed {
			resp.SetBody(body)
		}
		return good
	}
	if makesFilter(call.Method) {
		l.madeFilter(n, call, resp)
		return good
	}
	return l.toldBlock(n, call, need, w, resp.Body())
}

// credible reports whether a height may be told to clients: it is not far above
// what the checks have found.
func (l *Listener) credible(number uint64) bool {
	h := &l.Config().Health
	return !h.Agree || number <= l.View().Tip+max(h.HardLag, 1)
}

// toldBlock takes in the newest block that an answer shows to a client. One that
// is too old, or not to be believed, sends a call for the head elsewhere.
func (l *Listener) toldBlock(n *Node, call *jsonrpc.Call, need jsonrpc.Need, w want, body []byte) verdict {
	number, byTag, ok := shown(call.Method, body)
	switch {
	case !ok:
	case byTag && need.Tags[0] != nil:
		l.heads.tell(need.Tags[0], number)
	case byTag && need.Head && (number < w.height || !l.credible(number)):
		return elsewhere
	default:
		l.told(n, number)
	}
	return good
}

// told takes in that a client is about to learn of a block that a node has: what
// the client asks for next has to go to a node that has it as well.
func (l *Listener) told(n *Node, number uint64) {
	if number > l.heads.latest.Load() && l.credible(number) {
		n.sawHead(number)
		raise(&l.heads.latest, number)
	}
}

// rewriteNumber raises the answer to eth_blockNumber to what clients have been
// told.
func (l *Listener) rewriteNumber(n *Node, body []byte) (_ []byte, changed bool) {
	result := jsonrpc.Inside(body, "result")
	number, err := jsonrpc.Number(result)
	if err != nil {
		return body, false
	}
	if !l.credible(number) {
		return body, false
	}
	n.sawHead(number)
	told := raise(&l.heads.latest, number)
	if told == number {
		return body, false
	}
	l.Stats.HeadsRaised.Add(1)
	return replaced(body, result, appendQuantity(nil, told)), true
}

// refuse answers with an error in JSON-RPC, with the ids of the request where
// it could be read.
func (l *Listener) refuse(j *job, r *refusal, resp *fasthttp.Response) {
	l.Stats.Unserved.Add(1)
	upstream.Wipe(resp)
	if !j.readable {
		plain(resp, r.status, r.fault.Message)
		return
	}
	var body []byte
	if j.batch && r.fault.Code != jsonrpc.CodeInvalidRequest {
		body = append(body, '[')
		for i := range j.calls {
			if j.calls[i].Notification() {
				continue
			}
			if len(body) > 1 {
				body = append(body, ',')
			}
			body = jsonrpc.AppendFault(body, j.calls[i].ID, r.fault)
		}
		body = append(body, ']')
	} else {
		var id []byte
		if len(j.calls) == 1 && !j.batch {
			id = j.calls[0].ID
		}
		body = jsonrpc.AppendFault(nil, id, r.fault)
	}
	resp.SetStatusCode(r.status)
	resp.Header.SetContentType("application/json")
	resp.SetBody(body)
}

var errNoAnswer = errors.New("the node's answer to a part of the batch cannot be read")
