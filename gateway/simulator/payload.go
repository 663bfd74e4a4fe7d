package simulator

import (
	"encoding/binary"

	"flotilla/gateway/ship"
)

// Field is a payload field of a block result.
type Field uint64

// The payload fields, in wire order.
const (
	FieldBlock Field = iota + 1
	FieldTraces
	FieldDeltas
	FieldFinality
)

// AppendPayload appends the size bytes that field f of the block with this id
// consists of. They are as good as random, so a byte in the wrong place shows.
func AppendPayload(b []byte, f Field, id ship.ID, size int) []byte {
	x := binary.LittleEndian.Uint64(id[8:]) ^ uint64(f)*0x9e3779b97f4a7c15 | 1
	for ; size >= 8; size -= 8 {
		x = xorshift(x)
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	x = xorshift(x)
	for ; size > 0; size-- {
		b = append(b, byte(x))
		x >>= 8
	}
	return b
}

func isPayload(b []byte, f Field, id ship.ID) bool {
	x := binary.LittleEndian.Uint64(id[8:]) ^ uint64(f)*0x9e3779b97f4a7c15 | 1
	for ; len(b) >= 8; b = b[8:] {
		x = xorshift(x)
		if binary.LittleEndian.Uint64(b) != x {
			return false
		}
	}
	x = xorshift(x)
	for ; len(b) > 0; b = b[1:] {
		if b[0] != byte(x) {
			return false
		}
		x >>= 8
	}
	return true
}

func xorshift(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}
