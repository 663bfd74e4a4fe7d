package handshake

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
)

// ErrBusy is the answer of a node that is full.
var ErrBusy = errors.New("the node answered 503 to the upgrade")

// Client asks the node at u, to which conn is connected, for a WebSocket. The
// Head that it returns is the answer's, with what the node has sent right behind
// it; the caller releases it. The error is ErrBusy, that of conn, or tells what
// is wrong with the answer.
func Client(conn net.Conn, u *url.URL) (*Head, error) {
	h := heads.Get().(*Head)
	if err := ask(conn, h, u); err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

func ask(conn net.Conn, h *Head, u *url.URL) error {
	var nonce [16]byte
	// It never fails.
	_, _ = rand.Read(nonce[:])
	var key [24]byte
	base64.StdEncoding.Encode(key[:], nonce[:])
	request := append(h.buf[:0], "GET "...)
	request = append(append(request, u.RequestURI()...), " HTTP/1.1\r\nHost: "...)
	request = append(append(request, u.Host...), "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: "...)
	request = append(append(request, key[:]...), "\r\nSec-WebSocket-Version: 13\r\n\r\n"...)
	if _, err := conn.Write(request); err != nil {
		return err
	}
	switch err := h.read(conn); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the node closed the connection instead of answering the upgrade")
	case err != nil && !errors.Is(err, errBadField):
		return err
	}
	return h.check(proof(key[:]))
}

// check reports what is wrong with the answer to an upgrade; accept is the proof
// that it is the answer to ours.
func (h *Head) check(accept [28]byte) error {
	version, status, ok := bytes.Cut(h.first, []byte(" "))
	switch {
	case !ok || !bytes.HasPrefix(version, []byte("HTTP/1.")):
		return fmt.Errorf("the node does not speak HTTP: it answered %q", h.first[:min(len(h.first), 64)])
	case bytes.HasPrefix(status, []byte("503")):
		return ErrBusy
	case !bytes.HasPrefix(status, []byte("101")):
		return fmt.Errorf("the node answered %q to the upgrade", status[:min(len(status), 64)])
	}
	if !h.hasToken("Upgrade", "websocket") || !h.hasToken("Connection", "upgrade") || !bytes.Equal(h.Value("Sec-WebSocket-Accept"), accept[:]) {
		return errors.New("the node's answer to the upgrade is no WebSocket handshake")
	}
	return nil
}
