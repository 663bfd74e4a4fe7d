package evm

import (
	"bytes"
	"strconv"
	"sync/atomic"

	"flotilla/gateway/evm/jsonrpc"
)

// heads are the heights that the clients of a listener have been told. None of
// them ever goes back, whichever node answers.
type heads struct {
	latest, safe, finalized atomic.Uint64
}

// raise makes a height at least n, and returns it.
func raise(height *atomic.Uint64, n uint64) uint64 {
	for {
		old := height.Load()
		if n <= old {
			return old
		}
		if height.CompareAndSwap(old, n) {
			return n
		}
	}
}

// tagged is the height to ask for in place of a tag, with its quotes; ok is
// false when it is not known.
func (h *heads) tagged(tag []byte) (n uint64, ok bool) {
	switch string(tag) {
	case `"safe"`:
		n = h.safe.Load()
	case `"finalized"`:
		n = h.finalized.Load()
	}
	return n, n > 0
}

// settle makes the tags of need that clients have been told a block of into that
// block. It calls f for each, the one behind first: what stands before it in the
// call stays where it is.
func (h *heads) settle(need *jsonrpc.Need, f func(tag []byte, n uint64)) {
	tags := need.Tags
	if cap(tags[0]) > cap(tags[1]) {
		tags[0], tags[1] = tags[1], tags[0]
	}
	need.Tags = [2][]byte{}
	for _, tag := range tags {
		n, ok := h.tagged(tag)
		switch {
		case tag == nil:
		case !ok:
			need.Tags[0], need.Tags[1] = tag, need.Tags[0]
		default:
			f(tag, n)
			need.Include(n)
		}
	}
}

// knows reports whether a tag of a call can be replaced.
func (h *heads) knows(need *jsonrpc.Need) bool {
	for _, tag := range need.Tags {
		if _, ok := h.tagged(tag); ok {
			return true
		}
	}
	return false
}

// tell notes the block that a client was told for a tag.
func (h *heads) tell(tag []byte, n uint64) {
	switch string(tag) {
	case `"safe"`:
		raise(&h.safe, n)
	case `"finalized"`:
		raise(&h.finalized, n)
	}
}

// appendQuantity appends a number as JSON-RPC has it, with quotes.
func appendQuantity(to []byte, n uint64) []byte {
	to = append(to, `"0x`...)
	to = strconv.AppendUint(to, n, 16)
	return append(to, '"')
}

// shown is the newest block that an answer tells a client of. ByTag is true for
// answers that are the block itself, as it may have been asked for by a tag.
func shown(method, body []byte) (number uint64, byTag, ok bool) {
	var raw []byte
	switch string(method) {
	case "eth_getBlockByNumber", "eth_getHeaderByNumber", "erigon_getHeaderByNumber":
		raw, byTag = jsonrpc.Inside(body, "result", "number"), true
	case "eth_getBlockByHash", "eth_getHeaderByHash", "erigon_getHeaderByHash":
		raw = jsonrpc.Inside(body, "result", "number")
	case "eth_getTransactionReceipt", "eth_getTransactionByHash", "eth_getTransactionByBlockHashAndIndex", "eth_getTransactionByBlockNumberAndIndex":
		raw = jsonrpc.Inside(body, "result", "blockNumber")
	case "eth_getLogs", "erigon_getLogs", "eth_getBlockReceipts":
		// They are in order, and hold nothing that could look like it.
		raw = lastMember(body, "blockNumber")
	}
	number, err := jsonrpc.Number(raw)
	return number, byTag, err == nil
}

// lastMember is the value of the last member of that name in a text, at any
// depth, if it is a text; nil when there is none.
func lastMember(body []byte, name string) []byte {
	at := bytes.LastIndex(body, []byte(name))
	if at < 1 || body[at-1] != '"' {
		return nil
	}
	rest, ok := bytes.CutPrefix(body[at+len(name):], []byte(`"`))
	if !ok {
		return nil
	}
	rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":"))
	if !ok {
		return nil
	}
	rest = bytes.TrimLeft(rest, " \t\r\n")
	if len(rest) == 0 || rest[0] != '"' {
		return nil
	}
	end := bytes.IndexByte(rest[1:], '"')
	if end < 0 {
		return nil
	}
	return rest[:end+2]
}
