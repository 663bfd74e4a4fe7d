package evm

import (
	"strconv"
	"sync/atomic"
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
