// Package frame is the WebSocket layer of the block path: frame headers, the
// cutting of a byte stream into whole messages, and connections that neither
// block the other side nor hold a buffer while nothing arrives.
//
// gorilla/websocket does the handshakes; here its messages would cost one
// copy, one system call and several allocations a block.
package frame

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Opcode is the kind of a frame (RFC 6455 section 5.2).
type Opcode byte

// The opcodes.
const (
	Continuation Opcode = 0
	Text         Opcode = 1
	Binary       Opcode = 2
	Close        Opcode = 8
	Ping         Opcode = 9
	Pong         Opcode = 10
)

func (o Opcode) control() bool { return o >= 8 }

// maxHeader is the longest frame header, in bytes.
const maxHeader = 14

// maxControl is the longest payload of a control frame, in bytes.
const maxControl = 125

// Error is a breach of the protocol, with the close code that answers it.
type Error struct {
	Code   int
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Reason) }

// Close codes of RFC 6455 section 7.4.1 that the gateway uses.
const (
	CloseNormal     = 1000
	CloseGoingAway  = 1001
	CloseProtocol   = 1002
	CloseUnsupport  = 1003
	CloseNoStatus   = 1005
	CloseInvalid    = 1007
	ClosePolicy     = 1008
	CloseTooLarge   = 1009
	CloseUnexpected = 1011
)

// header is one decoded frame header.
type header struct {
	fin    bool
	op     Opcode
	masked bool
	mask   [4]byte
	// length is the payload's, size the header's own, in bytes.
	length int64
	size   int
}

// parseHeader reads the frame header at the front of b. It returns false when
// b ends inside it.
func parseHeader(b []byte, h *header) (bool, error) {
	if len(b) < 2 {
		return false, nil
	}
	if b[0]&0x70 != 0 {
		return false, &Error{CloseProtocol, "reserved bits are set"}
	}
	h.fin, h.op, h.masked = b[0]&0x80 != 0, Opcode(b[0]&0x0f), b[1]&0x80 != 0
	switch h.op {
	case Continuation, Text, Binary:
	case Close, Ping, Pong:
		if !h.fin || b[1]&0x7f > maxControl {
			return false, &Error{CloseProtocol, "a control frame is fragmented or too long"}
		}
	default:
		return false, &Error{CloseProtocol, "reserved opcode"}
	}
	at := 2
	switch l := b[1] & 0x7f; l {
	case 126:
		if len(b) < 4 {
			return false, nil
		}
		h.length, at = int64(binary.BigEndian.Uint16(b[2:])), 4
	case 127:
		if len(b) < 10 {
			return false, nil
		}
		v := binary.BigEndian.Uint64(b[2:])
		if v>>63 != 0 {
			return false, &Error{CloseProtocol, "a frame length has its top bit set"}
		}
		h.length, at = int64(v), 10
	default:
		h.length = int64(l)
	}
	if h.masked {
		if len(b) < at+4 {
			return false, nil
		}
		copy(h.mask[:], b[at:])
		at += 4
	}
	h.size = at
	return true, nil
}

// Append appends one whole, unmasked frame to b, as a server sends it.
func Append(b []byte, op Opcode, payload []byte) []byte {
	return append(appendHeader(b, op, len(payload), 0), payload...)
}

// AppendMasked appends one whole, masked frame to b, as a client sends it.
func AppendMasked(b []byte, op Opcode, payload []byte) []byte {
	b = appendHeader(b, op, len(payload), 0x80)
	var key [4]byte
	binary.LittleEndian.PutUint32(key[:], rand.Uint32())
	b = append(b, key[:]...)
	at := len(b)
	b = append(b, payload...)
	applyMask(b[at:], key)
	return b
}

func appendHeader(b []byte, op Opcode, n int, mask byte) []byte {
	b = append(b, 0x80|byte(op))
	switch {
	case n <= maxControl:
		return append(b, mask|byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
}

// ClosePayload is the payload of a Close frame: the code, and as much of the
// reason as a control frame holds, cut between characters. Code 1005 gives an
// empty payload.
func ClosePayload(code int, reason string) []byte {
	if code == CloseNoStatus {
		return nil
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxControl-2)], "")
	return append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
}

// CloseCode reads the code of a Close frame: 1005 when it has none, and 1002
// when it is cut short or none that may be sent (RFC 6455 section 7.4), so that
// it can be sent back as it is.
func CloseCode(payload []byte) int {
	if len(payload) == 0 {
		return CloseNoStatus
	}
	if len(payload) < 2 {
		return CloseProtocol
	}
	switch code := int(binary.BigEndian.Uint16(payload)); {
	case code >= 1000 && code <= 1003, code >= 1007 && code <= 1014, code >= 3000 && code <= 4999:
		return code
	}
	return CloseProtocol
}

// applyMask masks or unmasks b in place; key applies from b[0] on.
func applyMask(b []byte, key [4]byte) {
	k32 := binary.LittleEndian.Uint32(key[:])
	k64 := uint64(k32)<<32 | uint64(k32)
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^k64)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= key[i&3]
	}
}
