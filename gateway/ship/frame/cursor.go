package frame

// Cursor looks at parts of a message's payload, front to back, across its
// fragments.
type Cursor struct {
	frames []byte // the frames behind part
	part   []byte // the payload of the present one
	base   int    // where part begins in the payload of the message
	// gathered holds what is asked for across the end of a fragment.
	gathered [16]byte
}

// Read sets c to the front of m. It is valid as long as m is.
func (c *Cursor) Read(m *Message) {
	c.frames, c.part, c.base = m.Frames, nil, 0
	if m.payload != nil {
		c.frames, c.part = nil, m.payload
	}
}

// Done lets go of the message. What c points into would otherwise be kept from
// the garbage collector, a whole read buffer for each idle session.
func (c *Cursor) Done() { c.frames, c.part = nil, nil }

// Slice is up to n bytes, at most 16, of the payload from an offset on; fewer
// only at its end. Offsets must not go back. It is valid until the next call.
func (c *Cursor) Slice(at, n int) []byte {
	for at-c.base >= len(c.part) {
		if !c.next() {
			return nil
		}
	}
	if part := c.part[at-c.base:]; len(part) >= n || len(c.frames) == 0 {
		return part[:min(n, len(part))]
	}
	// Rarely more than one byte is left in a fragment; the cursor itself stays,
	// as the next offset may be in it.
	ahead := *c
	got := copy(c.gathered[:n], ahead.part[at-ahead.base:])
	for got < n && ahead.next() {
		got += copy(c.gathered[got:n], ahead.part)
	}
	return c.gathered[:got]
}

// next moves to the next fragment.
func (c *Cursor) next() bool {
	var h header
	// The reader has parsed these frames before.
	if ok, err := parseHeader(c.frames, &h); !ok || err != nil {
		return false
	}
	c.base += len(c.part)
	end := h.size + int(h.length)
	c.part, c.frames = c.frames[h.size:end], c.frames[end:]
	return true
}
