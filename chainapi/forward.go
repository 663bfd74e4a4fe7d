package chainapi

import (
	"context"
	"encoding/json"
	"time"
)

// verdict is what an answer means for the rest of a request.
type verdict int

const (
	// final: it is the answer.
	final verdict = iota
	// next: the next candidate is asked.
	next
	// keep: as next, but it is the answer when nobody has a better one.
	keep
)

// forward finds who answers the request, and passes that answer on.
func (x *exchange) forward() error {
	v, now := x.p.View(), time.Now()
	tip := x.p.fleet.Pair()
	shipHead, shipLIB := tip.Head.Num, tip.LIB.Num
	ask := x.asker(v, shipHead)
	defer ask.done()
	switch x.class {
	case Block:
		if q := question(x.path, x.call.body); q.Known {
			ask.about(q.Num)
			p := planBlock(v, x.path, q, x.s.rules, shipLIB, now, ask)
			x.region = reversible
			if p.irreversible {
				x.region = irreversible
			}
			if p.irreversible && x.cacheable() {
				return x.cached(p.candidates, judgeBlock(p, q))
			}
			return x.ask(p.candidates, judgeBlock(p, q))
		}
		x.region = unhinted
		fallthrough
	case State:
		return x.ask(planState(v, x.path, x.s.rules, shipHead, x.p.turns.Add(1), (*API).usable, now, ask), judgeState)
	case Info:
		return x.ask(planInfo(v, x.p.nowPrimary(v), now), judgeInfo)
	case Exec:
		x.call.fresh = true
		return x.once(planState(v, x.path, x.s.rules, shipHead, x.p.turns.Add(1), (*API).usableOnce, now, ask))
	default:
		x.call.fresh = true
		return x.once(planPush(v, x.s.api.PushServers, x.p.nowPrimary(v), now))
	}
}

// judge says what an answer means. last tells that nobody is left to ask.
type judge func(a *API, got *attempt, last bool) verdict

// judgeState: any answer is final, unless the node is busy.
func judgeState(_ *API, got *attempt, _ bool) verdict {
	if got.busy {
		return next
	}
	return final
}

// judgeInfo: a node that fails is passed over while one is left.
func judgeInfo(_ *API, got *attempt, last bool) verdict {
	if got.busy || got.status >= 500 && !last {
		return next
	}
	return final
}

// judgeBlock is the table of seed 003 "Each attempt's answer".
func judgeBlock(p plan, q Question) judge {
	if !p.irreversible {
		return judgeState
	}
	return func(a *API, got *attempt, _ bool) verdict {
		switch {
		case got.busy:
			return next
		case got.status == 404:
			return keep
		case !got.unknown:
			return final
		case q.ByID && a.final(q.Num):
			return final
		case p.claimed:
			// The block exists: Unknown Block cannot be the answer.
			return next
		}
		return keep
	}
}

// ask asks one candidate after the other until an answer is final.
func (x *exchange) ask(list []*API, decide judge) error {
	most, nobody := x.s.rules.MaxAttempts, noUpstream
	switch {
	case x.class == Info:
		most, nobody = len(list), noLive
	case len(list) == 0 && x.region != irreversible && x.region != reversible:
		nobody = noLive
	}
	var best kept
	var passed Retry
	for x.tries < most && len(list) > 0 {
		a := x.pick(&list)
		if a == nil {
			break
		}
		if passed != "" {
			x.p.Stats.Retries.Inc(passed)
		}
		var got attempt
		var fail *failure
		if wait, ok := x.hedges(a, list, most); ok {
			a, got, fail = x.race(a, &list, wait)
		} else {
			got, fail = x.try(a, nil)
		}
		if fail != nil {
			x.release()
			passed = fail.retry()
			if fail.ours {
				break
			}
			continue
		}
		v := final
		if got.whole {
			v = decide(a, &got, x.tries == most || len(list) == 0)
		}
		if v == final {
			return x.finish(a, got.response)
		}
		passed = got.retry()
		if v == keep {
			best.put(a, got.response)
		} else {
			got.discard()
			got.done()
		}
		x.release()
	}
	if best.by != nil {
		return x.relay(best.by, best.response)
	}
	return x.none(nobody)
}

// kept is the answer that counts when there is no better one. Its body is in
// memory.
type kept struct {
	by *API
	*response
}

// put keeps the newer answer, unless only the older one is of a live node.
func (k *kept) put(by *API, r *response) {
	r.detach()
	switch {
	case k.by == nil:
	case !isLive(by) && isLive(k.by):
		r.done()
		return
	default:
		k.done()
	}
	k.by, k.response = by, r
}

// attempt is an answer, as far as it had to be read to judge it.
type attempt struct {
	*response
	status int
	// busy: the node has no time, now. unknown: it is nodeos's Unknown Block.
	busy, unknown bool
	// whole is false for a body too large to be judged; such an answer is final.
	whole bool
}

// retry is why the attempt passed the request on.
func (a *attempt) retry() Retry {
	switch {
	case a.unknown:
		return RetryUnknownBlock
	case a.status == 404:
		return RetryNotFound
	case a.busy:
		return RetryBusy
	}
	return RetryError
}

func (f *failure) retry() Retry {
	if f.timeout {
		return RetryTimeout
	}
	return RetryConnect
}

// maxClassified bounds the body of a 400 or 404 that is read to judge it.
const maxClassified = 64 << 10

// isUnknownBlock reports whether a body is nodeos's Unknown Block.
func isUnknownBlock(body []byte) bool {
	var got struct {
		Error struct {
			Code json.RawMessage `json:"code"`
		} `json:"error"`
	}
	return json.Unmarshal(body, &got) == nil && string(got.Error.Code) == "3100002"
}

// pick takes a slot on the first candidate that has one free, and takes that
// candidate off the list. When all are full it waits for one on the first. It
// returns nil when none became free.
func (x *exchange) pick(list *[]*API) *API {
	remove := func(i int) *API {
		a := (*list)[i]
		*list = append((*list)[:i:i], (*list)[i+1:]...)
		return a
	}
	for i, a := range *list {
		if a.link.slots.take() {
			x.slot = a
			return remove(i)
		}
	}
	wait, _ := patience(x.s.api.UpstreamQueue, x.call.until)
	if (*list)[0].link.slots.wait(wait) {
		x.slot = (*list)[0]
		return remove(0)
	}
	return nil
}

// try makes one attempt at an API, on which the request has a slot. Of what may
// move on to the next candidate it reads the body. gone ends it early; nil never
// does.
func (x *exchange) try(a *API, gone context.Context) (attempt, *failure) {
	x.tries++
	return x.attempt(a, gone)
}

// attempt is try without counting it. It may run beside another one.
func (x *exchange) attempt(a *API, gone context.Context) (attempt, *failure) {
	call := x.call
	call.gone = gone
	from := time.Now()
	r, fail := a.link.client.do(&call)
	if fail != nil {
		x.broke(a, fail)
		return attempt{}, fail
	}
	took := time.Since(from)
	a.link.latency.Observe(took)
	if x.class == Block || x.class == Info {
		a.link.heads.add(took)
	}
	got := attempt{response: r, status: r.head.StatusCode(), whole: true}
	got.busy = x.s.isBusy(got.status)
	if x.region == irreversible && (got.status == 400 || got.status == 404) {
		stop := r.wire.endsWith(gone)
		body, whole, err := r.peek(maxClassified)
		stop()
		if err != nil { // it broke off before it could be judged
			r.done()
			fail := &failure{sent: true, timeout: isTimeout(err), left: over(gone), err: err}
			x.broke(a, fail)
			return attempt{}, fail
		}
		got.whole, got.unknown = whole, whole && got.status == 400 && isUnknownBlock(body)
	}
	x.tally(a, &got)
	return got, nil
}

// broke takes in an attempt that failed in transport.
func (x *exchange) broke(a *API, fail *failure) {
	switch {
	case fail.left:
		return
	case fail.timeout:
		a.link.requests.Inc(ResultTimeout)
	default:
		a.link.requests.Inc(ResultConnect)
	}
	if !fail.ours {
		a.link.errors.Add(time.Now())
		x.p.broken(a.link, fail, fail.sent && (x.class == Exec || x.class == Push))
	}
}

// tally counts an answer.
func (x *exchange) tally(a *API, got *attempt) {
	switch {
	case got.busy:
		a.link.requests.Inc(ResultBusy)
		x.p.overloaded(a.link)
	case got.status/100 == 2:
		a.link.requests.Inc(ResultOK)
	case got.unknown:
		a.link.requests.Inc(ResultUnknownBlock)
	case got.status == 404:
		a.link.requests.Inc(ResultNotFound)
	default:
		a.link.requests.Inc(ResultError)
	}
}

// once forwards what must not be sent twice: only a connection that could not
// be made moves on to the next node. A push also moves on from a node whose
// slots stay full.
func (x *exchange) once(list []*API) error {
	if len(list) == 0 {
		return x.none(noLive)
	}
	most := len(list)
	if x.class == Exec {
		most = x.s.rules.MaxAttempts
	}
	passed := false
	for x.tries < most && len(list) > 0 {
		var a *API
		if x.class == Exec {
			if a = x.pick(&list); a == nil {
				break
			}
		} else {
			a, list = list[0], list[1:]
			wait, _ := patience(x.s.api.UpstreamQueue, x.call.until)
			if !a.link.slots.wait(wait) {
				continue
			}
			x.slot = a
		}
		if passed {
			x.p.Stats.Retries.Inc(RetryConnect)
		}
		got, fail := x.try(a, nil)
		switch {
		case fail == nil:
			return x.relay(a, got.response)
		case fail.sent:
			x.release()
			x.region = ambiguous
			return x.none(lost)
		}
		x.release()
		passed = true
		if fail.ours {
			break
		}
	}
	return x.none(noUpstream)
}
