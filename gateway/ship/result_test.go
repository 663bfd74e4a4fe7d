package ship

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func testBlock() Block {
	return Block{
		BlockHeader: BlockHeader{
			Head: Pos{0x01020304, testID(0xa1)}, LIB: Pos{5, testID(0xa2)},
			HasThis: true, This: Pos{6, testID(0xa3)}, HasPrev: true, Prev: Pos{7, testID(0xa4)},
		},
		Block: []byte("block"), Traces: []byte{}, Deltas: bytes.Repeat([]byte{9}, 200),
	}
}

func TestAppendBlockBytes(t *testing.T) {
	r := testBlock()
	head := join(t, "04030201", testID(0xa1), "05000000", testID(0xa2))
	positions := join(t, "01 06000000", testID(0xa3), "01 07000000", testID(0xa4))
	payload := join(t, "01 05", []byte("block"), "01 00", "01 c801", r.Deltas)
	if got, want := AppendBlock(nil, &r), join(t, "01", head, positions, payload); !bytes.Equal(got, want) {
		t.Errorf("v0: got %x, want %x", got, want)
	}
	r.Finality = []byte("f")
	if got, want := AppendBlock(nil, &r), join(t, "01", head, positions, payload); !bytes.Equal(got, want) {
		t.Errorf("v0 has no finality data: got %x, want %x", got, want)
	}
	r.V1 = true
	if got, want := AppendBlock(nil, &r), join(t, "02", head, positions, payload, "01 01", []byte("f")); !bytes.Equal(got, want) {
		t.Errorf("v1: got %x, want %x", got, want)
	}
	if n := len(AppendBlock(nil, &Block{})); n != 78 {
		t.Errorf("the shortest v0 result has %d bytes, want 78", n)
	}
	if n := len(AppendBlock(nil, &Block{BlockHeader: BlockHeader{V1: true}})); n != 79 {
		t.Errorf("the shortest v1 result has %d bytes, want 79", n)
	}
}

func TestDecodeBlockHeader(t *testing.T) {
	whole := testBlock()
	noPrev, neither, onlyPrev := whole, whole, whole
	noPrev.HasPrev, noPrev.Prev = false, Pos{}
	neither.HasThis, neither.HasPrev, neither.This, neither.Prev = false, false, Pos{}, Pos{}
	onlyPrev.HasThis, onlyPrev.This = false, Pos{}
	for _, c := range []struct {
		name string
		b    Block
		need int // the first bytes that are enough
	}{
		{"both", whole, HeaderSize},
		{"no previous block", noPrev, 111},
		{"neither", neither, 75},
		{"only a previous block", onlyPrev, 111},
	} {
		for _, v1 := range []bool{false, true} {
			c.b.V1 = v1
			msg := AppendBlock(nil, &c.b)
			for n := range msg {
				var h BlockHeader
				ok := DecodeBlockHeader(msg[:n], &h)
				if ok != (n >= c.need) {
					t.Errorf("%s, v1 %v: got %v for %d bytes, %d are needed", c.name, v1, ok, n, c.need)
				}
				if ok && h != c.b.BlockHeader {
					t.Errorf("%s, v1 %v: got %+v, want %+v", c.name, v1, h, c.b.BlockHeader)
				}
			}
		}
	}
}

func TestDecodeBlockHeaderRefuses(t *testing.T) {
	r := testBlock()
	good := AppendBlock(nil, &r)
	for _, c := range []struct {
		name string
		at   int
		b    byte
	}{
		{"a status v0", 0, 0}, {"a status v1", 0, 3}, {"an unknown variant", 0, 4}, {"a variant in two bytes", 0, 0x81},
		{"this_block is 2", 73, 2}, {"this_block is 255", 73, 255}, {"prev_block is 2", 110, 2},
	} {
		msg := bytes.Clone(good)
		msg[c.at] = c.b
		if DecodeBlockHeader(msg, new(BlockHeader)) {
			t.Errorf("%s: it passes for a block result", c.name)
		}
		if err := DecodeBlock(msg, new(Block)); err == nil {
			t.Errorf("%s: DecodeBlock takes it", c.name)
		}
	}
	if allocated := testing.AllocsPerRun(100, func() { DecodeBlockHeader(good, &r.BlockHeader) }); allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
}

func TestIsStatus(t *testing.T) {
	for _, c := range []struct {
		first byte
		size  int
		want  bool
	}{
		{0, 0, false}, {0, 88, false}, {0, 89, true}, {0, 90, true}, {0, 121, true}, {0, 1 << 20, true},
		{3, 128, false}, {3, 129, true}, {3, 130, true},
		{1, 129, false}, {2, 129, false}, {4, 129, false}, {0x80, 129, false},
	} {
		if got := IsStatus(c.first, c.size); got != c.want {
			t.Errorf("first byte %d, %d bytes: got %v", c.first, c.size, got)
		}
	}
}

func TestSetTip(t *testing.T) {
	r := testBlock()
	msg := AppendBlock(nil, &r)
	r.Head, r.LIB = Pos{100, testID(1)}, Pos{99, testID(2)}
	SetTip(msg, &r.Head, &r.LIB)
	if want := AppendBlock(nil, &r); !bytes.Equal(msg, want) {
		t.Errorf("got %x, want %x", msg, want)
	}
	var short [PatchSize]byte
	SetTip(short[:], &r.Head, &r.LIB)
	if !bytes.Equal(short[1:], msg[1:PatchSize]) {
		t.Errorf("PatchSize bytes do not hold all that SetTip writes")
	}
}

func TestDecodeBlock(t *testing.T) {
	for _, v1 := range []bool{false, true} {
		want := testBlock()
		if want.V1 = v1; v1 {
			want.Finality = []byte{}
		}
		msg := AppendBlock(nil, &want)
		got := Block{Finality: []byte("of before")}
		if err := DecodeBlock(append(bytes.Clone(msg), "a tail"...), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("v1 %v: got %+v, want %+v", v1, got, want)
		}
		for n := range msg {
			if err := DecodeBlock(msg[:n], &got); !errors.Is(err, errTruncated) {
				t.Errorf("v1 %v, %d of %d bytes: got %v", v1, n, len(msg), err)
			}
		}
	}
}

func TestDecodeBlockRefuses(t *testing.T) {
	start := AppendBlock(nil, &Block{})[:75]
	for _, c := range []struct {
		name string
		msg  []byte
		want error
	}{
		{"another variant", join(t, "00", make([]byte, 100)), errVariant},
		{"a variant in two bytes", join(t, "8100", make([]byte, 100)), errVariant},
		{"block is 2", join(t, start, "02"), errBool},
		{"traces is 2", join(t, start, "00 02"), errBool},
		{"a block longer than the message", join(t, start, "01 05 00000000"), errTruncated},
		{"a block of 33 bits", join(t, start, "01 ffffffff1f"), errVaruint},
		{"a block of 4 GiB", join(t, start, "01 ffffffff0f"), errTruncated},
		{"traces of 2^64-1 bytes", join(t, start, "00 01 ffffffffffffffffff01"), errTruncated},
		{"traces of 65 bits", join(t, start, "00 01 ffffffffffffffffff02"), errVaruint},
		{"deltas of 2^63 bytes", join(t, start, "00 00 01 80808080808080808001"), errTruncated},
	} {
		if err := DecodeBlock(c.msg, new(Block)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

func TestDecodeBlockTakesLongSpellings(t *testing.T) {
	start := AppendBlock(nil, &Block{})[:75]
	var r Block
	if err := DecodeBlock(join(t, start, "01 8180808000 aa", "01 81808080808080808000 bb", "01 8000"), &r); err != nil {
		t.Fatal(err)
	}
	if string(r.Block) != "\xaa" || string(r.Traces) != "\xbb" || r.Deltas == nil || len(r.Deltas) != 0 {
		t.Errorf("got %x, %x and %x", r.Block, r.Traces, r.Deltas)
	}
}

func TestRecordedBlocks(t *testing.T) {
	var one, two Block
	for name, r := range map[string]*Block{"block-1": &one, "block-2": &two} {
		msg := recorded(t, name)
		if err := DecodeBlock(msg, r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if back := AppendBlock(nil, r); !bytes.Equal(back, msg) {
			t.Errorf("%s: got %x back, want %x", name, back, msg)
		}
	}
	if one.This.Num != 1 || one.HasPrev || !one.HasThis || one.Head.Num != 139 || one.LIB.Num != 99 {
		t.Errorf("block 1: got %+v", one.BlockHeader)
	}
	if !two.HasPrev || two.Prev != one.This || two.This.Num != 2 {
		t.Errorf("block 2: got %+v", two.BlockHeader)
	}
	const id = "000000023b74d6987be01f101596b8580255b1e739e91e9a19a640716af3c64f"
	if two.This.ID.String() != id {
		t.Errorf("block 2 has id %v, want %v", two.This.ID, id)
	}
	if two.Block != nil || two.Traces != nil || two.Deltas != nil || two.Finality != nil {
		t.Errorf("block 2: it has payload fields that were not asked for")
	}
}

func TestBlockRoundTrip(t *testing.T) {
	field := func(t *rapid.T, label string) []byte {
		if !rapid.Bool().Draw(t, "has "+label) {
			return nil
		}
		n := rapid.SampledFrom([]int{0, 1, 127, 128, 16383, 16384, 70000}).Draw(t, label)
		return bytes.Repeat([]byte{byte(n)}, n)
	}
	rapid.Check(t, func(t *rapid.T) {
		var want Block
		want.V1 = rapid.Bool().Draw(t, "v1")
		want.Head, want.LIB = drawPos(t, "head"), drawPos(t, "lib")
		if want.HasThis = rapid.Bool().Draw(t, "has this"); want.HasThis {
			want.This = drawPos(t, "this")
		}
		if want.HasPrev = rapid.Bool().Draw(t, "has prev"); want.HasPrev {
			want.Prev = drawPos(t, "prev")
		}
		want.Block, want.Traces, want.Deltas = field(t, "block"), field(t, "traces"), field(t, "deltas")
		if want.V1 {
			want.Finality = field(t, "finality")
		}
		msg := AppendBlock(nil, &want)
		var got Block
		if err := DecodeBlock(msg, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		var h BlockHeader
		if !DecodeBlockHeader(msg[:min(len(msg), HeaderSize)], &h) || h != want.BlockHeader {
			t.Fatalf("header: got %+v, want %+v", h, want.BlockHeader)
		}
	})
}

func FuzzDecodeBlock(f *testing.F) {
	r := testBlock()
	f.Add(AppendBlock(nil, &r))
	f.Add(AppendBlock(nil, &Block{}))
	f.Add(AppendBlock(nil, &Block{BlockHeader: BlockHeader{V1: true, HasPrev: true}, Finality: []byte{}}))
	f.Add(recorded(f, "block-1"))
	f.Add(join(f, "8100", make([]byte, 100)))
	f.Add(join(f, AppendBlock(nil, &Block{})[:75], "00 01 ffffffffffffffffff01"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		var b Block
		err := DecodeBlock(msg, &b)
		var h BlockHeader
		ok := DecodeBlockHeader(msg[:min(len(msg), HeaderSize)], &h)
		switch {
		case err == nil && !ok:
			t.Error("the whole decodes, its header does not")
		case err == nil && h != b.BlockHeader:
			t.Errorf("header %+v, in the whole %+v", h, b.BlockHeader)
		case ok && errors.Is(err, errVariant):
			t.Error("the header is one of a block result, the whole is not")
		}
		if ok != DecodeBlockHeader(msg, new(BlockHeader)) {
			t.Errorf("more than %d bytes of the message make a difference", HeaderSize)
		}
		if err != nil {
			return
		}
		back := AppendBlock(nil, &b)
		var again Block
		if err := DecodeBlock(back, &again); err != nil || !reflect.DeepEqual(again, b) {
			t.Errorf("got %v and %+v back, want %+v", err, again, b)
		}
	})
}
