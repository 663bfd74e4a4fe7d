package frame

// Cursor reads single bytes of a message's payload, front to back, across its
// fragments.
type Cursor struct {
	frames []byte // the frames behind part
	part   []byte // the payload of the present one
	base   int    // where part begins in the payload of the message
}

// Read sets c to the front of m. It is valid as long as m is.
func (c *Cursor) Read(m *Message) {
	*c = Cursor{frames: m.Frames}
	if m.payload != nil {
		c.frames, c.part = nil, m.payload
	}
}

// Byte is the byte at an offset of the payload; false behind its end. Offsets
// must not go back.
func (c *Cursor) Byte(at int) (byte, bool) {
	for at-c.base >= len(c.part) {
		var h header
		// The reader has parsed these frames before.
		if ok, err := parseHeader(c.frames, &h); !ok || err != nil {
			return 0, false
		}
		c.base += len(c.part)
		end := h.size + int(h.length)
		c.part, c.frames = c.frames[h.size:end], c.frames[end:]
	}
	return c.part[at-c.base], true
}
