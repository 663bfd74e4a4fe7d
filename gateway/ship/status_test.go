package ship

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func testStatus() Status {
	return Status{
		Head: Pos{10, testID(1)}, LIB: Pos{9, testID(2)}, Trace: Range{2, 11}, ChainState: Range{3, 12},
		HasChainID: true, ChainID: testID(0xcc),
	}
}

func TestAppendStatusBytes(t *testing.T) {
	s := testStatus()
	body := join(t, "0a000000", testID(1), "09000000", testID(2), "02000000 0b000000 03000000 0c000000")
	for _, c := range []struct {
		name string
		edit func(*Status)
		want []byte
		size int
	}{
		{"v0", func(*Status) {}, join(t, "00", body, testID(0xcc)), 121},
		{"v0 without chain_id", func(s *Status) { s.HasChainID = false }, join(t, "00", body), 89},
		{"v1", func(s *Status) { s.V1, s.Finality = true, Range{4, 13} }, join(t, "03", body, testID(0xcc), "04000000 0d000000"), 129},
		{"v1 without chain_id", func(s *Status) { s.V1, s.HasChainID, s.ChainID = true, false, ID{} }, join(t, "03", body, ID{}, make([]byte, 8)), 129},
	} {
		s := s
		c.edit(&s)
		got := AppendStatus(nil, &s)
		if !bytes.Equal(got, c.want) || len(got) != c.size {
			t.Errorf("%s: got %x, want %x of %d bytes", c.name, got, c.want, c.size)
		}
		if !IsStatus(got[0], len(got)) {
			t.Errorf("%s: it does not pass for a status", c.name)
		}
	}
}

func TestDecodeStatus(t *testing.T) {
	v0 := testStatus()
	noID, v1 := v0, v0
	noID.HasChainID, noID.ChainID = false, ID{}
	v1.V1, v1.Finality = true, Range{4, 13}
	whole := AppendStatus(nil, &v0)
	for _, c := range []struct {
		name string
		msg  []byte
		want Status
	}{
		{"v0", whole, v0},
		{"v0 without chain_id", AppendStatus(nil, &noID), noID},
		{"v0 with a tail", append(bytes.Clone(whole), 1, 2, 3), v0},
		{"v1", AppendStatus(nil, &v1), v1},
		{"v1 with a tail", append(AppendStatus(nil, &v1), 1), v1},
	} {
		got := Status{V1: true, HasChainID: true, Finality: Range{1, 2}}
		if err := DecodeStatus(c.msg, &got); err != nil || got != c.want {
			t.Errorf("%s: got %v and %+v, want %+v", c.name, err, got, c.want)
		}
	}
	for _, c := range []struct {
		whole []byte
		fits  int // besides the whole, the length that is a message too
	}{{whole, 89}, {AppendStatus(nil, &v1), -1}} {
		for n := range c.whole {
			var s Status
			err := DecodeStatus(c.whole[:n], &s)
			if n == c.fits && err != nil || n != c.fits && !errors.Is(err, errTruncated) {
				t.Errorf("%d of %d bytes: got %v", n, len(c.whole), err)
			}
		}
	}
	for _, first := range []byte{1, 2, 4, 0x80, 0xff} {
		msg := append([]byte{first}, make([]byte, 200)...)
		if err := DecodeStatus(msg, new(Status)); !errors.Is(err, errVariant) {
			t.Errorf("first byte %d: got %v", first, err)
		}
	}
}

func TestRecordedStatus(t *testing.T) {
	msg := recorded(t, "status-v0")
	var s Status
	if err := DecodeStatus(msg, &s); err != nil {
		t.Fatal(err)
	}
	if s.V1 || s.Head.Num != 133 || s.LIB.Num != 87 || s.Trace != (Range{2, 134}) || s.ChainState != (Range{1, 134}) || !s.HasChainID {
		t.Errorf("got %+v", s)
	}
	if back := AppendStatus(nil, &s); !bytes.Equal(back, msg) {
		t.Errorf("got %x back, want %x", back, msg)
	}
}

func drawStatus(t *rapid.T) Status {
	span := func(label string) Range {
		return Range{rapid.Uint32().Draw(t, label), rapid.Uint32().Draw(t, label+" end")}
	}
	s := Status{
		V1: rapid.Bool().Draw(t, "v1"), Head: drawPos(t, "head"), LIB: drawPos(t, "lib"),
		Trace: span("trace"), ChainState: span("state"),
	}
	if s.HasChainID = s.V1 || rapid.Bool().Draw(t, "has chain_id"); s.HasChainID {
		s.ChainID = drawPos(t, "chain").ID
	}
	if s.V1 {
		s.Finality = span("finality")
	}
	return s
}

func TestStatusRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawStatus(t)
		var got Status
		if err := DecodeStatus(AppendStatus(nil, &want), &got); err != nil || got != want {
			t.Fatalf("got %v and %+v, want %+v", err, got, want)
		}
	})
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		r       Range
		empty   bool
		in, out uint32
	}{
		{Range{}, true, 0, 0}, {Range{5, 5}, true, 0, 5}, {Range{6, 5}, true, 0, 5},
		{Range{1, 0xffffffff}, false, 0xfffffffe, 0xffffffff}, {Range{0, 1}, false, 0, 1}, {Range{5, 8}, false, 5, 4},
	} {
		if c.r.Empty() != c.empty || c.r.Contains(c.out) || !c.empty && !c.r.Contains(c.in) {
			t.Errorf("%v: empty %v, contains %d %v, contains %d %v", c.r, c.r.Empty(), c.in, c.r.Contains(c.in), c.out, c.r.Contains(c.out))
		}
	}
}

func FuzzDecodeStatus(f *testing.F) {
	s := testStatus()
	f.Add(AppendStatus(nil, &s))
	s.V1 = true
	f.Add(AppendStatus(nil, &s))
	f.Add(AppendStatus(nil, &Status{}))
	f.Add(recorded(f, "status-v0"))
	f.Add([]byte{0x80, 0})
	f.Fuzz(func(t *testing.T, msg []byte) {
		var s Status
		if DecodeStatus(msg, &s) != nil {
			return
		}
		if !IsStatus(msg[0], len(msg)) {
			t.Error("it decodes, but does not pass for a status")
		}
		back := AppendStatus(nil, &s)
		if !bytes.HasPrefix(msg, back) {
			t.Errorf("got %x back, which %x does not begin with", back, msg)
		}
	})
}
