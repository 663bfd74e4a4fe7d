package chainapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Limits of a request's head (seed 003 "Limits and timeouts").
const (
	maxHead    = 16 << 10
	maxHeaders = 64
)

// What a client still sends after an answer that ends the connection is read
// for a moment, or the answer would be lost together with the connection.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 16 << 20
)

// The phases of a connection.
const (
	waiting int32 = iota // for the first byte of a request
	working
	leaving
)

// conn is one client connection. It belongs to the goroutine of run.
type conn struct {
	p   *Port
	raw *steady
	net.Conn
	in    *bufio.Reader
	head  fasthttp.RequestHeader
	body  bytes.Buffer
	phase atomic.Int32
	// closing: the connection ends after the present answer.
	closing bool
}

// steady is a client's connection whose writes may last as long as they make
// progress. It is below TLS, which does not survive a deadline.
type steady struct {
	net.Conn
	limit   func() time.Duration
	stalled atomic.Bool
}

func (s *steady) Write(b []byte) (int, error) {
	return s.push(len(b), func(done int) (int, error) { return s.Conn.Write(b[done:]) })
}

// push has write called until size bytes are written, of which it is told how
// many are done.
func (s *steady) push(size int, write func(done int) (int, error)) (written int, err error) {
	// A deadline does not tell when the last progress was, so the time is cut
	// into steps.
	step := s.limit() / stallSteps
	for quiet := 0; written < size; {
		if err := s.SetWriteDeadline(time.Now().Add(step)); err != nil {
			return written, err
		}
		n, err := write(written)
		written += n
		switch {
		case err == nil:
			quiet = 0
			continue
		case !isTimeout(err):
			return written, err
		}
		if quiet++; n > 0 {
			quiet = 0
		}
		if quiet == stallSteps {
			s.stalled.Store(true)
			return written, err
		}
	}
	return written, nil
}

// stallSteps is into how many steps the time without progress is cut.
const stallSteps = 4

// ReadFrom keeps io.Copy and the like from passing Write by.
func (s *steady) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{s}, r)
}

func newConn(p *Port, raw net.Conn) *conn {
	return &conn{p: p, raw: &steady{Conn: raw, limit: func() time.Duration { return p.settings.Load().ConnectTimeout() }}}
}

// leave ends the connection, at once when no request has begun.
func (c *conn) leave() {
	if c.phase.CompareAndSwap(waiting, leaving) {
		c.raw.Close()
	}
}

// run serves the requests of the connection, one after the other.
func (c *conn) run(secure *tls.Config) {
	defer c.raw.Close()
	c.Conn = c.raw
	if secure != nil {
		t := tls.Server(c.raw, secure)
		ctx, cancel := context.WithTimeout(context.Background(), c.p.settings.Load().ConnectTimeout())
		err := t.HandshakeContext(ctx)
		cancel()
		if err != nil {
			c.p.log.Debug("a chain API client's TLS handshake failed", "client", c.raw.RemoteAddr().String(), "error", err)
			return
		}
		c.Conn = t
	}
	c.in = bufio.NewReaderSize(c.Conn, maxHead)
	c.head.DisableNormalizing()
	c.head.SetNoDefaultContentType(true)
	for !c.closing {
		if err := c.next(); err != nil {
			if c.raw.stalled.Load() {
				c.p.Stats.Rejected.Inc(RejectedTimeout)
			}
			c.p.log.Debug("a chain API connection ended", "client", c.raw.RemoteAddr().String(), "error", err)
			return
		}
	}
	if t, ok := c.Conn.(*tls.Conn); ok {
		_ = t.CloseWrite() // best effort: the client has its answer
	}
}

// next waits for a request, reads and answers it. An error ends the connection.
func (c *conn) next() error {
	if err := c.await(c.p.settings.Load().ConnectTimeout()); err != nil {
		return err
	}
	// Only now: a configuration may have come while the connection was idle.
	s := c.p.settings.Load()
	limit := s.ConnectTimeout()
	defer c.phase.CompareAndSwap(working, waiting)
	if err := c.head.Read(c.in); err != nil {
		return c.refuse(err)
	}
	start := time.Now()
	if lines := bytes.Count(c.head.RawHeaders(), []byte("\n")); lines > maxHeaders+1 {
		return c.refuse(errTooManyHeaders)
	}
	if proto := c.head.Protocol(); string(proto) != "HTTP/1.1" && string(proto) != "HTTP/1.0" {
		return c.refuse(errProtocol)
	}
	c.closing = c.head.ConnectionClose() || c.p.stopping()
	x := &exchange{c: c, p: c.p, s: s, start: start, path: path(c.head.RequestURI())}
	x.class = decode(c.head.Method(), x.path)
	if err := c.readBody(s.api.MaxBody, limit); err != nil {
		if !errors.Is(err, errBodyTooLarge) {
			if isTimeout(err) {
				c.p.Stats.Rejected.Inc(RejectedTimeout)
			}
			return err
		}
		c.p.Stats.Rejected.Inc(RejectedBody)
		c.closing = true
		if err := x.answer(bodyTooLarge(s.api.MaxBody)); err != nil {
			return err
		}
		c.linger()
		return nil
	}
	err := x.serve()
	// A large one is not kept for the next request.
	if c.body.Cap() > largeBody {
		c.body = bytes.Buffer{}
	}
	if err == nil && c.p.stopping() {
		c.closing = true
	}
	return err
}

// largeBody is the size up to which a connection keeps its body buffer.
const largeBody = 64 << 10

var (
	errTooManyHeaders = errors.New("the request has too many headers")
	errProtocol       = errors.New("the request is of another version of HTTP")
	errBodyTooLarge   = errors.New("the request body is too large")
	errLeft           = errors.New("the port is stopping")
)

// await waits for the first byte of a request.
func (c *conn) await(limit time.Duration) error {
	if c.p.stopping() {
		return errLeft
	}
	if c.in.Buffered() == 0 {
		if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		if _, err := c.in.Peek(1); err != nil {
			return err
		}
	}
	if !c.phase.CompareAndSwap(waiting, working) {
		return errLeft
	}
	// Mostly the whole head has come at once.
	if b, _ := c.in.Peek(c.in.Buffered()); !bytes.Contains(b, []byte("\r\n\r\n")) {
		return c.SetReadDeadline(time.Now().Add(limit))
	}
	return nil
}

// refuse answers a head that is no request, if the connection still stands.
func (c *conn) refuse(err error) error {
	var small *fasthttp.ErrSmallBuffer
	var status int
	switch {
	case isTimeout(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case errors.As(err, &small) || errors.Is(err, errTooManyHeaders):
		status = fasthttp.StatusRequestHeaderFieldsTooLarge
	default:
		var network net.Error
		if errors.As(err, &network) {
			return err
		}
		status = fasthttp.StatusBadRequest
	}
	if _, err := c.Write(refusal(status)); err != nil {
		return err
	}
	c.linger()
	return err
}

// linger lets the client read the last answer.
func (c *conn) linger() {
	var err error
	if t, ok := c.Conn.(*tls.Conn); ok {
		err = t.CloseWrite()
	} else if half, ok := c.raw.Conn.(interface{ CloseWrite() error }); ok {
		err = half.CloseWrite()
	}
	if err != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.in, lingerBytes) // whatever comes is not wanted
}

// readBody reads the body of the request into c.body. Its time begins now.
func (c *conn) readBody(most int64, limit time.Duration) error {
	c.body.Reset()
	length := c.head.ContentLength()
	if length == 0 || length == -2 {
		return nil
	}
	if int64(length) > most {
		return errBodyTooLarge
	}
	if length < 0 || c.in.Buffered() < length {
		if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
	}
	if hasToken(c.head.Peek("Expect"), "100-continue") {
		if _, err := c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return err
		}
	}
	if length > 0 {
		c.body.Grow(min(length, largeBody))
		n, err := c.body.ReadFrom(io.LimitReader(c.in, int64(length)))
		if err == nil && n < int64(length) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	n, err := c.body.ReadFrom(io.LimitReader(httputil.NewChunkedReader(c.in), most+1))
	if err != nil {
		return err
	}
	if n > most {
		return errBodyTooLarge
	}
	return skipTrailer(c.in)
}

// skipTrailer reads what is behind the last chunk.
func skipTrailer(in *bufio.Reader) error {
	for {
		switch line, err := in.ReadSlice('\n'); {
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case len(bytes.TrimRight(line, "\r\n")) == 0:
			return nil
		}
	}
}

// framing is how the present answer ends, for a body of that length, which is
// negative when it is not known.
func (c *conn) framing(length int) framing {
	old := string(c.head.Protocol()) == "HTTP/1.0"
	f := framing{length: length}
	if length < 0 {
		f.chunked = !old
		c.closing = c.closing || old
	}
	f.closing = c.closing
	f.keepAlive = old && !c.closing
	return f
}

// block is how much of a body is passed on at a time.
const block = 128 << 10

var blocks = sync.Pool{New: func() any { b := make([]byte, 0, block+1<<10); return &b }}

// errTooLong is an answer that grew over max_response_bytes.
var errTooLong = errors.New("the answer is over max_response_bytes")

// upstreamError is a body that ended early on the upstream's side.
type upstreamError struct{ error }

// relay passes an answer on as it arrives. most bounds the bytes of a body of
// unknown length; 0 does not. It tells x when the answer begins, and when the
// upstream has done its part.
func (c *conn) relay(r *response, cors []byte, most int64, x *exchange) error {
	buf := blocks.Get().(*[]byte)
	defer blocks.Put(buf)
	out := appendAnswer((*buf)[:0], r, cors)
	f := c.framing(r.length)
	switch status := r.head.StatusCode(); {
	case c.head.IsHead():
		f = c.framing(max(r.head.ContentLength(), 0))
		if r.head.ContentLength() < 0 {
			f.length = -1
		}
	case status == 204 || status == 304:
		f = c.framing(0)
		f.length = -1
	}
	out = f.appendEnd(out)
	x.begun(r.head.StatusCode())
	if r.empty() {
		r.detach()
		x.leave()
		_, err := c.Write(out)
		*buf = out
		return err
	}
	used := len(out)
	if !r.buffered() {
		// The body is not there yet: the head goes ahead.
		if _, err := c.Write(out); err != nil {
			return err
		}
		used = 0
	}
	out = grow(out, used+chunkHead+block+len("\r\n"+lastChunk))
	*buf = out
	var sent int64
	for {
		var from, n int
		var err error
		from, used, n, err = appendBlock(out, used, r, f.chunked)
		if sent += int64(n); most > 0 && r.length < 0 && sent > most {
			return errTooLong
		}
		if err == io.EOF {
			r.detach()
			x.leave()
			if f.chunked {
				used += copy(out[used:], lastChunk)
			}
		}
		if used > from {
			if _, err := c.Write(out[from:used]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return upstreamError{err}
		}
		used = 0
		if done, err := c.splice(r, func() { r.detach(); x.leave() }); done {
			return err
		}
	}
}

// lastChunk ends a body of chunks.
const lastChunk = "0\r\n\r\n"

// chunkHead is the space in front of a chunk for its length and line end.
var chunkHead = len(strconv.FormatInt(block, 16)) + len("\r\n")

// appendBlock reads the next part of a body into buf, behind its first used
// bytes. What is to be written then is buf[from:used]; n is without what chunks
// add.
func appendBlock(buf []byte, used int, r *response, chunked bool) (from, _, n int, err error) {
	if !chunked {
		n, err = r.read(buf[used : used+block])
		return 0, used + n, n, err
	}
	data := used + chunkHead
	n, err = r.read(buf[data : data+block])
	if n == 0 {
		return 0, used, 0, err
	}
	// The length is written right before the data. What was in front of it is
	// moved up to it, as it is never much.
	const digits = "0123456789abcdef"
	at := data - 2
	copy(buf[at:], "\r\n")
	for rest := n; rest > 0; rest >>= 4 {
		at--
		buf[at] = digits[rest&15]
	}
	copy(buf[at-used:at], buf[:used])
	return at - used, data + n + copy(buf[data+n:], "\r\n"), n, err
}

// grow makes room for size bytes.
func grow(b []byte, size int) []byte {
	if cap(b) < size {
		b = append(make([]byte, 0, size), b...)
	}
	return b[:size]
}
