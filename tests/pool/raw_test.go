package pool

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"

	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
)

// upgradeAndAsk does a client's handshake on conn, sends a request and reads
// nothing more.
func upgradeAndAsk(t *testing.T, conn net.Conn, q ship.BlocksRequest) {
	t.Helper()
	upgrade(t, conn)
	if _, err := conn.Write(request(&q)); err != nil {
		t.Fatal(err)
	}
}

// request is a get_blocks request as it goes over the wire.
func request(q *ship.BlocksRequest) []byte {
	return frame.AppendMasked(nil, frame.Binary, ship.AppendRequest(nil, q))
}

// upgrade does a client's handshake on conn. What it has read beyond the head
// of the answer is in the reader.
func upgrade(t *testing.T, conn net.Conn) *bufio.Reader {
	t.Helper()
	const request = "GET / HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols || !strings.EqualFold(resp.Header.Get("Upgrade"), "websocket") {
		t.Fatalf("the upgrade was answered with %s", resp.Status)
	}
	return br
}
