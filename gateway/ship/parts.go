package ship

import "math"

// Parts are the payload fields that are present in a block result.
type Parts struct{ Block, Traces, Deltas, Finality bool }

// Bytes are the bytes of a message, asked for with offsets that do not go back.
type Bytes interface {
	// Slice is up to n bytes from an offset on; fewer only at the end. It is
	// valid until the next call.
	Slice(at, n int) []byte
}

// ReadParts finds out which payload fields a block result with header h has,
// by stepping over them; size is the length of the message. The bytes are those of
// whole, or of b where whole is nil as they are not in one piece. It reports false
// when the message does not decode that far. It does not allocate.
func ReadParts(whole []byte, b Bytes, size int, h *BlockHeader) (p Parts, ok bool) {
	at := offThis + 2
	if h.HasThis {
		at += PosSize
	}
	if h.HasPrev {
		at += PosSize
	}
	if p.Block, at, ok = stepOver(whole, b, at, size, 5, 0x0f); !ok {
		return p, false
	}
	if p.Traces, at, ok = stepOver(whole, b, at, size, 10, 0x01); !ok {
		return p, false
	}
	if p.Deltas, at, ok = stepOver(whole, b, at, size, 10, 0x01); !ok || !h.V1 {
		return p, ok
	}
	p.Finality, _, ok = stepOver(whole, b, at, size, 10, 0x01)
	return p, ok
}

// stepOver reads the presence byte and the length of an optional bytes field,
// a varuint of at most digits bytes the last of which is at most last (W1, W2),
// and returns the offset behind it.
func stepOver(whole []byte, b Bytes, at, size, digits int, last byte) (present bool, behind int, ok bool) {
	var s []byte
	switch {
	case whole == nil:
		s = b.Slice(at, 1+digits)
	case at >= len(whole):
		return false, 0, false
	case whole[at] == 1 && at+2 < len(whole) && whole[at+1] < 0x80:
		// Most fields are this short, and each block has three.
		behind = at + 2 + int(whole[at+1])
		ok = behind <= size
		return ok, behind, ok
	default:
		s = whole[at:min(at+1+digits, len(whole))]
	}
	if len(s) == 0 || s[0] > 1 {
		return false, 0, false
	}
	if s[0] == 0 {
		return false, at + 1, true
	}
	var length uint64
	for i, v := range s[1:] {
		if i == digits-1 && v > last {
			return false, 0, false
		}
		length |= uint64(v&0x7f) << (7 * i)
		if v < 0x80 {
			behind = at + 2 + i
			if length > math.MaxInt32 || int(length) > size-behind {
				return false, 0, false
			}
			return true, behind + int(length), true
		}
	}
	return false, 0, false
}
