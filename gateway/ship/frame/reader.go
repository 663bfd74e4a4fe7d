package frame

import (
	"errors"
	"io"
	"math"
)

// trusted is how much buffer the mere announcement of a long frame gets. A
// longer message gets more as its bytes really come.
const trusted = 1 << 20

// maxAhead bounds the buffer that is taken before anything is known of the next
// message: one huge block must not make every later read take as much.
const maxAhead = 16 << 20

// maxLimit bounds the limit of a reader, so that the size of a buffer, a few
// times as much, fits an int.
const maxLimit = math.MaxInt / 16

// ErrMessageTooLarge tells of a message or frame above the reader's limit. The
// reader is unusable after it.
var ErrMessageTooLarge = errors.New("message is larger than the limit")

// Message is one whole message, or one control frame, inside a Reader's
// buffer. It is valid until the next Fill.
type Message struct {
	// Op is Text or Binary for a message, or that of a control frame.
	Op Opcode
	// Size is the length of the payload of all fragments together, in bytes.
	Size int
	// Frames are the bytes on the wire, headers included.
	Frames []byte
	// Start and End are where Frames lies in the reader's buffer: messages
	// whose places touch can be passed on together, see Reader.Bytes.
	Start, End int
	// payload is set when the message came in one frame.
	payload []byte
}

// Payload is the payload of all fragments in one piece. A fragmented one is
// gathered in scratch, which is grown as needed.
func (m *Message) Payload(scratch []byte) []byte {
	if m.payload != nil || m.Size == 0 {
		return m.payload
	}
	return m.gather(scratch[:0], m.Size)
}

// Whole is the payload of a message that came in one frame, else nil.
func (m *Message) Whole() []byte { return m.payload }

// Head is the first bytes of the payload, as many as scratch has room for. It
// is part of the message itself when that came in one frame, else it is
// gathered in scratch.
func (m *Message) Head(scratch []byte) []byte {
	if m.payload != nil || m.Size == 0 {
		return m.payload[:min(len(m.payload), cap(scratch))]
	}
	return m.gather(scratch[:0], min(m.Size, cap(scratch)))
}

// gather appends the first n bytes of the payload to dst.
func (m *Message) gather(dst []byte, n int) []byte {
	m.walk(func(part []byte) bool {
		dst = append(dst, part[:min(len(part), n-len(dst))]...)
		return len(dst) < n
	})
	return dst
}

// SetHead overwrites the first bytes of the payload across its fragments. It
// is not needed, and does no harm, when head is what Head returned.
func (m *Message) SetHead(head []byte) {
	if m.payload != nil {
		copy(m.payload, head)
		return
	}
	m.walk(func(part []byte) bool {
		head = head[copy(part, head):]
		return len(head) > 0
	})
}

// walk calls f for the payload of each fragment until f returns false.
func (m *Message) walk(f func(part []byte) bool) {
	for b := m.Frames; len(b) > 0; {
		var h header
		// The reader has parsed these frames before.
		if ok, err := parseHeader(b, &h); !ok || err != nil {
			return
		}
		if end := h.size + int(h.length); !f(b[h.size:end]) {
			return
		} else {
			b = b[end:]
		}
	}
}

// Reader cuts what a connection delivers into whole messages without copying
// them: it returns the frames as they came, ready to be passed on. Control
// frames between fragments are taken out first.
//
// It holds no buffer while it has no bytes.
type Reader struct {
	conn *Conn
	// limit bounds a message and a frame, in bytes.
	limit int64
	// masked is what frames have to be: masked from a client, plain from a
	// node.
	masked bool

	buf  *[]byte
	r, w int // the unread bytes are buf[r:w]
	// All frames in [r, at) belong to a message in progress. next is where the
	// frame begins that has not been looked at: beyond at when control frames
	// came between the fragments, else the same.
	at, next int
	inside   bool
	op       Opcode
	size     int64
	frames   int
	need     int // bytes of the message that the current frame is known to want
	largest  int // longest message of the recent past, in bytes
	readSize int
	discard  bool
}

// NewReader makes a reader for what comes from a node (masked false) or from a
// client (masked true). limit is the most payload bytes that a message or frame
// may have, at most a sixteenth of the largest int; the headers of a message's
// frames may add as much again, and 64 KiB. early are bytes that arrived with
// the handshake; they are copied.
func NewReader(c *Conn, limit int64, masked bool, early []byte) *Reader {
	r := &Reader{conn: c, limit: min(limit, maxLimit), masked: masked}
	if len(early) > 0 {
		r.buf = takeBuffer(len(early))
		r.w = copy(*r.buf, early)
	}
	return r
}

// Next returns the next whole message or control frame that is in the buffer,
// and false when more bytes have to be filled in. Its error is an *Error, or
// ErrMessageTooLarge.
func (r *Reader) Next(m *Message) (bool, error) {
	for r.buf != nil && !r.discard {
		b := (*r.buf)[:r.w]
		if n, ok := r.plain(b); ok {
			r.op, r.frames, r.size = Binary, 1, int64(n)
			r.at = r.next + plainHeader + n
			r.next = r.at
			r.finish(m, b)
			return true, nil
		}
		var h header
		ok, err := parseHeader(b[r.next:], &h)
		if err != nil {
			return false, err
		}
		if !ok {
			r.need = r.at - r.r + maxHeader
			return false, nil
		}
		if h.masked != r.masked {
			return false, &Error{CloseProtocol, "frame is masked the wrong way"}
		}
		if !h.op.control() {
			if err := r.check(&h); err != nil {
				return false, err
			}
		}
		end := r.next + h.size + int(h.length)
		if end > len(b) {
			r.need = r.at - r.r + end - r.next
			return false, nil
		}
		payload := b[r.next+h.size : end]
		if r.masked {
			// Once only: the frame is complete and next moves past it.
			applyMask(payload, h.mask)
		}
		if h.op.control() {
			r.takeControl(m, &h, payload, end)
			return true, nil
		}
		if !r.inside {
			r.inside, r.op, r.frames = true, h.op, 0
		}
		if r.at < r.next {
			copy(b[r.at:], b[r.next:end])
		}
		r.frames++
		r.size += h.length
		r.at, r.next = r.at+end-r.next, end
		if h.fin {
			r.finish(m, b)
			return true, nil
		}
	}
	return false, nil
}

// plainHeader is the length of the header of a frame of 126 to 65,535 bytes that is
// not masked.
const plainHeader = 4

// plain reports whether what comes next in b is what nodes send most: a binary
// message in one such frame, of n bytes, that is there and wants nothing else
// looked at.
func (r *Reader) plain(b []byte) (n int, ok bool) {
	if r.inside || r.masked || len(b)-r.next < plainHeader || b[r.next] != 0x80|byte(Binary) || b[r.next+1] != 126 {
		return 0, false
	}
	n = int(b[r.next+2])<<8 | int(b[r.next+3])
	return n, n <= len(b)-r.next-plainHeader && int64(n) <= r.limit
}

// check refuses a data frame that is out of order or too large.
func (r *Reader) check(h *header) error {
	if r.inside != (h.op == Continuation) {
		return &Error{CloseProtocol, "fragments are out of order"}
	}
	if h.length > r.limit || r.size+h.length > r.limit {
		return ErrMessageTooLarge
	}
	// Without this, empty fragments could fill the memory.
	if headers := int64(r.at-r.r+h.size) - r.size; headers > r.limit+minBuffer {
		return ErrMessageTooLarge
	}
	return nil
}

func (r *Reader) finish(m *Message, b []byte) {
	m.Op, m.Size, m.Frames, m.Start, m.End, m.payload = r.op, int(r.size), b[r.r:r.at], r.r, r.at, nil
	if r.frames == 1 {
		m.payload = b[r.at-int(r.size) : r.at]
	}
	r.largest = max(r.largest, r.at-r.r)
	r.consume(r.next)
	r.inside, r.size, r.need = false, 0, 0
}

// consume makes pos the place of the next message.
func (r *Reader) consume(pos int) { r.r, r.at, r.next = pos, pos, pos }

// takeControl hands out a control frame that ends at end. One that stands
// between fragments is copied, as the next fragment may be moved over it.
func (r *Reader) takeControl(m *Message, h *header, payload []byte, end int) {
	*m = Message{Op: h.op, Size: len(payload), payload: payload}
	if r.inside {
		m.payload = append([]byte(nil), payload...)
		r.next = end
		return
	}
	m.Frames, m.Start, m.End = (*r.buf)[r.next:end], r.next, end
	r.consume(end)
}

// Fill waits for more bytes and reads as many as fit. What Next returned
// before is not valid any more. The error is that of the connection; io.EOF
// when it ended.
func (r *Reader) Fill() error {
	r.prepare()
	n, err := r.conn.read(&r.buf, r.w, r.readSize)
	r.took(n)
	if n > 0 {
		// An error that came with the last bytes comes again without them.
		return nil
	}
	if err == nil {
		err = io.EOF
	}
	return err
}

// Serve calls take each time that more bytes have come, as after a Fill, until
// it returns false; then the error is nil. It costs less than as many Fills. The
// connection must not be read otherwise meanwhile.
func (r *Reader) Serve(take func() bool) error {
	if r.conn.raw != nil {
		return r.conn.serve(r, take)
	}
	for {
		if err := r.Fill(); err != nil {
			return err
		}
		if !take() {
			return nil
		}
	}
}

// prepare makes room for a read.
func (r *Reader) prepare() {
	r.compact()
	if r.buf == nil {
		r.w = 0
		r.adapt()
	}
}

// took takes in that n bytes were read.
func (r *Reader) took(n int) {
	r.w += n
	if r.discard {
		r.consume(r.w)
	}
}

// rest gives an empty buffer back before a wait.
func (r *Reader) rest() {
	if r.buf != nil && r.r == r.w {
		giveBuffer(r.buf)
		r.buf, r.w = nil, 0
		r.consume(0)
	}
}

// adapt sets the size of the next buffer after the messages of late: small
// ones share a buffer, larger ones get room for a few.
func (r *Reader) adapt() {
	r.readSize = minBuffer
	if r.largest > minBuffer/4 {
		r.readSize = min(max(4*r.largest, minBuffer), max(2*r.largest, trusted), maxAhead)
	}
	r.largest -= r.largest / 8
}

// compact drops what was consumed: it gives an empty buffer back, moves a
// partial message to the front, and takes a larger buffer when the message is
// known to want one.
func (r *Reader) compact() {
	r.rest()
	if r.buf == nil {
		return
	}
	if gap := r.next - r.at; gap > 0 {
		copy((*r.buf)[r.at:], (*r.buf)[r.next:r.w])
		r.next, r.w = r.at, r.w-gap
	}
	have := r.w - r.r
	want := max(r.need, have+1)
	// An announced length alone gets no more than this.
	want = min(want, max(trusted, 4*have, 2*r.largest))
	if want <= len(*r.buf) {
		// Moving is dear for a large part of a message: only when little room
		// is left behind it, or when it costs next to nothing.
		if r.r > 0 && (len(*r.buf)-r.r < max(want, have+minBuffer/2) || have <= 4096) {
			copy(*r.buf, (*r.buf)[r.r:r.w])
			r.shift(r.r)
		}
		return
	}
	grown := takeBuffer(want)
	copy(*grown, (*r.buf)[r.r:r.w])
	giveBuffer(r.buf)
	r.buf = grown
	r.shift(r.r)
}

func (r *Reader) shift(by int) { r.r, r.w, r.at, r.next = 0, r.w-by, r.at-by, r.next-by }

// Bytes is the part of the buffer from start to end: the frames of one or more
// messages that Next returned since the last Fill.
func (r *Reader) Bytes(start, end int) []byte { return (*r.buf)[start:end] }

// Buffered is how many bytes are held, 0 when the reader holds no buffer.
func (r *Reader) Buffered() int { return r.w - r.r }

// Release gives the buffer back. The reader must not be used after it.
func (r *Reader) Release() {
	if r.buf != nil {
		giveBuffer(r.buf)
		r.buf = nil
	}
}

// Discard throws away what is buffered and everything that Fill reads from now
// on: after a breach of the protocol nothing has a meaning any more.
func (r *Reader) Discard() {
	r.discard = true
	r.consume(r.w)
}
