package frame

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseHeader(t *testing.T) {
	for _, c := range []struct {
		name string
		b    string
		want header
	}{
		{"empty text", "\x81\x00", header{fin: true, op: Text, size: 2}},
		{"first fragment", "\x02\x7d", header{op: Binary, length: 125, size: 2}},
		{"continuation", "\x00\x01", header{op: Continuation, length: 1, size: 2}},
		{"16 bits", "\x82\x7e\x01\x02", header{fin: true, op: Binary, length: 0x102, size: 4}},
		{"16 bits for little", "\x82\x7e\x00\x01", header{fin: true, op: Binary, length: 1, size: 4}},
		{"64 bits", "\x82\x7f\x00\x00\x00\x01\x02\x03\x04\x05", header{fin: true, op: Binary, length: 0x102030405, size: 10}},
		{"the largest", "\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", header{fin: true, op: Binary, length: 1<<63 - 1, size: 10}},
		{"masked", "\x82\x81abcd", header{fin: true, op: Binary, masked: true, mask: [4]byte{'a', 'b', 'c', 'd'}, length: 1, size: 6}},
		{"masked 64 bits", "\x82\xff\x00\x00\x00\x00\x00\x00\x00\x01abcd", header{fin: true, op: Binary, masked: true, mask: [4]byte{'a', 'b', 'c', 'd'}, length: 1, size: 14}},
		{"close", "\x88\x02", header{fin: true, op: Close, length: 2, size: 2}},
		{"longest ping", "\x89\x7d", header{fin: true, op: Ping, length: 125, size: 2}},
		{"pong", "\x8a\x00", header{fin: true, op: Pong, size: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for n := range len(c.b) {
				var h header
				if ok, err := parseHeader([]byte(c.b[:n]), &h); ok || err != nil {
					t.Errorf("%d of %d bytes: got %v and %v", n, len(c.b), ok, err)
				}
			}
			var h header
			ok, err := parseHeader([]byte(c.b+"tail"), &h)
			if !ok || err != nil || h != c.want {
				t.Errorf("got %v, %v and %+v, want %+v", ok, err, h, c.want)
			}
		})
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	bad := map[string]string{
		"RSV1": "\xc2\x00", "RSV2": "\xa2\x00", "RSV3": "\x92\x00", "RSV1 on a ping": "\xc9\x00",
		"a fragmented ping": "\x09\x00", "a fragmented close": "\x08\x00", "a fragmented pong": "\x0a\x00",
		"a ping of 126 bytes": "\x89\x7e", "a close of 64 bits": "\x88\x7f", "a masked pong of 126 bytes": "\x8a\xfe",
		"a length with the top bit": "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00",
	}
	for _, op := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		bad["opcode "+Opcode(op).text()] = string([]byte{0x80 | op, 0})
	}
	for name, b := range bad {
		var h header
		ok, err := parseHeader([]byte(b), &h)
		var breach *Error
		if ok || !errors.As(err, &breach) || breach.Code != CloseProtocol || breach.Reason == "" {
			t.Errorf("%s: got %v and %v", name, ok, err)
		}
	}
}

func (o Opcode) text() string { return string("0123456789abcdef"[o&15]) }

func TestAppend(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 125, 126, 127, 65535, 65536, 70001} {
		payload := make([]byte, n)
		for i := range payload {
			payload[i] = byte(i * 7)
		}
		kept := bytes.Clone(payload)
		for _, masked := range []bool{false, true} {
			before := []byte("before")
			var out []byte
			if masked {
				out = AppendMasked(before, Binary, payload)
			} else {
				out = Append(before, Binary, payload)
			}
			if !bytes.Equal(payload, kept) {
				t.Fatalf("%d bytes: the payload was changed", n)
			}
			var h header
			ok, err := parseHeader(out[len(before):], &h)
			if !ok || err != nil || !h.fin || h.op != Binary || h.masked != masked || h.length != int64(n) {
				t.Fatalf("%d bytes: got %v, %v and %+v", n, ok, err, h)
			}
			body := out[len(before)+h.size:]
			if masked {
				for i := range body {
					body[i] ^= h.mask[i%4]
				}
			}
			if !bytes.Equal(body, kept) || !bytes.HasPrefix(out, before) {
				t.Errorf("%d bytes, masked %v: other bytes came out", n, masked)
			}
			shortest := 2
			if n > 125 {
				shortest = 4
			}
			if n > 65535 {
				shortest = 10
			}
			if masked {
				shortest += 4
			}
			if h.size != shortest {
				t.Errorf("%d bytes: a header of %d bytes, want %d", n, h.size, shortest)
			}
		}
	}
}

func TestApplyMask(t *testing.T) {
	key := [4]byte{1, 2, 4, 8}
	for n := range 40 {
		for offset := range 9 {
			b := make([]byte, offset+n)
			applyMask(b[offset:], key)
			for i, v := range b {
				want := byte(0)
				if i >= offset {
					want = key[(i-offset)%4]
				}
				if v != want {
					t.Fatalf("%d bytes at offset %d: byte %d is %d, want %d", n, offset, i, v, want)
				}
			}
		}
	}
}

func TestClosePayload(t *testing.T) {
	if got := ClosePayload(CloseGoingAway, "server shutting down"); string(got) != "\x03\xe9server shutting down" {
		t.Errorf("got %q", got)
	}
	if got := ClosePayload(CloseNoStatus, "x"); len(got) != 0 {
		t.Errorf("1005: got %q", got)
	}
	for _, reason := range []string{strings.Repeat("x", 123), strings.Repeat("x", 500), strings.Repeat("é", 100), strings.Repeat("😀", 40), "x" + strings.Repeat("€", 60)} {
		got := ClosePayload(CloseInvalid, reason)
		if len(got) > maxControl || len(got) < maxControl-3 || !utf8.Valid(got[2:]) || !strings.HasPrefix(reason, string(got[2:])) {
			t.Errorf("%d bytes of reason: got %q", len(reason), got)
		}
	}
}

func TestCloseCode(t *testing.T) {
	for _, c := range []struct {
		payload string
		want    int
	}{
		{"", 1005}, {"\x03", 1002}, {"\x03\xe8", 1000}, {"\x03\xe8bye", 1000}, {"\x03\xeb", 1003}, {"\x03\xf3", 1011}, {"\x03\xf6", 1014},
		{"\x0b\xb8", 3000}, {"\x13\x87", 4999},
		// None of these may be sent.
		{"\x00\x00", 1002}, {"\x03\xe7", 1002}, {"\x03\xec", 1002}, {"\x03\xed", 1002}, {"\x03\xee", 1002}, {"\x03\xf7", 1002},
		{"\x07\xd0", 1002}, {"\x13\x88", 1002}, {"\xff\xff", 1002},
	} {
		if got := CloseCode([]byte(c.payload)); got != c.want {
			t.Errorf("%x: got %d, want %d", c.payload, got, c.want)
		}
	}
}

func TestBufferClass(t *testing.T) {
	for _, c := range []struct{ n, size int }{
		{0, 1 << 16}, {1, 1 << 16}, {1 << 16, 1 << 16}, {1<<16 + 1, 1 << 17}, {1 << 17, 1 << 17}, {1 << 20, 1 << 20}, {1<<20 + 1, 1 << 21},
	} {
		b := takeBuffer(c.n)
		if len(*b) != c.size {
			t.Errorf("%d bytes: got a buffer of %d, want %d", c.n, len(*b), c.size)
		}
		if minBuffer<<class(len(*b)) != len(*b) {
			t.Errorf("a buffer of %d bytes goes back to those of %d", len(*b), minBuffer<<class(len(*b)))
		}
		giveBuffer(b)
	}
}
