package evm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"flotilla/gateway/evm/jsonrpc"
	"flotilla/gateway/evm/upstream"

	"github.com/valyala/fasthttp"
)

// batch answers a batch. It goes whole to one node that has what all of its
// calls need, if there is one; else, or when something in it has to be put in
// the place of something else, its parts go to several. Calls that the
// node could not answer are asked of others, one by one. The answers come in
// the order of the calls wherever they had to be touched.
func (l *Listener) batch(j *job, resp *fasthttp.Response) {
	j.needs = j.needs[:0]
	all, apart := want{}, false
	for i := range j.calls {
		need := jsonrpc.NeedOf(&j.calls[i])
		j.needs = append(j.needs, need)
		if l.heads.knows(&need) || makesFilter(j.calls[i].Method) || usesFilter(j.calls[i].Method) {
			apart = true
			continue
		}
		all = all.and(l.plan(need))
	}
	if apart || firstFit(l.View(), all, nil) == nil {
		l.split(j, resp)
		return
	}
	if r := l.send(j, nil, jsonrpc.Need{}, all, resp); r != nil {
		l.refuse(j, r, resp)
		return
	}
	if resp.StatusCode() != fasthttp.StatusOK || resp.IsBodyStream() || len(j.tried) == 0 {
		return
	}
	l.mend(j, j.tried[len(j.tried)-1], all, resp)
}

// mend looks at the parts of a batch's answer, and replaces what has to be.
func (l *Listener) mend(j *job, n *Node, w want, resp *fasthttp.Response) {
	answers, ok := jsonrpc.ReadAnswers(resp.Body(), j.answers[:0])
	j.answers = answers
	if !ok {
		return
	}
	var parts [][]byte
	for i := range j.calls {
		call, need := &j.calls[i], j.needs[i]
		at := find(answers, call.ID, i)
		if at < 0 {
			continue
		}
		raw := answers[at].Raw
		v := judgeBody(raw, call, need, w)
		if v == pruned {
			n.forget(need)
		}
		var better []byte
		switch {
		case v != good && !once(call.Method):
			better = l.one(j, j.request, call, need)
		case string(call.Method) == "eth_blockNumber":
			if body, changed := l.rewriteNumber(n, raw); changed {
				better = body
			}
		case l.toldBlock(n, call, need, w, raw) != good:
			better = l.one(j, j.request, call, need)
		case len(j.tried) > 1:
			better, _ = l.settled(n, call, raw)
		}
		if better == nil {
			continue
		}
		if parts == nil {
			parts = make([][]byte, len(j.calls))
		}
		parts[i] = better
	}
	if parts == nil {
		return
	}
	for i := range parts {
		if at := find(answers, j.calls[i].ID, i); parts[i] == nil && at >= 0 {
			parts[i] = answers[at].Raw
		}
	}
	resp.SetBody(joined(parts))
}

// find is the index of the answer with an id, which is most likely at guess; -1
// when there is none.
func find(answers []jsonrpc.Answer, id []byte, guess int) int {
	if id == nil {
		return -1
	}
	if guess < len(answers) && bytes.Equal(answers[guess].ID, id) {
		return guess
	}
	return slices.IndexFunc(answers, func(a jsonrpc.Answer) bool { return bytes.Equal(a.ID, id) })
}

// joined is a batch of the parts that are there.
func joined(parts [][]byte) []byte {
	body := []byte{'['}
	for _, p := range parts {
		if p == nil {
			continue
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(body, p...)
	}
	return append(body, ']')
}

// splitWorkers is how many calls of one batch are under way at once.
const splitWorkers = 8

// split asks for each call of a batch by itself, several at a time.
func (l *Listener) split(j *job, resp *fasthttp.Response) {
	parts := make([][]byte, len(j.calls))
	work := make(chan int)
	var workers sync.WaitGroup
	for range min(splitWorkers, len(j.calls)) {
		request := j.request
		if j.request.Header != nil {
			// Reading one changes it, so each worker has its own.
			request.Header = &fasthttp.RequestHeader{}
			j.request.Header.CopyTo(request.Header)
		}
		workers.Go(func() {
			for i := range work {
				parts[i] = l.one(j, request, &j.calls[i], j.needs[i])
			}
		})
	}
	for i := range j.calls {
		work <- i
	}
	close(work)
	workers.Wait()
	for i := range parts {
		if j.calls[i].Notification() {
			parts[i] = nil
		}
	}
	resp.SetStatusCode(fasthttp.StatusOK)
	resp.Header.SetContentType("application/json")
	resp.SetBody(joined(parts))
}

// one asks for one call of batch j by itself and returns the answer, an error
// if need be.
func (l *Listener) one(j *job, request upstream.Request, call *jsonrpc.Call, need jsonrpc.Need) []byte {
	single := jobs.Get().(*job)
	defer single.release()
	single.request, single.from, single.handshake = request, j.from, j.handshake
	single.request.Body = call.Raw
	l.replaceTags(single, &need)
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	if r := l.answer(single, call, need, resp); r != nil {
		return jsonrpc.AppendFault(nil, call.ID, r.fault)
	}
	body, err := whole(resp, maxTold)
	if err != nil {
		return jsonrpc.AppendFault(nil, call.ID, jsonrpc.Fault{Code: jsonrpc.CodeUnavailable, Message: err.Error()})
	}
	body = bytes.TrimSpace(body)
	if resp.StatusCode() != fasthttp.StatusOK || len(body) == 0 || body[0] != '{' {
		return jsonrpc.AppendFault(nil, call.ID, jsonrpc.Fault{Code: jsonrpc.CodeUnavailable, Message: errNoAnswer.Error()})
	}
	return bytes.Clone(body)
}

// whole is the body of an answer, which is read to its end if it is a stream. It
// is an error when there is more than limit.
func whole(resp *fasthttp.Response, limit int64) (body []byte, err error) {
	if resp.IsBodyStream() {
		body, err = io.ReadAll(io.LimitReader(resp.BodyStream(), limit+1))
	} else {
		body = resp.Body()
	}
	switch {
	case err != nil:
		return nil, errors.New("the node's answer was cut off")
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("the node's answer is larger than %d bytes", limit)
	}
	return body, nil
}
