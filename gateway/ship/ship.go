// Package ship is the codec of the Antelope State History protocol: the
// messages inside the WebSocket frames, as spec "ship" section 1 lays them
// out. It holds no connection and no state.
//
// All integers on the wire are little endian; ranges are half open.
package ship

import (
	"encoding/hex"
	"fmt"
)

// Request variants, client to node (spec "ship" 1.1).
const (
	StatusRequestV0 = 0
	BlocksRequestV0 = 1
	AckRequestV0    = 2
	BlocksRequestV1 = 3
	StatusRequestV1 = 4
)

// Result variants, node to client (spec "ship" 1.2).
const (
	StatusResultV0 = 0
	BlocksResultV0 = 1
	BlocksResultV1 = 2
	StatusResultV1 = 3
)

// ID is a block or chain id.
type ID [32]byte

// String is the id in lower-case hex.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Pos is a block_position: a number and an id, 36 bytes on the wire.
type Pos struct {
	Num uint32
	ID  ID
}

// Set is *p = *q, field by field: on the way of a block, what was decoded just now
// is copied again at once, and a processor waits for a copy that takes the number
// and a part of the id in one piece.
func (p *Pos) Set(q *Pos) { p.Num, p.ID = q.Num, q.ID }

// Is is *p == *q, field by field for the same reason.
func (p *Pos) Is(q *Pos) bool { return p.Num == q.Num && p.ID == q.ID }

// PosSize is the length of a block_position on the wire, in bytes.
const PosSize = 36

// Range is a half-open block range; Begin == End is empty.
type Range struct{ Begin, End uint32 }

// String is the range as texts write it: [2,101).
func (r Range) String() string { return fmt.Sprintf("[%d,%d)", r.Begin, r.End) }

// Empty reports whether no block is in the range.
func (r Range) Empty() bool { return r.End <= r.Begin }

// Contains reports whether block n is in the range.
func (r Range) Contains(n uint32) bool { return n >= r.Begin && n < r.End }

// MaxPositions is the most have_positions that a request may carry (W3).
const MaxPositions = 1 << 20
