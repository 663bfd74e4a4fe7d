package ship

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// BlocksRequest is a get_blocks_request, v0 or v1.
type BlocksRequest struct {
	// V1 is the version: v1 requests carry FetchFinality and get v1 results.
	V1    bool
	Start uint32
	// End is exclusive.
	End uint32
	// MaxInFlight is the credit that the request brings.
	MaxInFlight  uint32
	Have         []Pos
	Irreversible bool
	FetchBlock   bool
	FetchTraces  bool
	FetchDeltas  bool
	// FetchFinality is always false in a v0 request.
	FetchFinality bool
}

// Request is one decoded client message.
type Request struct {
	// Variant is the index of the message. Above StatusRequestV1 it is unknown
	// and nothing else of the request is set.
	Variant uint32
	// Ack is the credit of an AckRequestV0.
	Ack uint32
	// Blocks is set for the two get_blocks variants.
	Blocks BlocksRequest
}

// Known reports whether the variant is one of this protocol version.
func (r *Request) Known() bool { return r.Variant <= StatusRequestV1 }

var (
	errTruncated = errors.New("message ends too early")
	errBool      = errors.New("bool is neither 0 nor 1")
	errVaruint   = errors.New("varuint does not fit")
)

// DecodeRequest decodes one client message into r: strictly for what it
// contains, leniently for what follows (W3). The positions are copied, so msg
// may be reused. An unknown variant is no error.
func DecodeRequest(msg []byte, r *Request) error {
	*r = Request{}
	d := decoder{b: msg}
	r.Variant = d.varuint32()
	if d.err != nil {
		return d.err
	}
	switch r.Variant {
	case AckRequestV0:
		r.Ack = d.u32()
	case BlocksRequestV0, BlocksRequestV1:
		q := &r.Blocks
		q.V1 = r.Variant == BlocksRequestV1
		q.Start, q.End, q.MaxInFlight = d.u32(), d.u32(), d.u32()
		q.Have = d.positions()
		q.Irreversible, q.FetchBlock, q.FetchTraces, q.FetchDeltas = d.bool(), d.bool(), d.bool(), d.bool()
		if q.V1 {
			q.FetchFinality = d.bool()
		}
	}
	return d.err
}

// AppendRequest appends the wire form of q to b.
func AppendRequest(b []byte, q *BlocksRequest) []byte {
	if q.V1 {
		b = append(b, BlocksRequestV1)
	} else {
		b = append(b, BlocksRequestV0)
	}
	b = binary.LittleEndian.AppendUint32(b, q.Start)
	b = binary.LittleEndian.AppendUint32(b, q.End)
	b = binary.LittleEndian.AppendUint32(b, q.MaxInFlight)
	b = binary.AppendUvarint(b, uint64(len(q.Have)))
	for i := range q.Have {
		b = appendPos(b, q.Have[i])
	}
	b = append(b, boolByte(q.Irreversible), boolByte(q.FetchBlock), boolByte(q.FetchTraces), boolByte(q.FetchDeltas))
	if q.V1 {
		b = append(b, boolByte(q.FetchFinality))
	}
	return b
}

// AppendAck appends a get_blocks_ack_request_v0 of n to b.
func AppendAck(b []byte, n uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, AckRequestV0), n)
}

// AppendStatusRequest appends a get_status_request to b.
func AppendStatusRequest(b []byte, v1 bool) []byte {
	if v1 {
		return append(b, StatusRequestV1)
	}
	return append(b, StatusRequestV0)
}

func appendPos(b []byte, p Pos) []byte {
	return append(binary.LittleEndian.AppendUint32(b, p.Num), p.ID[:]...)
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// decoder reads a message front to back and keeps its first error; after an
// error every read returns zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || len(d.b) < n {
		if d.err == nil {
			d.err = errTruncated
		}
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.byte()
	if b > 1 {
		d.err = errBool
	}
	return b == 1
}

func (d *decoder) id() (id ID) {
	copy(id[:], d.take(len(id)))
	return id
}

func (d *decoder) pos() Pos { return Pos{Num: d.u32(), ID: d.id()} }

// varuint reads at most size bytes, the last of which may be at most last (W2).
func (d *decoder) varuint(size int, last byte) uint64 {
	var v uint64
	for i := range size {
		b := d.take(1)
		if b == nil {
			return 0
		}
		if i == size-1 && b[0] > last {
			d.err = errVaruint
			return 0
		}
		v |= uint64(b[0]&0x7f) << (7 * i)
		if b[0] < 0x80 {
			return v
		}
	}
	d.err = errVaruint
	return 0
}

func (d *decoder) varuint32() uint32 { return uint32(d.varuint(5, 0x0f)) }
func (d *decoder) varuint64() uint64 { return d.varuint(10, 0x01) }

func (d *decoder) positions() []Pos {
	n := d.varuint32()
	if d.err != nil || n == 0 {
		return nil
	}
	if n > MaxPositions {
		d.err = fmt.Errorf("%d positions, at most %d are allowed", n, MaxPositions)
		return nil
	}
	if int(n) > len(d.b)/PosSize {
		d.err = errTruncated
		return nil
	}
	out := make([]Pos, n)
	for i := range out {
		out[i] = d.pos()
	}
	return out
}
