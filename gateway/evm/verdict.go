package evm

import (
	"strings"

	"flotilla/gateway/evm/jsonrpc"

	"github.com/valyala/fasthttp"
)

// verdict is what an answer means for the next step.
type verdict int

const (
	// good answers go to the client, refusals and errors of the call included.
	good verdict = iota
	// elsewhere means that this node cannot, and another one may.
	elsewhere
	// pruned is elsewhere for a node that has not kept what was asked for.
	pruned
)

// judge looks at the answer to a call; it is one to a batch, or to a body that
// cannot be read, when call is nil.
func judge(resp *fasthttp.Response, call *jsonrpc.Call, need jsonrpc.Need, w want) verdict {
	switch code := resp.StatusCode(); {
	case code >= 500 || refuses(code):
		return elsewhere
	case code != fasthttp.StatusOK || call == nil || resp.IsBodyStream():
		return good
	}
	return judgeBody(resp.Body(), call, need, w)
}

// refuses are the statuses by which a provider says no to us, not to the call.
func refuses(code int) bool {
	switch code {
	case fasthttp.StatusUnauthorized, fasthttp.StatusPaymentRequired, fasthttp.StatusForbidden, fasthttp.StatusRequestTimeout, fasthttp.StatusTooManyRequests:
		return true
	}
	return false
}

func judgeBody(body []byte, call *jsonrpc.Call, need jsonrpc.Need, w want) verdict {
	switch jsonrpc.KindOf(body) {
	case jsonrpc.Failure:
		return judgeFault(jsonrpc.ReadFault(jsonrpc.Inside(body, "error")), call)
	case jsonrpc.Null:
		// The plan says that the node has the block. It is wrong, or the node is.
		if need.Named && need.Highest <= w.height && !need.State && byNumber(call.Method) {
			return elsewhere
		}
	}
	return good
}

// byNumber are the methods whose result is null for a block that is not there.
func byNumber(method []byte) bool {
	switch string(method) {
	case "eth_getBlockByNumber", "eth_getBlockReceipts", "eth_getHeaderByNumber", "eth_getBlockTransactionCountByNumber":
		return true
	}
	return false
}

// Texts by which nodes of the usual kinds say that they have not kept
// something, and that they cannot do what another node may.
var (
	prunedTexts = []string{"missing trie node", "pruned", "historical state", "state not available", "state is not available",
		"state unavailable", "history has been pruned", "distance to target block exceeds", "old data not available", "no state available",
		"pruned history unavailable", "header for hash not found"}
	elsewhereTexts = []string{"header not found", "unknown block", "block not found", "could not find block", "not synced",
		"syncing", "too many requests", "rate limit", "capacity exceeded", "timed out", "timeout", "temporarily unavailable",
		"service unavailable", "overloaded", "method not found", "method not available", "does not exist/is not available", "method is not supported"}
)

// judgeFault tells an error of the node from one of the call.
func judgeFault(f jsonrpc.Fault, call *jsonrpc.Call) verdict {
	if writes(call.Method) {
		return good
	}
	text := strings.ToLower(f.Message)
	if f.Code == 3 || strings.Contains(text, "revert") {
		// What a contract says may hold any words.
		return good
	}
	if containsAny(text, prunedTexts) {
		return pruned
	}
	switch f.Code {
	case -32601, -32005, -32002:
		return elsewhere
	}
	if containsAny(text, elsewhereTexts) {
		return elsewhere
	}
	return good
}

// writes are the methods that change something at the node.
func writes(method []byte) bool {
	return once(method) || string(method) == "eth_sendRawTransaction"
}
