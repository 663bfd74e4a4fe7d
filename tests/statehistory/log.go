package statehistory

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"flotilla/gateway/ship"
)

// An entry of a state-history log is a header and a payload:
//
//	magic u64 | block id, 32 bytes | length of the payload u64
//	1 u32 | length of the data u64 | the data, compressed with zlib
//
// Only the header counts as written in this order; all numbers are little
// endian. The magic is the name "ship" with the version in its lowest 16 bits
// and features in the next 16.
const (
	headerSize = 8 + 32 + 8
	prefixSize = 4 + 8
	// shipName is "ship" in the chain's own encoding of names.
	shipName      = 0xc35d_5000_0000_0000
	featurePruned = 1
	// prunedTailSize is the length of the number of blocks that a pruned log ends with.
	prunedTailSize = 4
)

// Log is one file of a state-history log: trace_history.log,
// chain_state_history.log or finality_data_history.log, or a part that
// state-history-stride has cut off. Its methods may be called from any goroutine.
type Log struct{ indexed }

// OpenLog opens the log at path, which ends in ".log", and the index beside it.
// A file without a byte, as nodeos makes it before its first block, is a log
// without blocks.
func OpenLog(path string) (*Log, error) {
	x, err := openIndexed(path)
	if err != nil {
		return nil, err
	}
	l, err := newLog(x)
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return l, nil
}

func newLog(x indexed) (*Log, error) {
	l := &Log{x}
	if l.log.Size() == 0 && l.index.Size() == 0 {
		return l, nil
	}
	// The first header stays in a pruned log, though its payload does not.
	var h [headerSize]byte
	if err := l.read(l.log, h[:], 0); err != nil {
		return nil, err
	}
	magic := binary.LittleEndian.Uint64(h[:])
	version, features := uint16(magic), uint16(magic>>16)
	switch {
	case magic&^0xffff_ffff != shipName:
		return nil, l.errorf("it is no state-history log: it begins with %#x", magic)
	case version != 0:
		return nil, l.errorf("it has version %d; only version 0 is known", version)
	case features&^featurePruned != 0:
		return nil, l.errorf("it has features %#x; only pruning, %#x, is known", features, featurePruned)
	}
	l.base = binary.BigEndian.Uint32(h[8:])
	l.end = l.log.Size()
	kept := uint64(math.MaxUint64)
	if features&featurePruned != 0 {
		var tail [prunedTailSize]byte
		l.end -= prunedTailSize
		if err := l.read(l.log, tail[:], l.end); err != nil {
			return nil, err
		}
		kept = uint64(binary.LittleEndian.Uint32(tail[:]))
	}
	if err := l.setRange(kept); err != nil {
		return nil, err
	}
	return l, nil
}

// ID is the id of block n.
func (l *Log) ID(n uint32) (ship.ID, error) {
	id, _, _, err := l.entry(n)
	return id, err
}

// Data is the data of block n, as nodeos sends it in a result, and the block's
// id. The bytes belong to the caller; they are never nil.
func (l *Log) Data(n uint32) (ship.ID, []byte, error) {
	id, at, size, err := l.entry(n)
	if err != nil {
		return id, nil, err
	}
	var prefix [prefixSize]byte
	if size < prefixSize {
		return id, nil, l.damaged(n, "its payload has %d bytes", size)
	}
	if err := l.read(l.log, prefix[:], at); err != nil {
		return id, nil, err
	}
	if kind := binary.LittleEndian.Uint32(prefix[:]); kind != 1 {
		return id, nil, l.damaged(n, "its payload begins with %d in place of 1: it is not from Leap 4 or newer", kind)
	}
	want := binary.LittleEndian.Uint64(prefix[4:])
	data, err := inflate(io.NewSectionReader(l.log, at+prefixSize, size-prefixSize), want)
	if err != nil {
		return id, nil, l.damaged(n, "%w", err)
	}
	if uint64(len(data)) != want {
		return id, nil, l.damaged(n, "its data has %d bytes or more, not %d", len(data), want)
	}
	return id, data, nil
}

// inflate decompresses up to a byte more than it is told to expect.
func inflate(r io.Reader, size uint64) ([]byte, error) {
	z, err := zlib.NewReader(r)
	if err != nil {
		return nil, err
	}
	// The size is not believed before the data is there.
	out := bytes.NewBuffer(make([]byte, 0, min(size, 1<<20)+bytes.MinRead))
	if _, err := io.Copy(out, io.LimitReader(z, int64(min(size, math.MaxInt64-1))+1)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// entry reads the header of block n and finds its payload.
func (l *Log) entry(n uint32) (id ship.ID, payload, size int64, err error) {
	begin, end, err := l.span(n)
	if err != nil {
		return id, 0, 0, err
	}
	if end-begin < headerSize {
		return id, 0, 0, l.damaged(n, "it has %d bytes", end-begin)
	}
	var h [headerSize]byte
	if err := l.read(l.log, h[:], begin); err != nil {
		return id, 0, 0, err
	}
	copy(id[:], h[8:])
	payload, size = begin+headerSize, end-begin-headerSize
	switch told := binary.LittleEndian.Uint64(h[40:]); {
	case binary.LittleEndian.Uint64(h[:])&^0xffff_ffff != shipName:
		return id, 0, 0, l.damaged(n, "it begins with %#x", h[:8])
	case binary.BigEndian.Uint32(id[:]) != n:
		return id, 0, 0, l.damaged(n, "it has the id %s", id)
	case told != uint64(size):
		return id, 0, 0, l.damaged(n, "it says that its payload has %d bytes, but has room for %d", told, size)
	}
	return id, payload, size, nil
}
