package session

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxUpgrade bounds the head of a client's upgrade request, in bytes.
const maxUpgrade = 16 << 10

// acceptGUID is appended to the client's key (RFC 6455 section 1.3).
const acceptGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// Upgrade answers a client's WebSocket handshake (spec "ship" 1.4): any path,
// Host and Origin, no extension and no sub-protocol. timeout 0 is no limit. It
// returns the headers of the request and the bytes that came behind it: a client
// may send its first request along with it, which gorilla's Upgrader takes as an
// error.
func Upgrade(conn net.Conn, timeout time.Duration) (early []byte, headers http.Header, err error) {
	if timeout > 0 {
		if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
			return nil, nil, err
		}
	}
	head := &io.LimitedReader{R: conn, N: maxUpgrade}
	br := bufio.NewReaderSize(head, 1024)
	req, err := http.ReadRequest(br)
	if err != nil {
		return nil, nil, fmt.Errorf("no upgrade request came: %w", err)
	}
	if status, why := refuse(req); why != "" {
		answer := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nConnection: close\r\nSec-WebSocket-Version: 13\r\nContent-Length: %d\r\n\r\n%s\n",
			status, http.StatusText(status), len(why)+1, why)
		// The refusal is the error that counts.
		_, _ = io.WriteString(conn, answer)
		return nil, nil, errors.New(why)
	}
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + acceptGUID))
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"
	if _, err := io.WriteString(conn, answer); err != nil {
		return nil, nil, err
	}
	early, err = br.Peek(br.Buffered())
	if err != nil {
		return nil, nil, err
	}
	return early, req.Header, conn.SetDeadline(time.Time{})
}

// refuse says why a request is no handshake; "" when it is one.
func refuse(req *http.Request) (status int, why string) {
	key, err := base64.StdEncoding.DecodeString(req.Header.Get("Sec-WebSocket-Key"))
	switch {
	case req.Method != http.MethodGet || req.ProtoMajor != 1 || req.ProtoMinor < 1:
		return http.StatusBadRequest, "a WebSocket handshake is GET with HTTP/1.1"
	case !hasToken(req.Header, "Connection", "upgrade") || !hasToken(req.Header, "Upgrade", "websocket"):
		return http.StatusBadRequest, "this port speaks WebSocket: the request has to ask for an upgrade to it"
	case req.Header.Get("Sec-WebSocket-Version") != "13":
		return http.StatusUpgradeRequired, "only WebSocket version 13 is spoken here"
	case err != nil || len(key) != 16:
		return http.StatusBadRequest, "Sec-WebSocket-Key is not 16 bytes in base64"
	}
	return 0, ""
}

func hasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}
