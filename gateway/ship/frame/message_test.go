package frame

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// springResult is a block result as Spring sends it: the index byte alone,
// everything through the block, for two logs the length and then the data, and
// an empty final frame.
func springResult(payload string) []piece {
	cut := func(from, to int) string { return payload[from:to] }
	return []piece{
		{op: Binary, more: true, payload: cut(0, 1)},
		{more: true, payload: cut(1, 160)},
		{more: true, payload: cut(160, 163)},
		{more: true, payload: cut(163, 400)},
		{more: true, payload: cut(400, 403)},
		{more: true, payload: cut(403, len(payload))},
		{},
	}
}

func TestHeadAndSetHead(t *testing.T) {
	var b strings.Builder
	for i := range 600 {
		b.WriteByte(byte(i))
	}
	payload := b.String()
	var bytewise []piece
	for i := range payload {
		bytewise = append(bytewise, piece{more: true, payload: payload[i : i+1]})
	}
	bytewise[0].op = Binary
	for name, pieces := range map[string][]piece{
		"spring":           springResult(payload),
		"one frame":        {{op: Binary, payload: payload}},
		"two frames":       {{op: Binary, more: true, payload: payload[:72]}, {payload: payload[72:]}},
		"empty frames":     {{op: Binary, more: true}, {more: true}, {more: true, payload: payload[:5]}, {more: true}, {payload: payload[5:]}},
		"a byte in each":   append(bytewise, piece{}),
		"head at the seam": {{op: Binary, more: true, payload: payload[:147]}, {payload: payload[147:]}},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(NewConn(&scripted{}), 1<<20, false, wire(false, pieces...))
			var m Message
			if ok, err := r.Next(&m); !ok || err != nil {
				t.Fatal(ok, err)
			}
			var scratch [147]byte
			head := m.Head(scratch[:0])
			if string(head) != payload[:147] {
				t.Fatalf("got head %x", head)
			}
			if short := m.Head(make([]byte, 0, 3)); string(short) != payload[:3] {
				t.Errorf("3 bytes of head: got %x", short)
			}
			if none := m.Head(nil); len(none) != 0 {
				t.Errorf("no room: got %x", none)
			}
			for i := range 73 {
				head[i] = 0xee
			}
			m.SetHead(head[:73])
			want := strings.Repeat("\xee", 73) + payload[73:]
			if got := string(m.Payload(make([]byte, 10))); got != want {
				t.Errorf("got %x, want %x", got, want)
			}
			// What is passed on is the same message, frame by frame.
			again, err := readAll(t, NewReader(NewConn(&scripted{data: bytes.Clone(m.Frames)}), 1<<20, false, nil))
			if err != io.EOF {
				t.Fatal(err)
			}
			compare(t, again, []item{{Binary, want}})
			if len(m.Frames) != len(wire(false, pieces...)) {
				t.Errorf("%d bytes are passed on, %d came", len(m.Frames), len(wire(false, pieces...)))
			}
			m.SetHead([]byte(strings.Repeat("z", 700)))
			if got := string(m.Payload(nil)); got != strings.Repeat("z", 600) {
				t.Errorf("a head longer than the message: got %q", got)
			}
			r.Release()
		})
	}
}

func TestEmptyMessages(t *testing.T) {
	data := wire(false, piece{op: Binary}, piece{op: Text, more: true}, piece{}, piece{op: Close})
	r := NewReader(NewConn(&scripted{}), 100, false, data)
	for _, op := range []Opcode{Binary, Text, Close} {
		var m Message
		if ok, err := r.Next(&m); !ok || err != nil || m.Op != op {
			t.Fatalf("got %v, %v and opcode %d, want %d", ok, err, m.Op, op)
		}
		m.SetHead([]byte("x"))
		if len(m.Payload(nil)) != 0 || len(m.Head(make([]byte, 0, 5))) != 0 || m.Size != 0 {
			t.Errorf("opcode %d: it is not empty", op)
		}
	}
	r.Release()
}

func TestPayloadUsesScratch(t *testing.T) {
	r := NewReader(NewConn(&scripted{}), 100, false, wire(false, piece{op: Binary, more: true, payload: "ab"}, piece{payload: "cd"}))
	var m Message
	if ok, err := r.Next(&m); !ok || err != nil {
		t.Fatal(ok, err)
	}
	scratch := []byte("0123456789")
	if got := m.Payload(scratch); string(got) != "abcd" || &got[0] != &scratch[0] {
		t.Errorf("got %q, scratch is %q", got, scratch)
	}
	r.Release()
}
