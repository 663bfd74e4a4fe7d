package dial

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
)

// maxHead bounds the head of the upgrade answer, in bytes.
const maxHead = 16 << 10

// acceptGUID is appended to the key (RFC 6455 section 1.3).
const acceptGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// errBusy is the answer of a node that is full.
var errBusy = errors.New("the node answered 503 to the upgrade")

// upgrade connects to target and asks for a WebSocket. early is what came behind
// the answer. Its error is an *Error.
//
// It is written out, as it is the dearest part of a dial with a library, and a
// node sends its ABI right behind the answer: a library that has read into its
// own buffer has to be kept from it.
func (d *Dialer) upgrade(ctx context.Context, target string) (conn net.Conn, early []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	u, err := parseTarget(target)
	if err != nil {
		return nil, nil, &Error{Unreachable, err}
	}
	connect := d.Connect
	if connect == nil {
		connect = TCP
	}
	if conn, err = connect(ctx, "tcp", address(u)); err != nil {
		return nil, nil, &Error{Unreachable, err}
	}
	if u.Scheme == "wss" {
		if conn, err = d.secure(ctx, conn, u.Hostname()); err != nil {
			return nil, nil, &Error{Handshake, err}
		}
	}
	// Reads and writes do not look at ctx. What closes it may run when conn, a
	// result, is nil already.
	opened := conn
	stop := context.AfterFunc(ctx, func() { opened.Close() })
	early, err = handshake(conn, u)
	switch {
	case !stop():
		conn.Close()
		return nil, nil, &Error{Handshake, ctx.Err()}
	case errors.Is(err, errBusy):
		conn.Close()
		return nil, nil, &Error{Busy, err}
	case err != nil:
		conn.Close()
		return nil, nil, &Error{Handshake, err}
	}
	return conn, early, nil
}

func parseTarget(target string) (*url.URL, error) {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "ws" && u.Scheme != "wss":
		return nil, fmt.Errorf("%q is no ws or wss address", target)
	case u.Host == "":
		return nil, fmt.Errorf("%q names no host", target)
	case u.User != nil:
		return nil, errors.New("the address has a user name in it, which a SHiP node has no use for")
	}
	return u, nil
}

// address is host:port of u, with the port of the scheme when it names none.
func address(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	port := "80"
	if u.Scheme == "wss" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// handshake is the client's side of RFC 6455 section 4.1, without extensions and
// sub-protocols.
func handshake(conn net.Conn, u *url.URL) (early []byte, err error) {
	var nonce [16]byte
	// It never fails.
	_, _ = rand.Read(nonce[:])
	key := base64.StdEncoding.EncodeToString(nonce[:])
	request := "GET " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: " + key + "\r\nSec-WebSocket-Version: 13\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, err
	}
	head, early, err := readHead(conn)
	if err != nil {
		return nil, err
	}
	sum := sha1.Sum([]byte(key + acceptGUID))
	return early, checkAnswer(head, base64.StdEncoding.EncodeToString(sum[:]))
}

// readHead reads up to the empty line behind a head, and gives what came behind
// that.
func readHead(conn net.Conn) (head, rest []byte, err error) {
	buf := make([]byte, 0, 2048)
	for {
		n, err := conn.Read(buf[len(buf):cap(buf)])
		seen := max(len(buf)-3, 0)
		buf = buf[:len(buf)+n]
		if i := bytes.Index(buf[seen:], []byte("\r\n\r\n")); i >= 0 {
			end := seen + i + 4
			return buf[:end], buf[end:], nil
		}
		switch {
		case err == io.EOF:
			return nil, nil, errors.New("the node closed the connection instead of answering the upgrade")
		case err != nil:
			return nil, nil, err
		case len(buf) >= maxHead:
			return nil, nil, errors.New("the head of the upgrade answer is too long")
		case len(buf) == cap(buf):
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
	}
}

// checkAnswer reports what is wrong with the answer to an upgrade; accept is the
// proof that it is the answer to ours.
func checkAnswer(head []byte, accept string) error {
	line, fields, _ := bytes.Cut(head, []byte("\r\n"))
	version, status, ok := bytes.Cut(line, []byte(" "))
	switch {
	case !ok || !bytes.HasPrefix(version, []byte("HTTP/1.")):
		return fmt.Errorf("the node does not speak HTTP: it answered %q", line[:min(len(line), 64)])
	case bytes.HasPrefix(status, []byte("503")):
		return errBusy
	case !bytes.HasPrefix(status, []byte("101")):
		return fmt.Errorf("the node answered %q to the upgrade", status[:min(len(status), 64)])
	}
	var upgrade, connection, proof bool
	for len(fields) > 0 {
		line, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Upgrade")):
			upgrade = upgrade || hasToken(value, "websocket")
		case bytes.EqualFold(name, []byte("Connection")):
			connection = connection || hasToken(value, "upgrade")
		case bytes.EqualFold(name, []byte("Sec-WebSocket-Accept")):
			proof = string(value) == accept
		}
	}
	if !upgrade || !connection || !proof {
		return errors.New("the node's answer to the upgrade is no WebSocket handshake")
	}
	return nil
}

// hasToken reports whether a list of tokens has one, in any case.
func hasToken(list []byte, token string) bool {
	for part := range bytes.SplitSeq(list, []byte(",")) {
		if bytes.EqualFold(bytes.TrimSpace(part), []byte(token)) {
			return true
		}
	}
	return false
}
