package frame

import (
	"bytes"
	"net"
	"strings"
	"testing"
)

// endless is a connection that brings the same bytes again and again.
type endless struct {
	net.Conn
	data []byte
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.data[e.at:])
	e.at = (e.at + n) % len(e.data)
	return n, nil
}

var benchmarks = []struct {
	name string
	wire []byte
}{
	{"300B", wire(false, piece{op: Binary, payload: strings.Repeat("x", 300)})},
	{"64KiB", wire(false, piece{op: Binary, payload: strings.Repeat("x", 64<<10)})},
	{"7frames", wire(false, springResult(strings.Repeat("x", 3000))...)},
}

func BenchmarkReader(b *testing.B) {
	for _, c := range benchmarks {
		for _, masked := range []bool{false, true} {
			name, data := c.name, c.wire
			if masked {
				name, data = name+"/masked", wire(true, piece{op: Binary, payload: strings.Repeat("x", len(data))})
			}
			b.Run(name, func(b *testing.B) {
				r := NewReader(NewConn(&endless{data: bytes.Repeat(data, 100)}), 1<<20, masked, nil)
				defer r.Release()
				var m Message
				var scratch [147]byte
				b.ReportAllocs()
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					for {
						ok, err := r.Next(&m)
						if err != nil {
							b.Fatal(err)
						}
						if ok {
							break
						}
						if err := r.Fill(); err != nil {
							b.Fatal(err)
						}
					}
					m.SetHead(m.Head(scratch[:0]))
				}
			})
		}
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	for _, c := range benchmarks {
		r := NewReader(NewConn(&scripted{}), 1<<20, false, bytes.Repeat(c.wire, 102))
		var m Message
		var scratch [147]byte
		n := testing.AllocsPerRun(100, func() {
			if ok, err := r.Next(&m); !ok || err != nil {
				t.Fatal(ok, err)
			}
			m.SetHead(m.Head(scratch[:0]))
		})
		if n != 0 {
			t.Errorf("%s: %v allocations for a message", c.name, n)
		}
		r.Release()
	}
}
