package ship

import "encoding/binary"

// Offsets into a result message, the same in all four result variants (spec
// "ship" 1.2); offset 0 is the variant index.
const (
	offHead = 1
	offLIB  = offHead + PosSize // 37
	offThis = offLIB + PosSize  // 73: the presence of this_block, or the ranges of a status
	// HeaderSize is how many bytes of a block result the gateway ever reads:
	// everything through prev_block when all of it is there.
	HeaderSize = offThis + 1 + PosSize + 1 + PosSize // 147
	// PatchSize is how many leading bytes SetHead and SetLIB may change.
	PatchSize = offThis
)

// BlockHeader is the part of a block result that the gateway looks at; the
// payload behind it is opaque (W5).
type BlockHeader struct {
	// V1 is the version of the result.
	V1        bool
	Head, LIB Pos
	// HasThis is false for id-less results and head keep-alives.
	HasThis bool
	This    Pos
	HasPrev bool
	Prev    Pos
}

// IsStatus reports whether an upstream message counts as a status (W4). size is
// the length of the whole message and first its first byte.
func IsStatus(first byte, size int) bool {
	return first == StatusResultV0 && size >= statusV0Min || first == StatusResultV1 && size >= statusV1Size
}

// DecodeBlockHeader reads the header of a block result from the first bytes of
// the message: as many as there are, at most HeaderSize are needed. It returns
// false for anything that is no block result (W4). It does not allocate.
func DecodeBlockHeader(b []byte, h *BlockHeader) bool {
	// 75 bytes hold both presence bytes when neither block is there.
	if len(b) < offThis+2 || b[0] != BlocksResultV0 && b[0] != BlocksResultV1 {
		return false
	}
	h.V1 = b[0] == BlocksResultV1
	getPos(b[offHead:], &h.Head)
	getPos(b[offLIB:], &h.LIB)
	at := offThis
	var ok bool
	if at, h.HasThis, ok = optionalPos(b, at, &h.This); !ok {
		return false
	}
	_, h.HasPrev, ok = optionalPos(b, at, &h.Prev)
	return ok
}

func optionalPos(b []byte, at int, p *Pos) (next int, present, ok bool) {
	if at >= len(b) || b[at] > 1 {
		return at, false, false
	}
	if b[at] == 0 {
		return at + 1, false, true
	}
	if len(b) < at+1+PosSize {
		return at, false, false
	}
	getPos(b[at+1:], p)
	return at + 1 + PosSize, true, true
}

func getPos(b []byte, p *Pos) {
	p.Num = binary.LittleEndian.Uint32(b)
	p.ID = ID(b[4:PosSize])
}

func putPos(b []byte, p *Pos) {
	binary.LittleEndian.PutUint32(b, p.Num)
	copy(b[4:PosSize], p.ID[:])
}

// SetTip overwrites head and LIB in the first PatchSize bytes of a result.
func SetTip(b []byte, head, lib *Pos) {
	putPos(b[offHead:], head)
	putPos(b[offLIB:], lib)
}

// InsertPrev is a block result that has this_block and no prev_block, with prev
// put in. b stays as it is.
func InsertPrev(b []byte, prev *Pos) []byte {
	at := offThis + 1 + PosSize
	out := make([]byte, 0, len(b)+PosSize)
	out = append(out, b[:at]...)
	out = appendOptionalPos(out, true, *prev)
	return append(out, b[at+1:]...)
}

// Block is a whole block result, for whoever makes or checks one (the
// simulator, tests). The gateway itself never builds it.
type Block struct {
	BlockHeader
	// Payload fields; nil is absent, empty is present with length 0 (W1).
	Block, Traces, Deltas, Finality []byte
}

// AppendBlock appends the wire form of r to b. Finality is written for V1 only.
func AppendBlock(b []byte, r *Block) []byte {
	variant := byte(BlocksResultV0)
	if r.V1 {
		variant = BlocksResultV1
	}
	b = append(b, variant)
	b = appendPos(appendPos(b, r.Head), r.LIB)
	b = appendOptionalPos(b, r.HasThis, r.This)
	b = appendOptionalPos(b, r.HasPrev, r.Prev)
	b = appendOptionalBytes(b, r.Block)
	b = appendOptionalBytes(b, r.Traces)
	b = appendOptionalBytes(b, r.Deltas)
	if r.V1 {
		b = appendOptionalBytes(b, r.Finality)
	}
	return b
}

func appendOptionalPos(b []byte, present bool, p Pos) []byte {
	if !present {
		return append(b, 0)
	}
	return appendPos(append(b, 1), p)
}

func appendOptionalBytes(b, v []byte) []byte {
	if v == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(append(b, 1), uint64(len(v))), v...)
}

// DecodeBlock decodes a whole block result. The payload fields alias msg.
// Bytes after the last field are ignored (W1).
func DecodeBlock(msg []byte, r *Block) error {
	*r = Block{}
	d := decoder{b: msg}
	switch variant := d.byte(); {
	case d.err != nil:
		return d.err
	case variant != BlocksResultV0 && variant != BlocksResultV1:
		return errVariant
	default:
		r.V1 = variant == BlocksResultV1
	}
	r.Head, r.LIB = d.pos(), d.pos()
	if r.HasThis = d.bool(); r.HasThis {
		r.This = d.pos()
	}
	if r.HasPrev = d.bool(); r.HasPrev {
		r.Prev = d.pos()
	}
	r.Block = d.optionalBytes(func() uint64 { return uint64(d.varuint32()) })
	r.Traces = d.optionalBytes(d.varuint64)
	r.Deltas = d.optionalBytes(d.varuint64)
	if r.V1 {
		r.Finality = d.optionalBytes(d.varuint64)
	}
	return d.err
}

func (d *decoder) optionalBytes(length func() uint64) []byte {
	if !d.bool() {
		return nil
	}
	n := length()
	if d.err != nil {
		return nil
	}
	if n > uint64(len(d.b)) {
		d.err = errTruncated
		return nil
	}
	return d.take(int(n))
}
