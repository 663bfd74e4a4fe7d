package ship

import (
	"encoding/binary"
	"errors"
)

// Lengths of status results, in bytes (spec "ship" 1.2).
const (
	statusV0Min  = 89  // without chain_id, as nodes of EOSIO 2.0 send it
	statusV0Size = 121 // with chain_id
	statusV1Size = 129
)

var errVariant = errors.New("another result variant")

// Status is a get_status_result.
type Status struct {
	V1         bool
	Head, LIB  Pos
	Trace      Range
	ChainState Range
	// HasChainID is false only in a v0 result of a node that omits it.
	HasChainID bool
	ChainID    ID
	// Finality is empty in a v0 result.
	Finality Range
}

// DecodeStatus decodes a status result; bytes that follow are ignored. A v0
// result may leave the chain_id out but not cut it short (M4).
func DecodeStatus(msg []byte, s *Status) error {
	*s = Status{}
	d := decoder{b: msg}
	switch variant := d.byte(); {
	case d.err != nil:
		return d.err
	case variant != StatusResultV0 && variant != StatusResultV1:
		return errVariant
	default:
		s.V1 = variant == StatusResultV1
	}
	s.Head, s.LIB = d.pos(), d.pos()
	s.Trace, s.ChainState = d.rng(), d.rng()
	if !s.V1 && d.err == nil && len(d.b) == 0 {
		return nil
	}
	s.ChainID, s.HasChainID = d.id(), true
	if s.V1 {
		s.Finality = d.rng()
	}
	return d.err
}

func (d *decoder) rng() Range { return Range{Begin: d.u32(), End: d.u32()} }

// AppendStatus appends the wire form of s to b. A v0 result without chain_id
// is 89 bytes long; a v1 result without one carries zeros (T4).
func AppendStatus(b []byte, s *Status) []byte {
	variant := byte(StatusResultV0)
	if s.V1 {
		variant = StatusResultV1
	}
	b = appendPos(appendPos(append(b, variant), s.Head), s.LIB)
	b = appendRange(appendRange(b, s.Trace), s.ChainState)
	if !s.V1 && !s.HasChainID {
		return b
	}
	b = append(b, s.ChainID[:]...)
	if s.V1 {
		b = appendRange(b, s.Finality)
	}
	return b
}

func appendRange(b []byte, r Range) []byte {
	b = binary.LittleEndian.AppendUint32(b, r.Begin)
	return binary.LittleEndian.AppendUint32(b, r.End)
}
