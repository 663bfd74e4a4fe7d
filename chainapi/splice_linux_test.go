package chainapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// tcpPair is both ends of a loopback connection.
func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close(); accepted.Close() })
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

// spliced is a body on its way from a node to a client.
type spliced struct {
	node, client *net.TCPConn
	raw          *steady
	wire         *wire
	r            *response
	c            *conn
}

func newSpliced(t *testing.T, length int, gap, stall time.Duration) *spliced {
	toNode, node := tcpPair(t)
	toClient, client := tcpPair(t)
	s := &spliced{node: node, client: client}
	s.raw = &steady{Conn: toClient, limit: func() time.Duration { return stall }}
	s.wire = &wire{Conn: toNode, gap: gap}
	s.wire.in = bufio.NewReaderSize(s.wire, readBuffer)
	s.r = &response{length: length, wire: s.wire, fixed: io.LimitedReader{R: s.wire.in, N: int64(length)}}
	s.c = &conn{raw: s.raw, Conn: s.raw}
	return s
}

// Every byte comes, in order, and last is called before the last of them are
// written, whatever the pace of either side.
func TestSplice(t *testing.T) {
	const length = 3<<20 + 12345
	body := make([]byte, length)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	for what, pieces := range map[string]int{"at once": length, "in pieces": 1000} {
		t.Run(what, func(t *testing.T) {
			s := newSpliced(t, length, time.Minute, time.Minute)
			go func() {
				for rest := body; len(rest) > 0; {
					n, err := s.node.Write(rest[:min(pieces, len(rest))])
					if err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
			}()
			got := make(chan []byte, 1)
			go func() {
				all := make([]byte, length)
				n, err := io.ReadFull(s.client, all)
				if err != nil {
					t.Error(err)
				}
				got <- all[:n]
			}()
			left := 0
			done, err := s.c.splice(s.r, func() { left++ })
			if !done || err != nil || left != 1 || !s.r.whole || s.r.fixed.N != 0 {
				t.Errorf("%v, %v, left %d times, whole is %v, %d bytes are due", done, err, left, s.r.whole, s.r.fixed.N)
			}
			if all := <-got; !bytes.Equal(all, body) {
				t.Errorf("%d bytes came, and not the same", len(all))
			}
		})
	}
}

// What cannot be spliced is left as it was.
func TestSpliceOnlyWhatCanBe(t *testing.T) {
	for what, change := range map[string]func(*spliced){
		"unknown length":       func(s *spliced) { s.r.length = -1 },
		"a small rest":         func(s *spliced) { s.r.fixed.N = spliceLeast - 1 },
		"read ahead to judge":  func(s *spliced) { s.r.begin = []byte("x") },
		"TLS":                  func(s *spliced) { s.c.Conn = struct{ net.Conn }{s.raw} },
		"no TCP to the client": func(s *spliced) { s.raw.Conn = struct{ net.Conn }{s.raw.Conn} },
		"no TCP to the node":   func(s *spliced) { s.wire.Conn = struct{ net.Conn }{s.wire.Conn} },
		"bytes in the buffer": func(s *spliced) {
			if _, err := s.node.Write([]byte("x")); err != nil {
				panic(err)
			}
			if _, err := s.wire.in.Peek(1); err != nil {
				panic(err)
			}
		},
	} {
		s := newSpliced(t, 1<<20, time.Minute, time.Minute)
		change(s)
		before := s.r.fixed.N
		if done, err := s.c.splice(s.r, func() { t.Errorf("%s: it was at its end", what) }); done || err != nil || s.r.fixed.N != before {
			t.Errorf("%s: %v, %v", what, done, err)
		}
	}
}

func TestSpliceIsNotThere(t *testing.T) {
	for code, want := range map[syscall.Errno]bool{
		syscall.EINVAL: true, syscall.ENOSYS: true, syscall.EPERM: true, syscall.EOPNOTSUPP: true,
		syscall.ECONNRESET: false, syscall.EPIPE: false, syscall.ENOMEM: false, syscall.EIO: false,
	} {
		if got := cannot(os.NewSyscallError("splice", code)); got != want {
			t.Errorf("%v means that it cannot be done: %v", code, got)
		}
	}
	if cannot(os.ErrDeadlineExceeded) || cannot(net.ErrClosed) {
		t.Error("the end of a wait or of a connection means that it cannot be done")
	}
}

// A node that stops sending, or leaves, is told from a client that takes
// nothing.
func TestSpliceEnds(t *testing.T) {
	const length = 64 << 20
	forever := time.Hour
	soon := 200 * time.Millisecond
	for what, c := range map[string]struct {
		gap, stall time.Duration
		sends      int
		then       func(*spliced)
		upstream   bool
		want       func(error) bool
		stalled    bool
	}{
		"the node stops":           {soon, forever, 1000, func(*spliced) {}, true, isTimeout, false},
		"the node leaves":          {forever, forever, 1000, func(s *spliced) { s.node.Close() }, true, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }, false},
		"the client takes nothing": {forever, soon, length, func(*spliced) {}, false, isTimeout, true},
		"the client leaves":        {forever, forever, length, func(s *spliced) { s.client.Close() }, false, func(err error) bool { return err != nil && !isTimeout(err) }, false},
		"the port is killed":       {forever, forever, length, func(s *spliced) { s.raw.Close() }, false, func(err error) bool { return errors.Is(err, net.ErrClosed) }, false},
	} {
		t.Run(what, func(t *testing.T) {
			s := newSpliced(t, length, c.gap, c.stall)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				// It fails in the cases in which nobody takes it.
				_, _ = s.node.Write(make([]byte, c.sends))
				if c.sends < length {
					c.then(s)
				}
			}()
			if c.sends == length {
				go func() {
					// It is under way by then.
					_, _ = io.CopyN(io.Discard, s.client, 1<<20)
					c.then(s)
				}()
			}
			done, err := s.c.splice(s.r, func() { t.Error("it was at its end") })
			var stopped upstreamError
			if upstream := errors.As(err, &stopped); upstream {
				err = stopped.error
				if !c.upstream {
					t.Errorf("it is the node's: %v", err)
				}
			} else if c.upstream {
				t.Errorf("it is not the node's: %v", err)
			}
			if !done || !c.want(err) || s.raw.stalled.Load() != c.stalled {
				t.Errorf("%v, %v, stalled is %v", done, err, s.raw.stalled.Load())
			}
			s.wire.Close()
			<-sent
		})
	}
}
