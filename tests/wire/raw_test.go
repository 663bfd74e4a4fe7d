package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"flotilla/tests/scene"

	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
)

// upgradeRequest is the handshake of a client.
const upgradeRequest = "GET / HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// upgradeAnswer is what it is answered.
const upgradeAnswer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n"

func masked(payload []byte) []byte { return frame.AppendMasked(nil, frame.Binary, payload) }

func blocksRequest(q ship.BlocksRequest) []byte { return masked(ship.AppendRequest(nil, &q)) }

// dialRaw connects to the gateway without a word, and shapes the link before.
func (w *world) dialRaw(up, down Shape) (net.Conn, *Link) {
	w.T.Helper()
	var link *Link
	w.net.OnDial(scene.Address, func(l *Link) {
		link = l
		l.Up.Shape(up)
		l.Down.Shape(down)
	})
	c, err := w.net.DialContext(w.Ctx, "tcp", scene.Address)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { c.Close() })
	return c, link
}

// view is what a client gets that sends all of stream at once: n bytes, and
// whatever comes within a moment behind them. A connection that ends is an
// error of the test.
func (w *world) view(up, down Shape, stream []byte, n int) []byte {
	w.T.Helper()
	c, _ := w.dialRaw(up, down)
	defer c.Close()
	send(w.T, c, stream)
	got := make([]byte, n)
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		w.T.Fatal(err)
	}
	if n, err := io.ReadFull(c, got); err != nil {
		w.T.Errorf("after %d bytes: %v", n, err)
		return got[:n]
	}
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		w.T.Fatal(err)
	}
	rest, err := io.ReadAll(c)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		w.T.Errorf("behind the last byte: %v", err)
	}
	return append(got, rest...)
}

func send(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}
