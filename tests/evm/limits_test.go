package evm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/simulator"

	"github.com/gorilla/websocket"
)

// What is above the rate of an address is refused with the id of the call, over
// WebSocket as well, subscriptions included.
func TestRateOverWebSocket(t *testing.T) {
	s := newScene(t, 1, "limits {\n rate = 1\n burst = 3\n}\n")
	c := s.dial()
	for i, method := range []string{"eth_chainId", "eth_subscribe", "eth_chainId"} {
		if a := c.call(i, method, `["newHeads"]`); a.Error != nil {
			t.Fatal(a)
		}
	}
	for i, method := range []string{"eth_chainId", "eth_subscribe", "eth_unsubscribe"} {
		if a := c.call(10+i, method, `["newHeads"]`); a.Error == nil || a.Error.Code != -32005 {
			t.Fatal(method, a)
		}
	}
	if n := s.nodes[0].Calls("eth_subscribe"); n != 2 { // One is that of the monitor.
		t.Fatalf("the node has had %d subscriptions", n)
	}
	t.Run("a batch", func(t *testing.T) {
		list := s.batchOf(call(7, "eth_chainId", "[]"), call(8, "eth_chainId", "[]"))
		if len(list) != 2 || list[0].Error == nil || string(list[0].ID) != "7" || list[1].Error == nil || string(list[1].ID) != "8" {
			t.Fatal(list)
		}
	})
}

// A batch that is too long is refused, whatever the routing and the way.
func TestBatchLength(t *testing.T) {
	batch := "[" + strings.Repeat(call(1, "eth_chainId", "[]")+",", 2) + call(1, "eth_chainId", "[]") + "]"
	for _, routing := range []string{"block", "freshest"} {
		s := newScene(t, 1, fmt.Sprintf("routing = %q\nlimits { max_batch = 2 }\n", routing))
		_, text, err := post(s.client, "http://"+s.addr+"/", batch)
		if err != nil || !strings.Contains(string(text), `"error":{"code":-32600,"message":"batch too large"}`) {
			t.Fatalf("%s: %s %v", routing, text, err)
		}
		conn, _, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.WriteMessage(websocket.TextMessage, []byte(batch)); err != nil {
			t.Fatal(err)
		}
		if _, text, err = conn.ReadMessage(); err != nil || !strings.Contains(string(text), "batch too large") {
			t.Fatalf("%s over WebSocket: %s %v", routing, text, err)
		}
		if n := s.nodes[0].Calls("eth_chainId"); n > 1 { // One is that of the monitor.
			t.Fatalf("%s: the node has had %d calls", routing, n)
		}
	}
}

// Messages of a WebSocket are bounded: a client that sends more is closed with
// 1009, and an answer that is longer becomes an error with the id of the call.
func TestMessageSize(t *testing.T) {
	s := newScene(t, 1, strings.Replace(settings, "websocket {", "websocket {\n max_message = \"64KiB\"\n", 1))
	for _, size := range []int{100 << 10, 5 << 20} { // Whole in memory, and a stream.
		s.nodes[0].Break(simulator.EVMFaults{Errors: map[string]string{"eth_call": fmt.Sprintf(`{"code":3,"message":"execution reverted: %s"}`, strings.Repeat("x", size))}})
		c := s.dial()
		if a := c.call(7, "eth_call", `[{},"latest"]`); a.Error == nil || !strings.Contains(a.Error.Message, "larger than 65536 bytes") {
			t.Fatalf("%.200v", a)
		}
		if a := c.call(8, "eth_chainId", "[]"); a.Error != nil {
			t.Fatal(a)
		}
	}
	// Over HTTP there is no such limit.
	if a := s.call("eth_call", `[{},"latest"]`); a.Error == nil || len(a.Error.Message) < 5<<20 {
		t.Fatalf("%.200v", a)
	}
	// What the client still sends must not cost it the Close frame.
	for _, rotate := range []config.OnRotate{config.RotateMove, config.RotateClose} {
		if rotate == config.RotateClose {
			cfg := s.config(strings.Replace(settings, "websocket {", "websocket {\n max_message = \"64KiB\"\n", 1))
			cfg.EVM[0].WebSocket.OnRotate = rotate
			s.apply(cfg)
		}
		conn, _, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.WriteMessage(websocket.TextMessage, []byte(call(1, "eth_call", `["`+strings.Repeat("x", 8<<20)+`"]`))); err != nil {
			t.Fatal(rotate, err)
		}
		_, _, err = conn.ReadMessage()
		var closed *websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != websocket.CloseMessageTooBig {
			t.Fatal(rotate, err)
		}
	}
}

// Clients that send a request slowly, or none for long, are closed.
func TestTimeouts(t *testing.T) {
	s := newScene(t, 1, "limits {\n header_timeout = \"150ms\"\n idle_timeout = \"150ms\"\n}\n")
	open := func() (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		return conn, bufio.NewReader(conn)
	}
	const head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: "
	body := call(1, "eth_chainId", "[]")
	for name, part := range map[string]string{
		"half a head": head[:20], "a head without its body": head + "100\r\n\r\n{", "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			conn, from := open()
			io.WriteString(conn, part)
			resp, err := http.ReadResponse(from, nil)
			if err != nil || resp.StatusCode != http.StatusRequestTimeout {
				t.Fatal(resp, err)
			}
		})
	}
	t.Run("idle after a request", func(t *testing.T) {
		conn, from := open()
		fmt.Fprintf(conn, "%s%d\r\n\r\n%s", head, len(body), body)
		resp, err := http.ReadResponse(from, nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), "0x539") {
			t.Fatalf("%s %v", text, err)
		}
		if _, err := from.ReadByte(); err != io.EOF {
			t.Fatal(err)
		}
	})
}

// A client beyond max_connections is closed at once.
func TestMaxConnections(t *testing.T) {
	s := newScene(t, 1, "limits { max_connections = 2 }\n")
	s.dial()
	s.dial()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Fatal("it is served")
	}
	if got := s.metric("connections_rejected_total"); got != 1 {
		t.Fatalf("%d were rejected", got)
	}
}
