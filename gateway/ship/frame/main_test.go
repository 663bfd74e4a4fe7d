package frame

import (
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon is the most that a test waits for something that has to come.
const soon = 30 * time.Second

// transports are the two ways in which a Conn reads and writes.
var transports = []struct {
	name string
	pair func(t fatal) (ours, theirs net.Conn)
}{
	{"pipe", func(fatal) (net.Conn, net.Conn) { return net.Pipe() }},
	{"tcp", tcpPair},
}

// fatal is what testing.TB and rapid.T have in common here.
type fatal interface {
	Helper()
	Fatal(args ...any)
}

// tcpPair is a connection over loopback, both ends.
func tcpPair(t fatal) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// scripted is a connection whose reads bring data, at most next() bytes at a
// time, and then the end, together with the last bytes if early is set.
type scripted struct {
	net.Conn
	data  []byte
	next  func() int
	early bool
}

func (s *scripted) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := len(s.data)
	if s.next != nil {
		n = min(n, max(s.next(), 1))
	}
	n = copy(p, s.data[:n])
	s.data = s.data[n:]
	if s.early && len(s.data) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// piece is a frame as a peer could send it, right or wrong.
type piece struct {
	op      Opcode
	more    bool // FIN is not set
	payload string
}

// wire is pieces as bytes.
func wire(masked bool, pieces ...piece) []byte {
	var out []byte
	for _, p := range pieces {
		out = appendPiece(out, masked, p)
	}
	return out
}

func appendPiece(out []byte, masked bool, p piece) []byte {
	at := len(out)
	if masked {
		out = AppendMasked(out, p.op, []byte(p.payload))
	} else {
		out = Append(out, p.op, []byte(p.payload))
	}
	if p.more {
		out[at] &^= 0x80
	}
	return out
}
