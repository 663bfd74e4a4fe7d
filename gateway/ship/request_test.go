package ship

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// join puts parts of a message together: strings are hex, with spaces allowed.
func join(t testing.TB, parts ...any) []byte {
	t.Helper()
	var out []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b, err := hex.DecodeString(strings.Join(strings.Fields(p), ""))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b...)
		case []byte:
			out = append(out, p...)
		case ID:
			out = append(out, p[:]...)
		default:
			t.Fatalf("%T is no part of a message", p)
		}
	}
	return out
}

// recorded is a message of testdata.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".hex")
	if err != nil {
		t.Fatal(err)
	}
	return join(t, string(text))
}

func testID(fill byte) (id ID) {
	copy(id[:], bytes.Repeat([]byte{fill}, len(id)))
	return id
}

func TestDecodeRequest(t *testing.T) {
	const body = "01000000 ffffffff 0a000000" // start 1, end max, 10 in flight
	id := testID(0xab)
	for _, c := range []struct {
		name string
		msg  []byte
		want Request
	}{
		{"status v0", join(t, "00"), Request{Variant: StatusRequestV0}},
		{"status v1", join(t, "04"), Request{Variant: StatusRequestV1}},
		{"status with a tail", join(t, "00 ff"), Request{Variant: StatusRequestV0}},
		{"ack", join(t, "02 0a000000"), Request{Variant: AckRequestV0, Ack: 10}},
		{"largest ack", join(t, "02 ffffffff"), Request{Variant: AckRequestV0, Ack: 0xffffffff}},
		{"ack with a tail", join(t, "02 0a000000 00"), Request{Variant: AckRequestV0, Ack: 10}},
		{"blocks v0", join(t, "01", body, "00 00010001"), Request{
			Variant: BlocksRequestV0,
			Blocks:  BlocksRequest{Start: 1, End: 0xffffffff, MaxInFlight: 10, FetchBlock: true, FetchDeltas: true},
		}},
		{"blocks v0 in a long spelling", join(t, "8180808000", body, "8000 01000100"), Request{
			Variant: BlocksRequestV0,
			Blocks:  BlocksRequest{Start: 1, End: 0xffffffff, MaxInFlight: 10, Irreversible: true, FetchTraces: true},
		}},
		{"blocks v0 with one more flag is still v0", join(t, "01", body, "00 00000000 01"), Request{
			Variant: BlocksRequestV0,
			Blocks:  BlocksRequest{Start: 1, End: 0xffffffff, MaxInFlight: 10},
		}},
		{"a tail is not looked at", join(t, "01", body, "00 00000000 ff"), Request{
			Variant: BlocksRequestV0,
			Blocks:  BlocksRequest{Start: 1, End: 0xffffffff, MaxInFlight: 10},
		}},
		{"blocks v1", join(t, "03", body, "00 00000000 01"), Request{
			Variant: BlocksRequestV1,
			Blocks:  BlocksRequest{V1: true, Start: 1, End: 0xffffffff, MaxInFlight: 10, FetchFinality: true},
		}},
		{"positions", join(t, "01", body, "02 05000000", id, "06000000", testID(1), "00000000"), Request{
			Variant: BlocksRequestV0,
			Blocks: BlocksRequest{Start: 1, End: 0xffffffff, MaxInFlight: 10,
				Have: []Pos{{5, id}, {6, testID(1)}}},
		}},
		{"unknown", join(t, "05"), Request{Variant: 5}},
		{"unknown with a body", join(t, "7f ff ff"), Request{Variant: 0x7f}},
		{"largest variant", join(t, "ffffffff0f"), Request{Variant: 0xffffffff}},
	} {
		t.Run(c.name, func(t *testing.T) {
			// What was in it before must not show.
			got := Request{Variant: 99, Ack: 99, Blocks: BlocksRequest{V1: true, Have: make([]Pos, 3), FetchFinality: true}}
			if err := DecodeRequest(c.msg, &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if got.Known() != (c.want.Variant <= 4) {
				t.Errorf("Known is %v for variant %d", got.Known(), got.Variant)
			}
		})
	}
}

func TestDecodeRequestRefuses(t *testing.T) {
	const body = "01000000 ffffffff 0a000000"
	for _, c := range []struct {
		name string
		msg  []byte
		want error
	}{
		{"empty", nil, errTruncated},
		{"a variant that does not end", join(t, "81"), errTruncated},
		{"a variant of six bytes", join(t, "818080808000"), errVaruint},
		{"a variant of 33 bits", join(t, "ffffffff1f"), errVaruint},
		{"an ack cut short", join(t, "02 000000"), errTruncated},
		{"irreversible is 2", join(t, "01", body, "00 02000000"), errBool},
		{"fetch_block is 2", join(t, "01", body, "00 00020000"), errBool},
		{"fetch_traces is 255", join(t, "01", body, "00 0000ff00"), errBool},
		{"fetch_deltas is 128", join(t, "01", body, "00 00000080"), errBool},
		{"fetch_finality is 2", join(t, "03", body, "00 00000000 02"), errBool},
		{"fetch_finality is not there", join(t, "03", body, "00 00000000"), errTruncated},
		{"a count of six bytes", join(t, "01", body, "808080808000 00000000"), errVaruint},
		{"a count of 33 bits", join(t, "01", body, "8080808010 00000000"), errVaruint},
		{"one position more than there are", join(t, "01", body, "02 05000000", testID(1), "00000000"), errTruncated},
		{"a million positions that are not there", join(t, "01", body, "808040 00000000"), errTruncated},
		{"text", []byte("hello"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Request
			err := DecodeRequest(c.msg, &r)
			if c.want == nil {
				// 'h' is variant 104, which is no error.
				if err != nil || r.Known() {
					t.Errorf("got %v and variant %d", err, r.Variant)
				}
				return
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	for _, whole := range [][]byte{
		join(t, "02 01020304"),
		join(t, "01", body, "01 05000000", testID(1), "01010101"),
		join(t, "03", body, "01 05000000", testID(1), "01010101 01"),
	} {
		for n := range whole {
			var r Request
			if err := DecodeRequest(whole[:n], &r); !errors.Is(err, errTruncated) {
				t.Errorf("%d of %d bytes: got %v, want %v", n, len(whole), err, errTruncated)
			}
		}
	}
}

func TestDecodeRequestBoundsPositions(t *testing.T) {
	message := func(n int) []byte {
		b := join(t, "01 01000000 02000000 03000000")
		b = binary.AppendUvarint(b, uint64(n))
		return append(b, make([]byte, n*PosSize+4)...)
	}
	var r Request
	if err := DecodeRequest(message(MaxPositions), &r); err != nil || len(r.Blocks.Have) != MaxPositions {
		t.Errorf("got %v and %d positions, want all %d", err, len(r.Blocks.Have), MaxPositions)
	}
	if err := DecodeRequest(message(MaxPositions+1), &r); err == nil || errors.Is(err, errTruncated) {
		t.Errorf("got %v for one position too many, want it refused for their number", err)
	}
	for _, claim := range []string{"808040", "ffffffff0f", "8008"} {
		lie := join(t, "01 01000000 02000000 03000000", claim)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			_ = DecodeRequest(lie, &r)
		}
		runtime.ReadMemStats(&after)
		// The error that names the number is all that may be made; a position
		// for each that is claimed would be 36 MB and more.
		if n := (after.TotalAlloc - before.TotalAlloc) / 100; n > 4096 {
			t.Errorf("claim %s: %d bytes are allocated for positions that are not there", claim, n)
		}
	}
}

func TestDecodeRequestCopiesPositions(t *testing.T) {
	msg := AppendRequest(nil, &BlocksRequest{Have: []Pos{{7, testID(7)}}})
	var r Request
	if err := DecodeRequest(msg, &r); err != nil {
		t.Fatal(err)
	}
	clear(msg)
	if r.Blocks.Have[0] != (Pos{7, testID(7)}) {
		t.Errorf("got %v after the message was overwritten", r.Blocks.Have[0])
	}
}

func TestAppendRequestBytes(t *testing.T) {
	q := BlocksRequest{Start: 1, End: 0x01020304, MaxInFlight: 5, Have: []Pos{{9, testID(0xcd)}}, Irreversible: true, FetchTraces: true}
	want := join(t, "ee 01 01000000 04030201 05000000 01 09000000", testID(0xcd), "01000100")
	if got := AppendRequest([]byte{0xee}, &q); !bytes.Equal(got, want) {
		t.Errorf("v0: got %x, want %x", got, want)
	}
	q.V1, q.FetchFinality = true, true
	want = join(t, "03 01000000 04030201 05000000 01 09000000", testID(0xcd), "01000100 01")
	if got := AppendRequest(nil, &q); !bytes.Equal(got, want) {
		t.Errorf("v1: got %x, want %x", got, want)
	}
	if n := len(AppendRequest(nil, &BlocksRequest{})); n != 18 {
		t.Errorf("the shortest v0 request has %d bytes, want 18", n)
	}
	if n := len(AppendRequest(nil, &BlocksRequest{V1: true})); n != 19 {
		t.Errorf("the shortest v1 request has %d bytes, want 19", n)
	}
	if got := AppendAck(nil, 0x01020304); !bytes.Equal(got, join(t, "02 04030201")) {
		t.Errorf("ack: got %x", got)
	}
	if got := append(AppendStatusRequest(nil, false), AppendStatusRequest(nil, true)...); !bytes.Equal(got, join(t, "00 04")) {
		t.Errorf("status: got %x", got)
	}
}

func drawPos(t *rapid.T, label string) (p Pos) {
	p.Num = rapid.Uint32().Draw(t, label)
	copy(p.ID[:], rapid.SliceOfN(rapid.Byte(), len(p.ID), len(p.ID)).Draw(t, label+" id"))
	return p
}

func TestRequestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := BlocksRequest{
			V1: rapid.Bool().Draw(t, "v1"), Start: rapid.Uint32().Draw(t, "start"), End: rapid.Uint32().Draw(t, "end"),
			MaxInFlight: rapid.Uint32().Draw(t, "credit"), Irreversible: rapid.Bool().Draw(t, "irreversible"),
			FetchBlock: rapid.Bool().Draw(t, "block"), FetchTraces: rapid.Bool().Draw(t, "traces"), FetchDeltas: rapid.Bool().Draw(t, "deltas"),
		}
		want.FetchFinality = want.V1 && rapid.Bool().Draw(t, "finality")
		for range rapid.IntRange(0, 200).Draw(t, "positions") {
			want.Have = append(want.Have, Pos{Num: uint32(len(want.Have)), ID: testID(byte(len(want.Have)))})
		}
		if len(want.Have) > 0 {
			want.Have[0] = drawPos(t, "position")
		}
		tail := rapid.SliceOf(rapid.Byte()).Draw(t, "tail")
		var got Request
		if err := DecodeRequest(append(AppendRequest(nil, &want), tail...), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Blocks, want) {
			t.Fatalf("got %+v, want %+v", got.Blocks, want)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add(AppendRequest(nil, &BlocksRequest{Start: 1, End: 2, MaxInFlight: 3, Have: []Pos{{9, testID(1)}}}))
	f.Add(AppendRequest(nil, &BlocksRequest{V1: true, FetchFinality: true}))
	f.Add(AppendAck(nil, 5))
	f.Add([]byte{0})
	f.Add([]byte{4})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add(join(f, "01 01000000 02000000 03000000 ffffffff0f 00000000"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		var r Request
		if DecodeRequest(msg, &r) != nil {
			return
		}
		if !r.Known() {
			if !reflect.DeepEqual(r, Request{Variant: r.Variant}) {
				t.Errorf("more than the variant is set of an unknown one: %+v", r)
			}
			return
		}
		var again []byte
		switch r.Variant {
		case StatusRequestV0, StatusRequestV1:
			again = AppendStatusRequest(nil, r.Variant == StatusRequestV1)
		case AckRequestV0:
			again = AppendAck(nil, r.Ack)
		default:
			again = AppendRequest(nil, &r.Blocks)
		}
		if len(again) > len(msg) {
			t.Errorf("%d bytes gave a request of %d", len(msg), len(again))
		}
		var back Request
		if err := DecodeRequest(again, &back); err != nil || !reflect.DeepEqual(back, r) {
			t.Errorf("got %v and %+v back, want %+v", err, back, r)
		}
	})
}
