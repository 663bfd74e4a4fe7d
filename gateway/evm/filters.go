package evm

import (
	"container/list"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/evm/jsonrpc"
	"flotilla/gateway/evm/upstream"

	"github.com/valyala/fasthttp"
)

// Bounds of filters.
const (
	// filterLife is how long a filter lives that nobody asks for; nodes keep
	// theirs for as long.
	filterLife = 5 * time.Minute
	// maxFilters is how many filters the clients of a listener have; one beyond
	// it ends the one that was asked for least recently.
	maxFilters = 1 << 16
)

// filters are those that nodes have made for clients. A node's id means nothing
// to another node, and two nodes may give the same one, so clients have ids of
// ours. It is safe for concurrent use.
type filters struct {
	mu   sync.Mutex
	byID map[string]*list.Element
	// used has the filters, the one that was asked for last at the front.
	used  list.List
	stats FilterStats
}

// FilterStats are how many filters were made, and how they ended: by their
// client, unused for filterLife, as one too many, or with their node.
type FilterStats struct {
	Made, Uninstalled, Expired, Displaced, Lost atomic.Uint64
}

// filter is one filter, and the node that has it.
type filter struct {
	// id is the client's.
	id   string
	node *Node
	// up is the node's id as a raw value.
	up []byte
	// pending is true for one of transactions that are in no block yet.
	pending bool
	last    time.Time
}

func newFilters() *filters { return &filters{byID: map[string]*list.Element{}} }

// newID is an id for a filter or a subscription: nobody can guess it. It has no
// leading zero, as clients may read it as a number and write it anew.
func newID() string {
	var id [16]byte
	rand.Read(id[:])
	id[0] |= 0x80
	return "0x" + hex.EncodeToString(id[:])
}

// add takes a filter in that a node has made, and returns the client's id.
func (f *filters) add(x *filter, now time.Time) string {
	x.id, x.last = newID(), now
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	if f.used.Len() >= maxFilters {
		f.remove(f.used.Back(), &f.stats.Displaced)
	}
	f.stats.Made.Add(1)
	f.byID[x.id] = f.used.PushFront(x)
	return x.id
}

// use is the filter with an id, nil when there is none. Its life begins anew.
func (f *filters) use(id []byte, now time.Time) *filter {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	e := f.byID[string(id)]
	if e == nil {
		return nil
	}
	f.used.MoveToFront(e)
	x := e.Value.(*filter)
	x.last = now
	return x
}

// drop forgets a filter, which may be gone already, and counts why.
func (f *filters) drop(x *filter, why *atomic.Uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.byID[x.id]; e != nil {
		f.remove(e, why)
	}
}

// count is how many filters there are.
func (f *filters) count(now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	return f.used.Len()
}

// expire forgets what has not been asked for. f.mu is held.
func (f *filters) expire(now time.Time) {
	for e := f.used.Back(); e != nil && now.Sub(e.Value.(*filter).last) > filterLife; e = f.used.Back() {
		f.remove(e, &f.stats.Expired)
	}
}

// remove takes a filter out, and counts why. f.mu is held.
func (f *filters) remove(e *list.Element, why *atomic.Uint64) {
	why.Add(1)
	f.used.Remove(e)
	delete(f.byID, e.Value.(*filter).id)
}

// makesFilter are the methods whose result is the id of a filter.
func makesFilter(method []byte) bool {
	switch string(method) {
	case "eth_newFilter", "eth_newBlockFilter", "eth_newPendingTransactionFilter":
		return true
	}
	return false
}

// usesFilter are the methods whose first parameter is the id of a filter.
func usesFilter(method []byte) bool {
	switch string(method) {
	case "eth_getFilterChanges", "eth_getFilterLogs", "eth_uninstallFilter":
		return true
	}
	return false
}

// madeFilter puts an id of ours in the place of the node's.
func (l *Listener) madeFilter(n *Node, call *jsonrpc.Call, resp *fasthttp.Response) {
	body := resp.Body()
	up := jsonrpc.Inside(body, "result")
	if text, ok := jsonrpc.Text(up); !ok || len(text) == 0 {
		return
	}
	id := l.filters.add(&filter{node: n, up: slices.Clone(up), pending: string(call.Method) == "eth_newPendingTransactionFilter"}, time.Now())
	resp.SetBody(replaced(body, up, []byte(`"`+id+`"`)))
}

// answer answers one call: a call for a filter by the node that has it, any
// other one by a node that fits.
func (l *Listener) answer(j *job, call *jsonrpc.Call, need jsonrpc.Need, resp *fasthttp.Response) *refusal {
	if call != nil && usesFilter(call.Method) {
		// Of a parameter that is no text the nodes say what is wrong.
		if param := jsonrpc.Element(call.Params, 0); param != nil && param[0] == '"' {
			l.askFilter(j, call, param, resp)
			return nil
		}
	}
	return l.send(j, call, need, l.plan(need), resp)
}

// askFilter asks the node that has a filter. When that is lost, so is the
// filter: what it has told last may never have arrived, and no other node knows
// what the client has had. The client is told so, and makes a new one.
func (l *Listener) askFilter(j *job, call *jsonrpc.Call, param []byte, resp *fasthttp.Response) {
	id, _ := jsonrpc.Text(param)
	x := l.filters.use(id, time.Now())
	if x == nil {
		noFilter(call, resp)
		return
	}
	if v := l.View().find(x.node); v == nil || !v.State.Healthy {
		l.filters.drop(x, &l.filters.stats.Lost)
		noFilter(call, resp)
		return
	}
	j.request.Body = replaced(j.request.Body, param, x.up)
	j.request.Deadline = time.Now().Add(l.Config().Limits.RequestTimeout)
	if l.attempt(x.node, j, resp) != nil {
		l.filters.drop(x, &l.filters.stats.Lost)
		noFilter(call, resp)
		return
	}
	switch {
	case string(call.Method) == "eth_uninstallFilter":
		l.filters.drop(x, &l.filters.stats.Uninstalled)
	case forgotten(resp):
		l.filters.drop(x, &l.filters.stats.Lost)
	case !x.pending:
		l.toldChanges(x.node, resp)
	}
}

// forgotten reports whether a node answers that it has no such filter, as after a
// restart.
func forgotten(resp *fasthttp.Response) bool {
	if resp.IsBodyStream() || jsonrpc.KindOf(resp.Body()) != jsonrpc.Failure {
		return false
	}
	f := jsonrpc.ReadFault(jsonrpc.Inside(resp.Body(), "error"))
	return strings.Contains(strings.ToLower(f.Message), "filter not found")
}

// toldChanges takes in that a client is about to learn of blocks from a filter:
// what it asks for next has to go to a node that has them.
func (l *Listener) toldChanges(n *Node, resp *fasthttp.Response) {
	if !resp.IsBodyStream() && jsonrpc.Element(jsonrpc.Inside(resp.Body(), "result"), 0) == nil {
		return
	}
	result, err := n.call(method("eth_blockNumber"), l.Config().Health.Timeout)
	if err != nil {
		return
	}
	if number, err := jsonrpc.Number(result); err == nil && l.credible(number) {
		n.sawHead(number)
		raise(&l.heads.latest, number)
	}
}

// noFilter answers as nodes do for a filter that they do not know.
func noFilter(call *jsonrpc.Call, resp *fasthttp.Response) {
	upstream.Wipe(resp)
	resp.SetStatusCode(fasthttp.StatusOK)
	resp.Header.SetContentType("application/json")
	switch {
	case call.Notification():
	case string(call.Method) == "eth_uninstallFilter":
		resp.SetBody(slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), call.ID, []byte(`,"result":false}`)))
	default:
		resp.SetBody(jsonrpc.AppendFault(nil, call.ID, jsonrpc.Fault{Code: jsonrpc.CodeUnavailable, Message: "filter not found"}))
	}
}
