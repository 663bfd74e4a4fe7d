package statehistory

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"

	"flotilla/gateway/ship"
)

// A block log begins with
//
//	version u32 | number of the first block u32 | chain | ff ff ff ff ff ff ff ff
//
// where chain is the packed genesis state when the first block is 1, and the
// chain id otherwise. The chain id is the hash of that state. Each entry is a
// packed block.
const (
	blockLogVersion = 3
	prologueSize    = 4 + 4
	totemSize       = 8
	// maxGenesis is far above what a genesis state needs.
	maxGenesis = 64 << 10
	// atPrevious is where in a block the id of the block before is, behind
	// timestamp, producer and confirmed.
	atPrevious = 4 + 8 + 2
)

// BlockLog is one file of a block log: blocks.log, or a part that
// blocks-log-stride has cut off. Its methods may be called from any goroutine.
type BlockLog struct {
	indexed
	chain ship.ID
}

// OpenBlockLog opens the log at path, which ends in ".log", and the index
// beside it. A file without a byte is a log without blocks.
func OpenBlockLog(path string) (*BlockLog, error) {
	x, err := openIndexed(path)
	if err != nil {
		return nil, err
	}
	l, err := newBlockLog(x)
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return l, nil
}

func newBlockLog(x indexed) (*BlockLog, error) {
	l := &BlockLog{indexed: x}
	if l.log.Size() == 0 && l.index.Size() == 0 {
		return l, nil
	}
	var prologue [prologueSize]byte
	if err := l.read(l.log, prologue[:], 0); err != nil {
		return nil, err
	}
	if version := binary.LittleEndian.Uint32(prologue[:]); version != blockLogVersion {
		return nil, l.errorf("it is no block log of version %d: it begins with %#x", blockLogVersion, version)
	}
	l.base = binary.LittleEndian.Uint32(prologue[4:])
	if l.base == 0 {
		return nil, l.errorf("it says that its first block is 0")
	}
	l.end = l.log.Size()
	if err := l.setRange(math.MaxUint64); err != nil {
		return nil, err
	}
	return l, l.readChain()
}

// readChain reads what lies between the prologue and the first block.
func (l *BlockLog) readChain() error {
	first, err := l.offset(l.index, 0)
	if err != nil {
		return err
	}
	size := first - totemSize - prologueSize
	if size < 0 || size > maxGenesis || l.base > 1 && size != int64(len(l.chain)) {
		return l.errorf("its head of %d bytes before block %d cannot be right", first, l.base)
	}
	b := make([]byte, size+totemSize)
	if err := l.read(l.log, b, prologueSize); err != nil {
		return err
	}
	if binary.LittleEndian.Uint64(b[size:]) != math.MaxUint64 {
		return l.errorf("its head does not end before block %d, where the index has it", l.base)
	}
	if l.base == 1 {
		l.chain = sha256.Sum256(b[:size])
	} else {
		copy(l.chain[:], b)
	}
	return nil
}

// ChainID is the id of the chain.
func (l *BlockLog) ChainID() ship.ID { return l.chain }

// Block is block n, packed, and the id of the block before it, which is all
// zeros for block 1. The bytes belong to the caller; they are never nil.
func (l *BlockLog) Block(n uint32) (previous ship.ID, block []byte, err error) {
	begin, end, err := l.span(n)
	if err != nil {
		return previous, nil, err
	}
	if end-begin < atPrevious+int64(len(previous)) {
		return previous, nil, l.damaged(n, "it has %d bytes", end-begin)
	}
	block = make([]byte, end-begin)
	if err := l.read(l.log, block, begin); err != nil {
		return previous, nil, err
	}
	copy(previous[:], block[atPrevious:])
	if binary.BigEndian.Uint32(previous[:]) != n-1 {
		return previous, nil, l.damaged(n, "it follows the id %s", previous)
	}
	return previous, block, nil
}
