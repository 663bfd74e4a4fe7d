package ship

import "math"

// Parts are the payload fields that are present in a block result.
type Parts struct{ Block, Traces, Deltas, Finality bool }

// Bytes are the bytes of a message, asked for with offsets that do not go back;
// false is behind the end.
type Bytes interface {
	Byte(at int) (byte, bool)
}

// ReadParts finds out which payload fields a block result with header h has,
// by stepping over them. It reports false when the message does not decode
// that far. It does not allocate.
func ReadParts(b Bytes, h *BlockHeader) (p Parts, ok bool) {
	at := int64(offThis + 2)
	if h.HasThis {
		at += PosSize
	}
	if h.HasPrev {
		at += PosSize
	}
	fields := [...]*bool{&p.Block, &p.Traces, &p.Deltas, &p.Finality}
	n := len(fields)
	if !h.V1 {
		n--
	}
	for i, present := range fields[:n] {
		if *present, at, ok = stepOver(b, at, i == 0); !ok {
			return p, false
		}
	}
	return p, true
}

// stepOver reads the presence byte and the length of an optional bytes field,
// and returns the offset behind it. The length of the block is a varuint32,
// those of the logs are varuint64 (W1, W2).
func stepOver(b Bytes, at int64, block bool) (present bool, behind int64, ok bool) {
	flag, ok := b.Byte(int(at))
	if !ok || flag > 1 {
		return false, 0, false
	}
	at++
	if flag == 0 {
		return false, at, true
	}
	size, last := 10, byte(0x01)
	if block {
		size, last = 5, 0x0f
	}
	var length uint64
	for i := range size {
		v, ok := b.Byte(int(at))
		if !ok || i == size-1 && v > last {
			return false, 0, false
		}
		at++
		length |= uint64(v&0x7f) << (7 * i)
		if v < 0x80 {
			if length > math.MaxInt32 || length > 0 && !has(b, at+int64(length)-1) {
				return false, 0, false
			}
			return true, at + int64(length), true
		}
	}
	return false, 0, false
}

func has(b Bytes, at int64) bool {
	_, ok := b.Byte(int(at))
	return ok
}
