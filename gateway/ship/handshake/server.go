package handshake

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Server answers a client's request: any path, Host and Origin, no extension and
// no sub-protocol. timeout is for all of it; 0 is no limit. The Head that it
// returns is the request's, with what the client has sent right behind it; the
// caller releases it. A request that is refused has been answered when Server
// returns; what is no HTTP gets no answer.
func Server(conn net.Conn, timeout time.Duration) (*Head, error) {
	if timeout > 0 {
		if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
			return nil, err
		}
	}
	h := heads.Get().(*Head)
	if err := serve(conn, h); err != nil {
		h.Release()
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

func serve(conn net.Conn, h *Head) error {
	if err := h.read(conn); err != nil {
		return fmt.Errorf("no upgrade request came: %w", err)
	}
	method, rest, _ := bytes.Cut(h.first, []byte(" "))
	target, version, ok := bytes.Cut(rest, []byte(" "))
	if !ok || !isToken(method) || len(target) == 0 || len(version) != len("HTTP/1.1") || !bytes.HasPrefix(version, []byte("HTTP/")) {
		return errors.New("no upgrade request came: the first line is no request of HTTP")
	}
	key := h.Value("Sec-WebSocket-Key")
	if status, why := h.refuse(method, version, key); why != "" {
		answer := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nConnection: close\r\nSec-WebSocket-Version: 13\r\nContent-Length: %d\r\n\r\n%s\n",
			status, http.StatusText(status), len(why)+1, why)
		// The refusal is the error that counts.
		_, _ = io.WriteString(conn, answer)
		return errors.New(why)
	}
	accept := proof(key)
	answer := make([]byte, 0, 160)
	answer = append(answer, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "...)
	answer = append(answer, accept[:]...)
	_, err := conn.Write(append(answer, "\r\n\r\n"...))
	return err
}

// refuse says why a request is no handshake; "" when it is one.
func (h *Head) refuse(method, version, key []byte) (status int, why string) {
	var nonce [24]byte
	n, err := 0, error(nil)
	if len(key) <= len(nonce) {
		n, err = base64.StdEncoding.Decode(nonce[:], key)
	}
	switch {
	case string(method) != http.MethodGet || string(version) != "HTTP/1.1":
		return http.StatusBadRequest, "a WebSocket handshake is GET with HTTP/1.1"
	case !h.hasToken("Connection", "upgrade") || !h.hasToken("Upgrade", "websocket"):
		return http.StatusBadRequest, "this port speaks WebSocket: the request has to ask for an upgrade to it"
	case string(h.Value("Sec-WebSocket-Version")) != "13":
		return http.StatusUpgradeRequired, "only WebSocket version 13 is spoken here"
	case err != nil || n != 16:
		return http.StatusBadRequest, "Sec-WebSocket-Key is not 16 bytes in base64"
	}
	return 0, ""
}
