// Package handshake is both sides of a WebSocket upgrade (RFC 6455 section 4),
// without extensions and sub-protocols (spec "ship" 1.4).
//
// It is written out, as this is the dearest part of a connect with a library,
// and both sides may send more right behind their heads: a node its ABI, a
// client its first request. gorilla/websocket takes the latter as an error.
package handshake

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"iter"
	"net"
	"sync"
)

// maxHead bounds the head of a request and of an answer, in bytes.
const maxHead = 16 << 10

// usualHead is the room that a head gets at first; what comes right behind it
// mostly finds its place there too.
const usualHead = 4 << 10

var (
	errTooLong  = errors.New("the head of the upgrade is longer than 16 KiB")
	errBadField = errors.New("the head of the upgrade has a line that is no header")
)

// Head is the head of a request or an answer. All that it gives out is valid
// until Release.
type Head struct {
	// Rest is what came behind the head.
	Rest []byte

	first, fields []byte
	buf           []byte
}

var heads = sync.Pool{New: func() any { return &Head{buf: make([]byte, 0, usualHead)} }}

// Release gives h back; it must not be used after it. Nil is allowed.
func (h *Head) Release() {
	if h == nil {
		return
	}
	*h = Head{buf: h.buf[:0]}
	if cap(h.buf) == usualHead {
		heads.Put(h)
	}
}

// Value is the first value of a header, nil without one. Its name is in any case.
func (h *Head) Value(name string) []byte {
	for n, value := range h.all() {
		if len(n) == len(name) && bytes.EqualFold(n, []byte(name)) {
			return value
		}
	}
	return nil
}

// hasToken reports whether the values of a header, taken as lists, have a token,
// in any case.
func (h *Head) hasToken(name, token string) bool {
	for n, value := range h.all() {
		if len(n) != len(name) || !bytes.EqualFold(n, []byte(name)) {
			continue
		}
		for part := range bytes.SplitSeq(value, []byte(",")) {
			if bytes.EqualFold(bytes.TrimSpace(part), []byte(token)) {
				return true
			}
		}
	}
	return false
}

// all are the headers: names and trimmed values.
func (h *Head) all() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for fields := h.fields; len(fields) > 0; {
			var line []byte
			line, fields, _ = bytes.Cut(fields, []byte("\r\n"))
			name, value, _ := bytes.Cut(line, []byte(":"))
			if !yield(name, bytes.TrimSpace(value)) {
				return
			}
		}
	}
}

// read takes what comes up to the empty line behind a head, and maybe more. The
// error is errTooLong, errBadField, io.ErrUnexpectedEOF, or that of conn.
func (h *Head) read(conn net.Conn) error {
	h.buf = h.buf[:0]
	for {
		n, err := conn.Read(h.buf[len(h.buf):cap(h.buf)])
		seen := max(len(h.buf)-3, 0)
		h.buf = h.buf[:len(h.buf)+n]
		if i := bytes.Index(h.buf[seen:], []byte("\r\n\r\n")); i >= 0 {
			return h.parse(seen + i)
		}
		switch {
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case len(h.buf) >= maxHead:
			return errTooLong
		case len(h.buf) == cap(h.buf):
			h.buf = append(make([]byte, 0, 2*cap(h.buf)), h.buf...)
		}
	}
}

// parse takes the head apart, whose empty line begins at end.
func (h *Head) parse(end int) error {
	h.Rest = h.buf[end+4:]
	h.first, h.fields, _ = bytes.Cut(h.buf[:end], []byte("\r\n"))
	for name := range h.all() {
		if !isToken(name) {
			return errBadField
		}
	}
	return nil
}

// isToken reports whether b can be the name of a header (RFC 9110 section 5.6.2).
func isToken(b []byte) bool {
	for _, c := range b {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) < 0:
			return false
		}
	}
	return len(b) > 0
}

// proof is what a server answers to a key, in base64.
func proof(key []byte) (accept [28]byte) {
	var text [24 + len(acceptGUID)]byte
	n := copy(text[:], key)
	n += copy(text[n:], acceptGUID)
	sum := sha1.Sum(text[:n])
	base64.StdEncoding.Encode(accept[:], sum[:])
	return accept
}

// acceptGUID is appended to the key (RFC 6455 section 1.3).
const acceptGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
