package ship

import (
	"bytes"
	"testing"
)

// wire is a message for ReadParts.
type wire []byte

func (w wire) Slice(at, n int) []byte { return w[min(at, len(w)):min(at+n, len(w))] }

func TestReadParts(t *testing.T) {
	long := bytes.Repeat([]byte{7}, 300)
	for _, c := range []struct {
		name string
		b    Block
		want Parts
	}{
		{"nothing", Block{}, Parts{}},
		{"all of v1", Block{BlockHeader: BlockHeader{V1: true, HasThis: true, HasPrev: true}, Block: long, Traces: long, Deltas: long, Finality: long}, Parts{true, true, true, true}},
		{"empty is present", Block{BlockHeader: BlockHeader{HasThis: true}, Traces: []byte{}}, Parts{Traces: true}},
		{"no finality in v0", Block{BlockHeader: BlockHeader{HasThis: true, HasPrev: true}, Deltas: long, Finality: long}, Parts{Deltas: true}},
		{"finality alone", Block{BlockHeader: BlockHeader{V1: true}, Finality: []byte{1}}, Parts{Finality: true}},
	} {
		msg := AppendBlock(nil, &c.b)
		got, ok := ReadParts(nil, wire(msg), len(msg), &c.b.BlockHeader)
		if !ok || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, ok, c.want)
		}
		// Whatever is cut off is noticed, down to the last byte.
		for n := range len(msg) {
			if _, ok := ReadParts(nil, wire(msg[:n]), n, &c.b.BlockHeader); ok {
				t.Errorf("%s: %d of %d bytes pass", c.name, n, len(msg))
			}
			if _, ok := ReadParts(msg[:n:n], nil, n, &c.b.BlockHeader); ok {
				t.Errorf("%s: %d of %d bytes pass in one piece", c.name, n, len(msg))
			}
		}
	}
}

// FuzzReadParts compares the stepping over with the whole decoding.
func FuzzReadParts(f *testing.F) {
	for _, b := range []Block{
		{}, {BlockHeader: BlockHeader{V1: true, HasThis: true}, Traces: []byte("traces"), Finality: []byte{}},
		{BlockHeader: BlockHeader{HasThis: true, HasPrev: true}, Block: []byte("block"), Deltas: make([]byte, 200)},
	} {
		f.Add(AppendBlock(nil, &b))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		var h BlockHeader
		if !DecodeBlockHeader(msg, &h) {
			return
		}
		got, ok := ReadParts(nil, wire(msg), len(msg), &h)
		if p, same := ReadParts(msg, nil, len(msg), &h); p != got || same != ok {
			t.Fatalf("in one piece %+v, %v; else %+v, %v", p, same, got, ok)
		}
		var b Block
		err := DecodeBlock(msg, &b)
		if ok != (err == nil) {
			t.Fatalf("ReadParts says %v, DecodeBlock %v", ok, err)
		}
		if want := (Parts{b.Block != nil, b.Traces != nil, b.Deltas != nil, b.Finality != nil}); ok && got != want {
			t.Fatalf("%+v, %+v was due", got, want)
		}
	})
}
