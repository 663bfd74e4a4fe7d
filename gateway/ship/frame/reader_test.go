package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// item is a message or control frame that a reader gave back.
type item struct {
	op      Opcode
	payload string
}

func (i item) String() string {
	if len(i.payload) > 40 {
		return fmt.Sprintf("%d:%d bytes", i.op, len(i.payload))
	}
	return fmt.Sprintf("%d:%q", i.op, i.payload)
}

// readAll reads until the reader fails. It checks each message in every way
// that there is to look at it, at once and again before the next Fill.
func readAll(t fatal, r *Reader) (items []item, err error) {
	t.Helper()
	var kept []Message
	check := func(m *Message, want string) {
		t.Helper()
		head := m.Head(make([]byte, 0, 147))
		switch {
		case string(m.Payload(nil)) != want:
			t.Fatal("a message has changed before the next Fill")
		case string(head) != want[:min(len(want), 147)]:
			t.Fatal("Head is not the beginning of the payload")
		case m.Frames != nil && !bytes.Equal(r.Bytes(m.Start, m.End), m.Frames):
			t.Fatal("Bytes from Start to End are not the frames")
		}
	}
	first := 0
	for {
		var m Message
		ok, err := r.Next(&m)
		if err != nil {
			return items, err
		}
		if ok {
			items = append(items, item{m.Op, string(m.Payload(nil))})
			kept = append(kept, m)
			if m.Size != len(items[len(items)-1].payload) {
				t.Fatal("Size is not the length of the payload")
			}
			continue
		}
		for i := range kept {
			check(&kept[i], items[first+i].payload)
		}
		first, kept = len(items), kept[:0]
		if err := r.Fill(); err != nil {
			return items, err
		}
	}
}

// plan is a drawn stream: its bytes and what has to come out of it.
type plan struct {
	wire []byte
	want []item
}

var drawSize = rapid.OneOf(
	rapid.IntRange(0, 300), rapid.IntRange(0, 300), rapid.SampledFrom([]int{0, 1, 125, 126, 4096, 40000}),
	rapid.SampledFrom([]int{65520, 65530, 65535, 65536, 65537, 70000, 300000}))

// noise is what payloads are cut from: what is drawn is where.
var noise = pattern(400000)

func drawPlan(t *rapid.T, masked bool) plan {
	var p plan
	control := func() {
		for range rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 5}).Draw(t, "controls") {
			op := rapid.SampledFrom([]Opcode{Ping, Pong}).Draw(t, "control")
			payload := string(noise[:rapid.IntRange(0, 125).Draw(t, "control size")])
			p.wire = appendPiece(p.wire, masked, piece{op: op, payload: payload})
			p.want = append(p.want, item{op, payload})
		}
	}
	for range rapid.IntRange(1, 12).Draw(t, "messages") {
		op := rapid.SampledFrom([]Opcode{Text, Binary}).Draw(t, "op")
		var whole strings.Builder
		fragments := rapid.SampledFrom([]int{1, 1, 2, 3, 7}).Draw(t, "fragments")
		for i := range fragments {
			control()
			n := drawSize.Draw(t, "size")
			at := rapid.IntRange(0, len(noise)-n).Draw(t, "noise")
			f := piece{op: op, more: i < fragments-1, payload: string(noise[at : at+n])}
			if i > 0 {
				f.op = Continuation
			}
			p.wire = appendPiece(p.wire, masked, f)
			whole.WriteString(f.payload)
		}
		p.want = append(p.want, item{op, whole.String()})
	}
	control()
	return p
}

func TestReaderGivesBackWhatWasSent(t *testing.T) {
	for _, tr := range transports {
		for _, masked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/masked=%v", tr.name, masked), rapid.MakeCheck(func(t *rapid.T) {
				p := drawPlan(t, masked)
				chunks := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 200000)), 1, 20).Draw(t, "chunks")
				early := rapid.IntRange(0, min(len(p.wire), 2000)).Draw(t, "early")
				ours, theirs := tr.pair(t)
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					defer theirs.Close()
					for i, rest := 0, p.wire[early:]; len(rest) > 0; i++ {
						// Many tiny chunks of a long stream would show no more than some do.
						n := min(len(rest), max(chunks[i%len(chunks)], len(p.wire)/400))
						if _, err := theirs.Write(rest[:n]); err != nil {
							return
						}
						rest = rest[n:]
					}
				}()
				r := NewReader(NewConn(ours), 1<<30, masked, p.wire[:early])
				got, err := readAll(t, r)
				r.Release()
				ours.Close()
				<-sent
				if err != io.EOF {
					t.Fatalf("got error %v", err)
				}
				compare(t, got, p.want)
			}))
		}
	}
}

func compare(t interface{ Fatalf(string, ...any) }, got, want []item) {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("item %d is %v, want %v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d items came, want %d", len(got), len(want))
	}
}

func TestReaderRefuses(t *testing.T) {
	const limit = 1000
	tooLarge := -1
	header64 := func(n uint64) string {
		return "\x82\x7f" + string([]byte{byte(n >> 56), byte(n >> 48), byte(n >> 40), byte(n >> 32), byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	}
	half := strings.Repeat("x", limit/2)
	for _, c := range []struct {
		name string
		wire string
		want int // a close code, or tooLarge
	}{
		{"a reserved bit", "\xc2\x00", CloseProtocol},
		{"a reserved opcode", "\x83\x00", CloseProtocol},
		{"a reserved control opcode", "\x8b\x00", CloseProtocol},
		{"a fragmented ping", "\x09\x00", CloseProtocol},
		{"a ping of 126 bytes", "\x89\x7e\x00\x7e", CloseProtocol},
		{"a length with the top bit", "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00", CloseProtocol},
		{"masked", string(wire(true, piece{op: Binary, payload: "x"})), CloseProtocol},
		{"a masked ping", string(wire(true, piece{op: Ping})), CloseProtocol},
		{"a continuation of nothing", string(wire(false, piece{op: Continuation})), CloseProtocol},
		{"a continuation behind a whole message", string(wire(false, piece{op: Binary}, piece{op: Continuation})), CloseProtocol},
		{"a message inside another", string(wire(false, piece{op: Binary, more: true}, piece{op: Binary})), CloseProtocol},
		{"a first fragment inside another message", string(wire(false, piece{op: Text, more: true}, piece{op: Text, more: true})), CloseProtocol},
		{"a frame above the limit", header64(limit + 1), tooLarge},
		{"a frame of 4 GiB", header64(1 << 32), tooLarge},
		{"the longest frame", header64(math.MaxInt64), tooLarge},
		{"fragments above the limit", string(wire(false, piece{op: Binary, more: true, payload: half}, piece{op: Ping}, piece{payload: half, more: true})) + "\x00\x01", tooLarge},
		{"a long fragment behind a short one", string(wire(false, piece{op: Binary, more: true})) + "\x00\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", tooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			// What stands before the breach must come out.
			good := []item{{Binary, "before"}, {Ping, "p"}}
			data := append(wire(false, piece{op: Binary, payload: "before"}, piece{op: Ping, payload: "p"}), c.wire...)
			for _, chunk := range []int{1, len(data)} {
				r := NewReader(NewConn(&scripted{data: data, next: func() int { return chunk }}), limit, false, nil)
				got, err := readAll(t, r)
				for range 2 {
					var breach *Error
					code := 0
					if errors.As(err, &breach) {
						code = breach.Code
					} else if errors.Is(err, ErrMessageTooLarge) {
						code = tooLarge
					}
					if code != c.want {
						t.Fatalf("chunks of %d: got %v, want %d", chunk, err, c.want)
					}
					// It stays so.
					_, err = r.Next(new(Message))
				}
				compare(t, got[:min(len(got), 2)], good)
				r.Release()
			}
		})
	}
	r := NewReader(NewConn(&scripted{data: wire(false, piece{op: Binary, payload: "x"})}), limit, true, nil)
	var breach *Error
	if _, err := readAll(t, r); !errors.As(err, &breach) || breach.Code != CloseProtocol {
		t.Errorf("a client's frame without a mask: got %v", err)
	}
}

func TestReaderLimitIsInclusive(t *testing.T) {
	const limit = 70000
	text := strings.Repeat("x", limit)
	want := []item{{Binary, text}, {Binary, text}, {Ping, "longer than a limit of 1"}, {Binary, ""}}
	data := wire(false, piece{op: Binary, payload: text},
		piece{op: Binary, more: true, payload: text[1:]}, piece{more: true}, piece{payload: text[:1]},
		piece{op: Ping, payload: want[2].payload}, piece{op: Binary})
	got, err := readAll(t, NewReader(NewConn(&scripted{data: data}), limit, false, nil))
	if err != io.EOF {
		t.Fatal(err)
	}
	compare(t, got, want)
	got, err = readAll(t, NewReader(NewConn(&scripted{data: wire(false, piece{op: Ping, payload: want[2].payload})}), 1, false, nil))
	if err != io.EOF {
		t.Fatal(err)
	}
	compare(t, got, want[2:3])
}

// TestReaderWithoutLimit announces the longest frames to a reader whose limit
// lets everything pass: no sum may overflow.
func TestReaderWithoutLimit(t *testing.T) {
	longest := "\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"
	for _, data := range []string{"\x82" + longest, "\x02\x01x\x00" + longest, "\x02\x01x\x00\x01x\x80" + longest} {
		_, err := readAll(t, NewReader(NewConn(&scripted{data: []byte(data)}), math.MaxInt64, false, nil))
		if !errors.Is(err, ErrMessageTooLarge) {
			t.Errorf("%x: got %v", data, err)
		}
	}
}

// TestReaderTrustsNoLength checks that a buffer grows with what has come, not
// with what was announced.
func TestReaderTrustsNoLength(t *testing.T) {
	const announced = min(256<<20, maxLimit-1)
	for _, c := range []struct {
		name   string
		before []piece
		came   int
		most   int
	}{
		{"nothing came", nil, 0, trusted},
		{"a bit came", nil, 100 << 10, trusted},
		{"half of what is trusted came", nil, 512 << 10, 8 * 512 << 10},
		{"two MiB came", nil, 2 << 20, 8 * 2 << 20},
		{"in a later fragment", []piece{{op: Binary, more: true, payload: "x"}}, 0, trusted},
		{"behind a ping", []piece{{op: Binary, more: true, payload: "x"}, {op: Ping}}, 0, trusted},
	} {
		data := wire(false, c.before...)
		first := byte(Binary)
		if c.before != nil {
			first = 0
		}
		data = append(data, 0x80|first, 127, 0, 0, 0, 0)
		data = binary.BigEndian.AppendUint32(data, announced)
		data = append(data, make([]byte, c.came)...)
		r := NewReader(NewConn(&scripted{data: data, next: func() int { return 64 << 10 }}), announced+1, false, nil)
		if _, err := readAll(t, r); err != io.EOF {
			t.Fatalf("%s: %v", c.name, err)
		}
		if n := len(*r.buf); n > c.most {
			t.Errorf("%s: a buffer of %d bytes, want %d at most", c.name, n, c.most)
		}
		r.Release()
	}
}

func TestReaderBoundsHeaders(t *testing.T) {
	for _, fragment := range []string{"", "x"} {
		data := wire(true, piece{op: Binary, more: true})
		one := wire(true, piece{more: true, payload: fragment})
		endless := &scripted{data: append(data, bytes.Repeat(one, 1<<20)...)}
		r := NewReader(NewConn(endless), 4096, true, nil)
		_, err := readAll(t, r)
		if !errors.Is(err, ErrMessageTooLarge) {
			t.Fatalf("fragments of %d bytes: got %v", len(fragment), err)
		}
		if n := len(*r.buf); n > 4*minBuffer {
			t.Errorf("fragments of %d bytes: the buffer has grown to %d bytes", len(fragment), n)
		}
		r.Release()
	}
	// A message of tiny fragments passes as long as it is no flood.
	var data []byte
	want := strings.Repeat("x", 4096)
	data = wire(true, piece{op: Text, more: true})
	for range want {
		data = appendPiece(data, true, piece{more: true, payload: "x"})
	}
	data = appendPiece(data, true, piece{})
	got, err := readAll(t, NewReader(NewConn(&scripted{data: data, next: func() int { return 100 }}), 4096, true, nil))
	if err != io.EOF {
		t.Fatal(err)
	}
	compare(t, got, []item{{Text, want}})
}

// TestReaderGrowsInFewSteps counts the buffers that one long message takes:
// each of them costs a copy of all that has come before.
func TestReaderGrowsInFewSteps(t *testing.T) {
	const size = 40 << 20
	data := append(wire(false, piece{op: Binary, more: true, payload: "x"}), appendHeader(nil, Binary, size, 0)...)
	data[3] = 0x80
	data = append(data, make([]byte, size)...)
	data = append(data, wire(false, piece{op: Binary, payload: "small"})...)
	r := NewReader(NewConn(&scripted{data: data, next: func() int { return 64 << 10 }}), 1<<30, false, nil)
	buffers := 0
	var last *[]byte
	var m Message
	for {
		ok, err := r.Next(&m)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			break
		}
		if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
		if r.buf != last {
			buffers++
			last = r.buf
		}
	}
	if m.Size != size+1 {
		t.Fatalf("a message of %d bytes came, want %d", m.Size, size+1)
	}
	if buffers > 8 {
		t.Errorf("%d buffers were taken for one message", buffers)
	}
	// What comes behind it is not given as much.
	for {
		ok, err := r.Next(&m)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			break
		}
		if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
	}
	r.compact()
	if err := r.Fill(); err != io.EOF {
		t.Fatal(err)
	}
	if r.readSize > maxAhead {
		t.Errorf("after a message of %d bytes the next buffer has %d", size, r.readSize)
	}
	r.Release()
}

// TestReaderTakesPingsOutInPlace: a flood of pings inside a message must not
// move what is behind each of them.
func TestReaderTakesPingsOutInPlace(t *testing.T) {
	data := wire(true, piece{op: Text, more: true, payload: "begin "})
	want := []item{}
	for range 2000 {
		data = appendPiece(data, true, piece{op: Ping, payload: "p"})
		want = append(want, item{Ping, "p"})
	}
	data = appendPiece(data, true, piece{payload: "end"})
	want = append(want, item{Text, "begin end"})
	r := NewReader(NewConn(&scripted{}), 100, true, data)
	w := r.w
	var got []item
	for range want {
		var m Message
		if ok, err := r.Next(&m); !ok || err != nil {
			t.Fatal(ok, err)
		}
		got = append(got, item{m.Op, string(m.Payload(nil))})
		if r.w != w {
			t.Fatal("bytes that were not looked at yet have been moved")
		}
	}
	compare(t, got, want)
	r.Release()
}

func TestNeighboursCanBePassedOnTogether(t *testing.T) {
	data := wire(false, springResult(strings.Repeat("a", 500))...)
	data = append(data, wire(false, piece{op: Binary, payload: "b"})...)
	ping := wire(false, piece{op: Ping, payload: "p"})
	last := wire(false, piece{op: Binary, payload: "c"})
	r := NewReader(NewConn(&scripted{}), 1000, false, append(append(bytes.Clone(data), ping...), last...))
	var m [4]Message
	for i := range m {
		if ok, err := r.Next(&m[i]); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if m[0].End != m[1].Start || m[1].End != m[2].Start || m[2].End != m[3].Start {
		t.Errorf("places do not touch: %d-%d, %d-%d, %d-%d, %d-%d", m[0].Start, m[0].End, m[1].Start, m[1].End, m[2].Start, m[2].End, m[3].Start, m[3].End)
	}
	if !bytes.Equal(r.Bytes(m[0].Start, m[1].End), data) || !bytes.Equal(r.Bytes(m[3].Start, m[3].End), last) {
		t.Error("the bytes of neighbours are not those that came")
	}
	r.Release()
}

func TestDiscard(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			ours, theirs := tr.pair(t)
			defer ours.Close()
			r := NewReader(NewConn(ours), 100, false, wire(false, piece{op: Binary, payload: "one"}, piece{op: Binary, payload: "two"}))
			var m Message
			if ok, err := r.Next(&m); !ok || err != nil {
				t.Fatal(ok, err)
			}
			r.Discard()
			if ok, err := r.Next(&m); ok || err != nil || r.Buffered() != 0 {
				t.Errorf("got %v, %v and %d bytes after Discard", ok, err, r.Buffered())
			}
			go func() {
				defer theirs.Close()
				for range 100 {
					if _, err := theirs.Write([]byte("\xff\xff nothing that has a meaning")); err != nil {
						return
					}
				}
			}()
			for {
				err := r.Fill()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if ok, err := r.Next(&m); ok || err != nil || r.Buffered() != 0 {
					t.Fatalf("got %v, %v and %d bytes", ok, err, r.Buffered())
				}
			}
			r.Release()
		})
	}
}

func TestDiscardInsideAMessage(t *testing.T) {
	data := append(wire(true, piece{op: Binary, more: true, payload: "x"}, piece{op: Ping}), 0xff, 0xff, 0xff)
	r := NewReader(NewConn(&scripted{data: bytes.Repeat([]byte("x"), 1000)}), 100, true, data)
	var m Message
	if ok, err := r.Next(&m); !ok || err != nil || m.Op != Ping {
		t.Fatal(ok, err, m.Op)
	}
	if _, err := r.Next(&m); err == nil {
		t.Fatal("there is no error to begin with")
	}
	r.Discard()
	for err := error(nil); err != io.EOF; {
		if ok, err := r.Next(&m); ok || err != nil {
			t.Fatal(ok, err)
		}
		if err = r.Fill(); err != nil && err != io.EOF {
			t.Fatal(err)
		}
	}
	r.Release()
}

func TestRelease(t *testing.T) {
	r := NewReader(NewConn(&scripted{}), 100, false, []byte("x"))
	if r.Buffered() != 1 {
		t.Errorf("%d bytes are buffered, want 1", r.Buffered())
	}
	r.Release()
	r.Release()
	if r.buf != nil {
		t.Error("the buffer is still held")
	}
	NewReader(NewConn(&scripted{}), 100, false, nil).Release()
}

func TestEarlyBytesAreCopied(t *testing.T) {
	early := wire(false, piece{op: Binary, payload: "early"})
	r := NewReader(NewConn(&scripted{}), 100, false, early)
	clear(early)
	got, err := readAll(t, r)
	if err != io.EOF {
		t.Fatal(err)
	}
	compare(t, got, []item{{Binary, "early"}})
}

// TestEndWithTheLastBytes: TLS tells of the end together with the last bytes.
func TestEndWithTheLastBytes(t *testing.T) {
	r := NewReader(NewConn(&scripted{data: wire(false, piece{op: Binary, payload: "last"}, piece{op: Close}), early: true}), 100, false, nil)
	got, err := readAll(t, r)
	if err != io.EOF {
		t.Fatal(err)
	}
	compare(t, got, []item{{Binary, "last"}, {Close, ""}})
}

func TestFillEnds(t *testing.T) {
	for _, tr := range transports {
		for _, half := range []bool{false, true} {
			open := func(t *testing.T) (*Reader, net.Conn, net.Conn) {
				ours, theirs := tr.pair(t)
				t.Cleanup(func() { ours.Close(); theirs.Close() })
				var early []byte
				if half {
					early = []byte("\x82")
				}
				r := NewReader(NewConn(ours), 100, false, early)
				t.Cleanup(r.Release)
				if ok, err := r.Next(new(Message)); ok || err != nil {
					t.Fatal(ok, err)
				}
				return r, ours, theirs
			}
			name := fmt.Sprintf("%s/half=%v/", tr.name, half)
			t.Run(name+"deadline", func(t *testing.T) {
				r, ours, _ := open(t)
				if err := ours.SetReadDeadline(time.Now().Add(5 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				if err := r.Fill(); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
			t.Run(name+"a deadline set meanwhile", func(t *testing.T) {
				r, ours, _ := open(t)
				failed := make(chan error)
				go func() { failed <- r.Fill() }()
				if err := ours.SetReadDeadline(time.Unix(1, 0)); err != nil {
					t.Fatal(err)
				}
				if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
			t.Run(name+"closed by us", func(t *testing.T) {
				r, ours, _ := open(t)
				failed := make(chan error)
				go func() { failed <- r.Fill() }()
				ours.Close()
				if err := <-failed; err == nil || err == io.EOF {
					t.Errorf("got %v", err)
				}
			})
			t.Run(name+"closed by the peer", func(t *testing.T) {
				r, _, theirs := open(t)
				theirs.Close()
				if err := r.Fill(); err != io.EOF {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

func TestLastRead(t *testing.T) {
	for _, tr := range transports {
		ours, theirs := tr.pair(t)
		c := NewConn(ours)
		opened := c.LastRead()
		r := NewReader(c, 100, false, nil)
		go func() { _, _ = theirs.Write([]byte("\x82")) }()
		if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
		first := c.LastRead()
		if !first.After(opened) {
			t.Errorf("%s: %v after a read, %v before", tr.name, first, opened)
		}
		theirs.Close()
		if err := r.Fill(); err != io.EOF {
			t.Fatal(err)
		}
		if c.LastRead() != first {
			t.Errorf("%s: the end of the stream counts as bytes", tr.name)
		}
		c.Touch()
		if !c.LastRead().After(first) {
			t.Errorf("%s: Touch does nothing", tr.name)
		}
		r.Release()
		ours.Close()
	}
}

// reference cuts a stream as RFC 6455 says, the slow way.
func reference(b []byte, masked bool, limit int64) (items []item, fails string) {
	const protocol, large = "protocol", "too large"
	var op Opcode
	var inside bool
	var message []byte
	headers := int64(0)
	for {
		if len(b) < 2 {
			return items, ""
		}
		first, second := b[0], b[1]
		o, length, size := Opcode(first&15), int64(second&0x7f), 2
		isControl := o == Close || o == Ping || o == Pong
		switch {
		case first&0x70 != 0, o > Binary && !isControl, isControl && (first < 0x80 || length > 125):
			return items, protocol
		}
		if extra := map[int64]int{126: 2, 127: 8}[length]; extra > 0 {
			if len(b) < 2+extra {
				return items, ""
			}
			if extra == 8 && b[2] >= 0x80 {
				return items, protocol
			}
			length, size = 0, 2+extra
			for _, d := range b[2:size] {
				length = length<<8 | int64(d)
			}
		}
		isMasked := second >= 0x80
		var key [4]byte
		if isMasked {
			if len(b) < size+4 {
				return items, ""
			}
			copy(key[:], b[size:])
			size += 4
		}
		if isMasked != masked || !isControl && inside != (o == Continuation) {
			return items, protocol
		}
		if !isControl {
			headers += int64(size)
			if length > limit || int64(len(message))+length > limit || headers > limit+minBuffer {
				return items, large
			}
		}
		if int64(len(b)-size) < length {
			return items, ""
		}
		payload := bytes.Clone(b[size : size+int(length)])
		for i := range payload {
			payload[i] ^= key[i%4]
		}
		b = b[size+int(length):]
		if isControl {
			items = append(items, item{o, string(payload)})
			continue
		}
		if !inside {
			inside, op = true, o
		}
		message = append(message, payload...)
		if first >= 0x80 {
			items = append(items, item{op, string(message)})
			inside, message, headers = false, nil, 0
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, masked := range []bool{false, true} {
		f.Add(wire(masked, springResult(strings.Repeat("s", 500))...), masked, uint16(1000), uint8(7), uint8(3))
		f.Add(wire(masked, piece{op: Binary, more: true, payload: "a"}, piece{op: Ping, payload: "p"}, piece{op: Close}, piece{payload: "b"}, piece{op: Text}), masked, uint16(2), uint8(1), uint8(0))
		f.Add(append(wire(masked, piece{op: Binary, payload: strings.Repeat("x", 200)}), "\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"...), masked, uint16(65535), uint8(100), uint8(255))
		f.Add([]byte("\x02\x00\x00\x00\x00\x00\x89\x00\x80\x00"), masked, uint16(0), uint8(3), uint8(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, masked bool, limit uint16, chunk, early uint8) {
		want, fails := reference(data, masked, int64(limit))
		split := min(int(early), len(data))
		conn := &scripted{data: bytes.Clone(data[split:]), next: func() int { chunk = chunk*5 + 1; return int(chunk) }}
		r := NewReader(NewConn(conn), int64(limit), masked, data[:split])
		got, err := readAll(t, r)
		var breach *Error
		failed := ""
		switch {
		case errors.As(err, &breach):
			failed = "protocol"
		case errors.Is(err, ErrMessageTooLarge):
			failed = "too large"
		case err != io.EOF:
			t.Fatalf("got error %v", err)
		}
		if failed != fails {
			t.Fatalf("got %v, want %q", err, fails)
		}
		compare(t, got, want)
		r.Release()
	})
}
