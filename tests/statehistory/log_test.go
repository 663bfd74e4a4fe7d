package statehistory

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"flotilla/gateway/ship"
)

// readAll reads all blocks of a log.
func readAll(l *Log) (data [][]byte, err error) {
	for n := l.Range().Begin; n < l.Range().End; n++ {
		_, d, err := l.Data(n)
		if err != nil {
			return data, err
		}
		data = append(data, d)
	}
	return data, nil
}

func TestLogReadsWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint32Range(1, 1<<31).Draw(t, "first")
		data := rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 1, 8).Draw(t, "data")
		f := makeLog(first, data...)
		if keep := rapid.IntRange(0, len(data)).Draw(t, "keep"); keep > 0 {
			f = f.prune(uint32(keep))
			first += uint32(len(data) - keep)
			data = data[len(data)-keep:]
		}
		l, err := newLog(f.indexed())
		if err != nil {
			t.Fatal(err)
		}
		if want := (ship.Range{Begin: first, End: first + uint32(len(data))}); l.Range() != want {
			t.Fatalf("range %v, want %v", l.Range(), want)
		}
		for i, want := range data {
			n := first + uint32(i)
			got, d, err := l.Data(n)
			if err != nil {
				t.Fatal(err)
			}
			if got != id(n) || !bytes.Equal(d, want) || d == nil {
				t.Fatalf("block %d: id %s, data %x, want %x", n, got, d, want)
			}
		}
	})
}

// Damage of any kind is told when the log is opened or when the block is read,
// and leaves the other blocks alone.
func TestLogErrors(t *testing.T) {
	const first = 7
	entry := func(f *file, n uint32) []byte {
		return f.log[binary.LittleEndian.Uint64(f.index[(n-first)*offsetSize:]):]
	}
	tests := []struct {
		name   string
		change func(f *file)
		open   string // the complaint of newLog; empty when it opens
		read   string // the complaint about block 8; empty when it can be read
	}{
		{"nothing", func(*file) {}, "", ""},
		{"no entry", func(f *file) { f.log, f.index = nil, nil }, "", "it holds [0,0)"},
		{"cut in a header", func(f *file) { f.log = f.log[:20] }, "cut off", ""},
		{"cut in the last entry", func(f *file) { f.log = f.log[:len(f.log)-9] }, "damaged", ""},
		{"a byte more", func(f *file) { f.log = append(f.log, 0) }, "damaged", ""},
		{"no index", func(f *file) { f.index = nil }, "stopped", ""},
		{"half an offset", func(f *file) { f.index = f.index[:12] }, "stopped", ""},
		{"an index that is ahead", func(f *file) { f.index = append(f.index, word(uint64(len(f.log)))...) }, "damaged", ""},
		{"an index that is behind", func(f *file) { f.index = f.index[:2*offsetSize] }, "damaged", ""},
		{"a foreign file", func(f *file) { copy(f.log, "PK\x03\x04 no log") }, "no state-history log", ""},
		{"another version", func(f *file) { f.log[0] = 1 }, "version 1", ""},
		{"an unknown feature", func(f *file) { f.log[2] = 2 }, "features 0x2", ""},
		{"pruned to nothing", func(f *file) { f.log[2] = featurePruned; f.log = append(f.log, 0, 0, 0, 0) }, "no block at all", ""},
		{"blocks beyond the last number", func(f *file) { binary.BigEndian.PutUint32(f.log[8:], 1<<32-2) }, "more than a chain can have", ""},
		{"an offset beyond the end", func(f *file) { f.index[offsetSize+6] = 1 }, "", "the index says"},
		{"an offset that is not that of an entry", func(f *file) { f.index[offsetSize]++ }, "", "the log says"},
		{"the entry of another block", func(f *file) { copy(f.index[offsetSize:], f.index[:offsetSize]) }, "", "damaged"},
		{"an entry without magic", func(f *file) { entry(f, 8)[7] = 0 }, "", "it begins with"},
		{"another block's id", func(f *file) { entry(f, 8)[8+3]++ }, "", "it has the id 00000009"},
		{"a payload of another length", func(f *file) { entry(f, 8)[40]++ }, "", "its payload has"},
		{"a payload of before Leap 4", func(f *file) { entry(f, 8)[headerSize] = 0 }, "", "it is not from Leap 4"},
		{"no zlib", func(f *file) { entry(f, 8)[headerSize+prefixSize] = 0 }, "", "zlib: invalid header"},
		{"a changed byte", func(f *file) { entry(f, 8)[headerSize+prefixSize+4] ^= 0x10 }, "", "the entry of block 8 is damaged"},
		{"less data than told", func(f *file) { entry(f, 8)[headerSize+4]++ }, "", "bytes or more, not 8"},
		{"more data than told", func(f *file) { entry(f, 8)[headerSize+4]-- }, "", "bytes or more, not 6"},
		{"much less data than told", func(f *file) { copy(entry(f, 8)[headerSize+4:], word(1<<63)) }, "", "bytes or more, not 9223372036854775808"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := makeLog(first, texts("block 7", "block 8", "block 9")...)
			tt.change(&f)
			l, err := newLog(f.indexed())
			complains(t, err, tt.open)
			if err != nil {
				return
			}
			_, _, err = l.Data(8)
			complains(t, err, tt.read)
			if l.Range().Empty() {
				return
			}
			if _, d, err := l.Data(9); err != nil || string(d) != "block 9" {
				t.Errorf("the block behind: %q, %v", d, err)
			}
		})
	}
}

func TestLogKnowsWhereItEnds(t *testing.T) {
	l, err := newLog(makeLog(7, texts("block 7", "block 8", "block 9")...).prune(2).indexed())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint32{0, 6, 7, 10} {
		_, err := l.ID(n)
		complains(t, err, "it holds [8,10)")
	}
}

func TestBlockLogErrors(t *testing.T) {
	const first = 7
	chain := bytes.Repeat([]byte{0xc1}, 32)
	entry := func(f *file, n uint32) []byte {
		return f.log[binary.LittleEndian.Uint64(f.index[(n-first)*offsetSize:]):]
	}
	tests := []struct {
		name       string
		change     func(f *file)
		open, read string
	}{
		{"nothing", func(*file) {}, "", ""},
		{"no entry", func(f *file) { f.log, f.index = nil, nil }, "", "it holds [0,0)"},
		{"cut in the prologue", func(f *file) { f.log = f.log[:7] }, "cut off", ""},
		{"another version", func(f *file) { f.log[0]++ }, "version 3", ""},
		{"from block 0", func(f *file) { f.log[4] = 0 }, "first block is 0", ""},
		{"a genesis state in place of the id", func(f *file) { *f = makeBlockLog(first, bytes.Repeat(chain, 2), "7", "8", "9") }, "cannot be right", ""},
		{"a first offset in the prologue", func(f *file) { *f = makeBlockLog(1, nil, "7"); f.index[0]--; f.log[len(f.log)-offsetSize]-- }, "cannot be right", ""},
		{"no end of the head", func(f *file) { f.log[prologueSize+32] = 0 }, "does not end before", ""},
		{"another block's parent", func(f *file) { entry(f, 8)[atPrevious+3]++ }, "", "it follows the id 00000008"},
		{"an offset that is not that of an entry", func(f *file) { f.index[offsetSize]++ }, "", "the log says"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := makeBlockLog(first, chain, "7", "8", "9")
			tt.change(&f)
			l, err := newBlockLog(f.indexed())
			complains(t, err, tt.open)
			if err != nil {
				return
			}
			_, _, err = l.Block(8)
			complains(t, err, tt.read)
		})
	}
	t.Run("an entry without a header", func(t *testing.T) {
		f := makeBlockLog(first, chain)
		f.put([]byte("short"))
		l, err := newBlockLog(f.indexed())
		complains(t, err, "")
		_, _, err = l.Block(first)
		complains(t, err, "it has 5 bytes")
	})
}

// Whatever is in a file, it is refused or read, and read in the same way twice.
func FuzzLog(f *testing.F) {
	for _, l := range []file{
		makeLog(7, texts("block 7", "block 8", "")...),
		makeLog(7, texts("block 7", "block 8")...).prune(1),
		makeBlockLog(7, bytes.Repeat([]byte{0xc1}, 32), "7", "8"),
		makeBlockLog(1, []byte("genesis"), "1", "2"),
		{},
	} {
		f.Add(l.log, l.index)
	}
	f.Fuzz(func(t *testing.T, log, index []byte) {
		if l, err := newLog(file{log, index}.indexed()); err == nil {
			if r := l.Range(); r.End < r.Begin || int(r.End-r.Begin) > len(index)/offsetSize {
				t.Fatalf("range %v of %d bytes of index", r, len(index))
			}
			one, err1 := readAll(l)
			two, err2 := readAll(l)
			if len(one) != len(two) || (err1 == nil) != (err2 == nil) {
				t.Fatalf("%d blocks, %v, and then %d, %v", len(one), err1, len(two), err2)
			}
		}
		if l, err := newBlockLog(file{log, index}.indexed()); err == nil {
			for n := l.Range().Begin; n < l.Range().End; n++ {
				previous, block, err := l.Block(n)
				if err == nil && (len(block) > len(log) || binary.BigEndian.Uint32(previous[:]) != n-1) {
					t.Fatalf("block %d follows %s and has %d bytes", n, previous, len(block))
				}
			}
		}
	})
}
