package simulator

import (
	"encoding/binary"
	"math/bits"

	"flotilla/gateway/ship"
)

// WebSocket opcodes (RFC 6455 section 5.2).
const (
	opContinuation = 0
	opText         = 1
	opBinary       = 2
	opClose        = 8
	opPong         = 10
)

// maxPiece is the longest piece of log data in one frame of Spring, in bytes.
const maxPiece = 1 << 20

// appendFrame appends one unmasked frame.
func appendFrame(b []byte, fin bool, opcode byte, payload []byte) []byte {
	if fin {
		opcode |= 0x80
	}
	b = append(b, opcode)
	switch n := len(payload); {
	case n < 126:
		b = append(b, byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return append(b, payload...)
}

func appendClose(b []byte, code int) []byte {
	return appendFrame(b, true, opClose, binary.BigEndian.AppendUint16(nil, uint16(code)))
}

// appendFragments appends the message msg of block result r in the frames that
// Spring makes of it (spec "ship" 1.4).
func appendFragments(b, msg []byte, r *ship.Block) []byte {
	frame := func(n int) {
		b = appendFrame(b, false, opContinuation, msg[:n])
		msg = msg[n:]
	}
	b = appendFrame(b, false, opBinary, msg[:1])
	msg = msg[1:]
	logs := [][]byte{r.Traces, r.Deltas, r.Finality}
	if !r.V1 {
		logs = logs[:2]
	}
	behind := 0
	for _, l := range logs {
		behind += prefixLen(l) + len(l)
	}
	frame(len(msg) - behind)
	for _, l := range logs {
		frame(prefixLen(l))
		for left := len(l); left > 0; {
			n := min(left, maxPiece)
			frame(n)
			left -= n
		}
	}
	return appendFrame(b, true, opContinuation, nil)
}

// prefixLen is the length of the presence byte and, if present, the varuint
// length in front of a payload field.
func prefixLen(field []byte) int {
	if field == nil {
		return 1
	}
	return 1 + (bits.Len(uint(len(field)|1))+6)/7
}
