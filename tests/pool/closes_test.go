package pool

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// rawClient is a client that can break every rule.
type rawClient struct {
	net.Conn
	br *bufio.Reader
}

func (w *world) dialRaw() *rawClient {
	w.T.Helper()
	conn, err := w.net.DialContext(w.Ctx, "tcp", scene.Address)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { conn.Close() })
	c := &rawClient{Conn: conn, br: upgrade(w.T, conn)}
	if op, _ := c.next(w.T); op != frame.Text {
		w.T.Fatalf("the first frame has opcode %d, the ABI was due", op)
	}
	return c
}

// ended stands for the end of the connection in place of an opcode.
const ended frame.Opcode = 0xff

// next reads one frame, or the end of the connection.
func (c *rawClient) next(t *testing.T) (frame.Opcode, []byte) {
	t.Helper()
	var head [2]byte
	if _, err := io.ReadFull(c.br, head[:]); err != nil {
		if !errors.Is(err, io.EOF) {
			t.Errorf("the connection ended with %v, not in order", err)
		}
		return ended, nil
	}
	n := uint64(head[1] & 0x7f)
	switch n {
	case 126:
		var b [2]byte
		mustRead(t, c.br, b[:])
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		mustRead(t, c.br, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	payload := make([]byte, n)
	mustRead(t, c.br, payload)
	return frame.Opcode(head[0] & 0x0f), payload
}

func mustRead(t *testing.T, r io.Reader, b []byte) {
	t.Helper()
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
}

// closedWith reads up to the Close frame and the end of the connection.
func (c *rawClient) closedWith(t *testing.T) (code int, reason string) {
	t.Helper()
	for {
		op, payload := c.next(t)
		switch op {
		case ended:
			t.Error("the connection ended without a Close frame")
			return 0, ""
		case frame.Close:
			code = frame.CloseCode(payload)
			if len(payload) > 2 {
				reason = string(payload[2:])
			}
			if op, _ := c.next(t); op != ended {
				t.Errorf("a frame with opcode %d came after the Close frame", op)
			}
			return code, reason
		}
	}
}

func (c *rawClient) send(t *testing.T, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func binaryFrame(payload ...byte) []byte { return frame.AppendMasked(nil, frame.Binary, payload) }

// TestCloses is the table of spec "ship" 1.5 as far as a client brings it on by
// what it sends, and of what is better than the peer in 9.1.5: a Close frame
// with a code and a reason always comes, and arrives.
func TestCloses(t *testing.T) {
	request := scene.Everything(2, 90, 10)
	wire := ship.AppendRequest(nil, &request)
	fragment := binaryFrame(1, 2)
	fragment[0] &^= 0x80
	continuation := binaryFrame(1)
	continuation[0] = 0x80
	reserved := binaryFrame(4)
	reserved[0] |= 0x40
	unknownOpcode := binaryFrame(4)
	unknownOpcode[0] = 0x83
	longPing := frame.AppendMasked(nil, frame.Ping, make([]byte, 126))
	for name, c := range map[string]struct {
		send   []byte
		code   int
		reason string
	}{
		"an empty message":                      {binaryFrame(), 1007, "invalid request"},
		"a request that is cut short":           {binaryFrame(wire[:9]...), 1007, "invalid request"},
		"a bool of 2":                           {binaryFrame(append(wire[:len(wire)-1:len(wire)-1], 2)...), 1007, "invalid request"},
		"more positions than bytes":             {binaryFrame(3, 1, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 200, 1), 1007, "invalid request"},
		"a variant that fits no u32":            {binaryFrame(0xff, 0xff, 0xff, 0xff, 0x7f), 1007, "invalid request"},
		"more than max_client_message_bytes":    {frame.AppendMasked(nil, frame.Binary, make([]byte, 65537)), 1009, "message exceeds max_client_message_bytes"},
		"an announced length of 2^62":           {[]byte{0x82, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}, 1009, "message exceeds max_client_message_bytes"},
		"a frame that is not masked":            {frame.Append(nil, frame.Binary, []byte{4}), 1002, "frame is masked the wrong way"},
		"a reserved bit":                        {reserved, 1002, "reserved bits are set"},
		"a reserved opcode":                     {unknownOpcode, 1002, "reserved opcode"},
		"a continuation of nothing":             {continuation, 1002, "fragments are out of order"},
		"a message inside another":              {append(fragment[:len(fragment):len(fragment)], binaryFrame(4)...), 1002, "fragments are out of order"},
		"a ping that is too long":               {longPing, 1002, "a control frame is fragmented or too long"},
		"a Close with a code":                   {frame.AppendMasked(nil, frame.Close, frame.ClosePayload(4321, "bye")), 4321, ""},
		"a Close without a code":                {frame.AppendMasked(nil, frame.Close, nil), 1005, ""},
		"garbage after a breach is not a reset": {append(reserved[:len(reserved):len(reserved)], make([]byte, 1<<20)...), 1002, "reserved bits are set"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
				w.Node(simulator.Options{}, nil)
				defer w.Start()()
				client := w.dialRaw()
				client.send(t, c.send)
				if code, reason := client.closedWith(t); code != c.code || reason != c.reason {
					t.Errorf("closed with %d %q, %d %q was due", code, reason, c.code, c.reason)
				}
			})
		})
	}
}

func TestIdleClientIsClosed(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		w.Node(simulator.Options{}, nil)
		w.Config.IdleTimeout = 10 * time.Second
		defer w.Start()()
		c := w.dialRaw()
		began := time.Now()
		if code, reason := c.closedWith(t); code != 1000 || reason == "" {
			t.Errorf("closed with %d %q", code, reason)
		}
		if took := time.Since(began); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("closed after %v, 10 s were due", took)
		}
	})
}

func TestMaxConnectionsIsRefusedBeforeAnyByte(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		w.Node(simulator.Options{}, nil)
		w.Config.MaxConnections = 1
		defer w.Start()()
		w.dialRaw()
		second, err := w.net.DialContext(w.Ctx, "tcp", scene.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		if n, err := second.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("read %d bytes, error %v", n, err)
		}
	})
}
