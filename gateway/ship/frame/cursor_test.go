package frame

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestCursor looks at a message through a cursor, however it is fragmented: it
// sees what the payload in one piece has there.
func TestCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SliceOfN(rapid.Byte(), 1, 400).Draw(t, "payload")
		m := fragmented(payload, rapid.SliceOfN(rapid.IntRange(0, 60), 0, 8).Draw(t, "cuts"))
		var c Cursor
		c.Read(m)
		for at := 0; at <= len(payload)+3; at += rapid.IntRange(0, 50).Draw(t, "step") + 1 {
			n := rapid.IntRange(1, 16).Draw(t, "n")
			want := payload[min(at, len(payload)):min(at+n, len(payload))]
			if got := c.Slice(at, n); !bytes.Equal(got, want) {
				t.Fatalf("from %d on: % x, % x was due", at, got, want)
			}
		}
	})
}

// fragmented is a message whose fragments have the given lengths, and a last
// one the rest; without any it comes in one frame.
func fragmented(payload []byte, cuts []int) *Message {
	m := &Message{Op: Binary, Size: len(payload)}
	rest, op := payload, Binary
	for _, n := range cuts {
		n = min(n, len(rest))
		f := Append(nil, op, rest[:n])
		f[0] &^= 0x80
		m.Frames, rest, op = append(m.Frames, f...), rest[n:], Continuation
	}
	m.Frames = append(m.Frames, Append(nil, op, rest)...)
	if len(cuts) == 0 {
		m.payload = payload
	}
	return m
}
