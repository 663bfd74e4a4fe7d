package statehistory

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flotilla/gateway/ship"
)

// file is a log and its index, made up for a test.
type file struct{ log, index []byte }

// id is a block id that says its number and nothing else.
func id(n uint32) (id ship.ID) {
	binary.BigEndian.PutUint32(id[:], n)
	return id
}

// put appends one entry and the offset behind it.
func (f *file) put(entry ...[]byte) {
	at := uint64(len(f.log))
	f.index = binary.LittleEndian.AppendUint64(f.index, at)
	f.log = binary.LittleEndian.AppendUint64(append(f.log, bytes.Join(entry, nil)...), at)
}

// makeLog is a state-history log of these data from block first on.
func makeLog(first uint32, data ...[]byte) file {
	var f file
	for i, d := range data {
		payload := makePayload(d)
		id := id(first + uint32(i))
		f.put(word(shipName), id[:], word(uint64(len(payload))), payload)
	}
	return f
}

func makePayload(data []byte) []byte {
	b := bytes.NewBuffer(append([]byte{1, 0, 0, 0}, word(uint64(len(data)))...))
	z := zlib.NewWriter(b)
	if _, err := z.Write(data); err != nil {
		panic(err) // it goes to memory
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// prune makes a log that has only its last blocks, as nodeos does it: all stays
// where it was, but most of it is a hole.
func (f file) prune(keep uint32) file {
	if n := len(f.index)/offsetSize - int(keep); n > 0 {
		clear(f.log[headerSize:binary.LittleEndian.Uint64(f.index[n*offsetSize:])])
	}
	f.log[2] |= featurePruned
	f.log = binary.LittleEndian.AppendUint32(f.log, keep)
	return f
}

// makeBlockLog is a block log of these bodies from block first on. Head is the
// genesis state or the chain id.
func makeBlockLog(first uint32, head []byte, bodies ...string) file {
	var f file
	f.log = append(f.log, blockLogVersion, 0, 0, 0)
	f.log = append(binary.LittleEndian.AppendUint32(f.log, first), head...)
	f.log = append(f.log, word(math.MaxUint64)...)
	for i, body := range bodies {
		previous := id(first + uint32(i) - 1)
		f.put(make([]byte, atPrevious), previous[:], []byte(body))
	}
	return f
}

func word(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// indexed is the file as if it had been opened.
func (f file) indexed() indexed {
	section := func(b []byte) *io.SectionReader { return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))) }
	return indexed{name: "test.log", log: section(f.log), index: section(f.index)}
}

// write puts the file into a folder.
func (f file) write(t testing.TB, dir, name string) {
	t.Helper()
	for path, b := range map[string][]byte{name: f.log, strings.TrimSuffix(name, ".log") + ".index": f.index} {
		if err := os.WriteFile(filepath.Join(dir, path), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func texts(s ...string) (out [][]byte) {
	for _, one := range s {
		out = append(out, []byte(one))
	}
	return out
}

// complains fails the test unless err has these words, or is nil when there are
// none.
func complains(t testing.TB, err error, words string) {
	t.Helper()
	switch {
	case words == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case words != "" && (err == nil || !strings.Contains(err.Error(), words)):
		t.Errorf("error %v, want one with %q", err, words)
	}
}
