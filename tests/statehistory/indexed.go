package statehistory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"flotilla/gateway/ship"
)

// indexed is a log beside its index: entries one behind the other, each of them
// followed by its own offset, and 8 bytes a block in the index that say where
// the entry of that block begins. All numbers are little endian.
type indexed struct {
	name       string
	log, index *io.SectionReader
	// blocks are those whose entries are there. base is the block of the first
	// offset in the index; it is lower in a pruned log.
	blocks ship.Range
	base   uint32
	// end is the offset behind the last entry.
	end int64
	// close is nil when nothing has to be closed.
	close func() error
}

// offsetSize is the length of an offset, in the index and behind an entry.
const offsetSize = 8

// openIndexed opens path, which ends in ".log", and the index beside it.
func openIndexed(path string) (x indexed, err error) {
	log, logSize, err := openSized(path)
	if err != nil {
		return x, err
	}
	index, indexSize, err := openSized(strings.TrimSuffix(path, ".log") + ".index")
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: nodeos writes one beside each log; copy both, while it is stopped", err)
	}
	if err != nil {
		return x, errors.Join(err, log.Close())
	}
	return indexed{
		name:  path,
		log:   io.NewSectionReader(log, 0, logSize),
		index: io.NewSectionReader(index, 0, indexSize),
		close: func() error { return errors.Join(log.Close(), index.Close()) },
	}, nil
}

func openSized(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Name is the path of the log.
func (x *indexed) Name() string { return x.name }

// Range is the blocks of the log.
func (x *indexed) Range() ship.Range { return x.blocks }

// Close closes the files.
func (x *indexed) Close() error {
	if x.close == nil {
		return nil
	}
	return x.close()
}

// setRange derives the blocks from base and the size of the index, and makes
// sure that index and log end with the same entry. kept is how many blocks a
// pruned log still holds, and any larger number for other logs.
func (x *indexed) setRange(kept uint64) error {
	size := x.index.Size()
	if size == 0 || size%offsetSize != 0 {
		return x.errorf("its index has %d bytes, which is no number of offsets: copy log and index while nodeos is stopped", size)
	}
	count := uint64(size / offsetSize)
	if uint64(x.base)+count > 1<<32-1 {
		return x.errorf("its index has offsets of %d blocks from block %d on, which is more than a chain can have", count, x.base)
	}
	end := x.base + uint32(count)
	if kept == 0 {
		return x.errorf("it is pruned to no block at all")
	}
	x.blocks = ship.Range{Begin: end - uint32(min(kept, count)), End: end}
	_, _, err := x.span(end - 1)
	return err
}

// span is where the entry of block n begins and ends, without the offset behind
// it.
func (x *indexed) span(n uint32) (begin, end int64, err error) {
	if !x.blocks.Contains(n) {
		return 0, 0, x.errorf("block %d is not in it: it holds [%d,%d)", n, x.blocks.Begin, x.blocks.End)
	}
	if begin, err = x.offset(x.index, int64(n-x.base)*offsetSize); err != nil {
		return 0, 0, err
	}
	behind := x.end
	if n+1 < x.blocks.End {
		if behind, err = x.offset(x.index, int64(n+1-x.base)*offsetSize); err != nil {
			return 0, 0, err
		}
	}
	end = behind - offsetSize
	if begin < 0 || end < begin || behind > x.end {
		return 0, 0, x.damaged(n, "the index says that it is at [%d,%d) of %d bytes", begin, behind, x.end)
	}
	own, err := x.offset(x.log, end)
	if err != nil {
		return 0, 0, err
	}
	if own != begin {
		return 0, 0, x.damaged(n, "the index says that it begins at %d, the log says %d", begin, own)
	}
	return begin, end, nil
}

// offset reads the offset that stands at some place of log or index.
func (x *indexed) offset(in *io.SectionReader, at int64) (int64, error) {
	var b [offsetSize]byte
	if err := x.read(in, b[:], at); err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(b[:])), nil
}

// read fills b from offset at on.
func (x *indexed) read(in *io.SectionReader, b []byte, at int64) error {
	if at < 0 || at+int64(len(b)) > in.Size() {
		return x.errorf("it is cut off: %d bytes at offset %d are missing", len(b), at)
	}
	if _, err := in.ReadAt(b, at); err != nil {
		return x.errorf("%w", err)
	}
	return nil
}

func (x *indexed) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", x.name, fmt.Errorf(format, args...))
}

// damaged is the error about one entry.
func (x *indexed) damaged(n uint32, format string, args ...any) error {
	return x.errorf("the entry of block %d is damaged: %w", n, fmt.Errorf(format, args...))
}
