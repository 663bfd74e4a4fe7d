package chainapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// call is a request as an upstream gets it.
type call struct {
	method, path []byte
	// The only headers of the client that are forwarded; empty ones are not.
	contentType, accept, userAgent []byte
	body                           []byte
	// fresh asks for a new connection. One that was idle may be lost at the
	// moment when it is used, and a call that must not be sent twice would then
	// fail for nothing.
	fresh bool
	// single forbids the second try on another connection.
	single bool
	// connect bounds the connect, head the time from then to the answer's head.
	connect, head time.Duration
	// until is when the request as a whole is over.
	until time.Time
	// gone ends it early; nil never does.
	gone context.Context
}

func (c *call) isHead() bool { return string(c.method) == "HEAD" }

// failure is a request that got no answer.
type failure struct {
	// sent: the request may have reached the node.
	sent bool
	// timeout tells a node that is too slow from one that is gone.
	timeout bool
	// ours: it was not the node's time that ran out, but the request's.
	ours bool
	// left: nobody waits for the answer any more.
	left bool
	err  error
}

func (f *failure) Error() string { return f.err.Error() }

// response is an answer whose head was read. Its owner reads the body and then
// calls done.
type response struct {
	head fasthttp.ResponseHeader
	// length of the body: -1 when it is chunked, -2 when it ends with the
	// connection.
	length int
	wire   *wire
	client *client
	body   io.Reader
	// whole: the body was read to its end. once: the connection is not to be
	// used again.
	whole, once bool
	// begin is what peek has read and read has not given out yet.
	begin []byte
	fixed io.LimitedReader
}

var responses = sync.Pool{New: func() any { return new(response) }}

// do sends a call and reads the head of the answer. A connection that was idle
// and turns out to be lost before the answer began is replaced once.
func (c *client) do(q *call) (*response, *failure) {
	for {
		var w *wire
		if !q.fresh {
			w = c.get()
		}
		reused := w != nil
		if !reused {
			left, ours := patience(q.connect, q.until)
			var err error
			if w, err = c.open(q.gone, left); err != nil {
				var timeout interface{ Timeout() bool }
				slow := errors.As(err, &timeout) && timeout.Timeout()
				return nil, &failure{err: err, timeout: slow, ours: slow && ours, left: over(q.gone)}
			}
		}
		stop := w.endsWith(q.gone)
		r, fail := c.exchange(w, q)
		stop()
		if fail == nil {
			return r, nil
		}
		w.Close()
		fail.left = over(q.gone)
		if !reused || q.single || fail.timeout || fail.left {
			return nil, fail
		}
		// The others that are idle are as old.
		c.forget()
	}
}

// over reports whether nobody waits any more. A nil gone waits for ever.
func over(gone context.Context) bool { return gone != nil && gone.Err() != nil }

// patience is how long a step may take; ours tells that it is cut short by the
// end of the whole request.
func patience(step time.Duration, until time.Time) (left time.Duration, ours bool) {
	if left = time.Until(until); left < step {
		return max(left, 0), true
	}
	return step, false
}

var scratch = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// smallBody is up to which size a body is copied behind its head, to be sent
// with one system call.
const smallBody = 16 << 10

func (c *client) send(w *wire, q *call) error {
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	b := append((*buf)[:0], q.method...)
	b = append(b, ' ')
	b = append(b, q.path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.address...)
	b = appendHeader(b, "\r\nContent-Type: ", q.contentType)
	b = appendHeader(b, "\r\nAccept: ", q.accept)
	b = appendHeader(b, "\r\nUser-Agent: ", q.userAgent)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(q.body)), 10)
	if q.isHead() {
		// nodeos sends a body with its answer to HEAD, which must not be taken
		// for the next answer.
		b = append(b, "\r\nConnection: close"...)
	}
	b = append(b, "\r\n\r\n"...)
	*buf = b
	if len(q.body) <= smallBody {
		b = append(b, q.body...)
		*buf = b
		_, err := w.Write(b)
		return err
	}
	parts := net.Buffers{b, q.body}
	_, err := parts.WriteTo(w.Conn)
	return err
}

func appendHeader(b []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	return append(append(b, name...), value...)
}

// exchange sends q and reads the head of the answer.
func (c *client) exchange(w *wire, q *call) (*response, *failure) {
	left, ours := patience(q.head, q.until)
	due := time.Now().Add(left)
	w.gap = 0
	if err := w.SetDeadline(due); err != nil {
		return nil, &failure{sent: true, err: err}
	}
	failed := func(err error) (*response, *failure) {
		slow := isTimeout(err) || !time.Now().Before(due)
		return nil, &failure{sent: true, timeout: slow, ours: slow && ours, err: err}
	}
	if over(q.gone) {
		return failed(q.gone.Err())
	}
	if err := c.send(w, q); err != nil {
		return failed(err)
	}
	r := responses.Get().(*response)
	r.head.SetNoDefaultContentType(true)
	r.head.DisableNormalizing()
	for {
		if err := r.head.Read(w.in); err != nil {
			r.recycle()
			return failed(err)
		}
		status := r.head.StatusCode()
		if status == 101 || status > 599 || status < 100 {
			r.recycle()
			return failed(fmt.Errorf("the answer has the status %d", status))
		}
		if status >= 200 {
			break
		}
	}
	r.wire, r.client, r.whole, r.once = w, c, false, q.isHead()
	w.gap = q.head
	r.length = r.head.ContentLength()
	switch status := r.head.StatusCode(); {
	case q.isHead() || status == 204 || status == 304 || r.length == 0:
		r.body, r.whole = nil, true
	case r.length > 0:
		r.fixed = io.LimitedReader{R: w.in, N: int64(r.length)}
		r.body = &r.fixed
	case r.length == -1:
		r.body = httputil.NewChunkedReader(w.in)
	default:
		r.body = w.in
	}
	return r, nil
}

// read reads more of the body. It returns io.EOF at its end, and
// io.ErrUnexpectedEOF when the connection ended before that.
func (r *response) read(b []byte) (int, error) {
	if len(r.begin) > 0 {
		n := copy(b, r.begin)
		if r.begin = r.begin[n:]; len(r.begin) == 0 && r.whole {
			return n, io.EOF
		}
		return n, nil
	}
	if r.whole {
		return 0, io.EOF
	}
	n, err := r.body.Read(b)
	switch {
	case r.length > 0 && r.fixed.N == 0:
		r.whole = true
		return n, io.EOF
	case err == io.EOF && r.length > 0:
		return n, io.ErrUnexpectedEOF
	case err == io.EOF && r.length == -1:
		if err := skipTrailer(r.wire.in); err != nil {
			return n, err
		}
	}
	r.whole = err == io.EOF
	return n, err
}

// peek reads the whole body, if it has at most that many bytes, and keeps it to
// be read again. whole tells whether it has.
func (r *response) peek(most int) (body []byte, whole bool, err error) {
	if r.whole {
		return nil, true, nil
	}
	if r.length > most {
		return nil, false, nil
	}
	var begin bytes.Buffer
	for !r.whole && begin.Len() <= most {
		part := begin.AvailableBuffer()
		if cap(part) == 0 {
			begin.Grow(max(512, r.length))
			part = begin.AvailableBuffer()
		}
		n, err := r.read(part[:min(cap(part), most+1-begin.Len())])
		begin.Write(part[:n])
		if err != nil && err != io.EOF {
			r.begin = begin.Bytes()
			return nil, false, err
		}
	}
	r.begin = begin.Bytes()
	return r.begin, r.whole && begin.Len() <= most, nil
}

// detach gives the connection back once the body was read.
func (r *response) detach() {
	w := r.wire
	if r.wire = nil; w == nil {
		return
	}
	if r.once || r.head.ConnectionClose() {
		w.Close()
	} else {
		r.client.put(w)
	}
}

// discard reads a small body that is there already, so that the connection can
// be used again.
func (r *response) discard() {
	if r.length > 0 && r.fixed.N <= int64(r.wire.in.Buffered()) {
		_, err := r.wire.in.Discard(int(r.fixed.N))
		r.whole = err == nil
	}
}

// buffered is whether some of the body can be read without waiting.
func (r *response) buffered() bool {
	return len(r.begin) > 0 || !r.whole && r.wire.in.Buffered() > 0
}

// empty is whether nothing of the body is left to read.
func (r *response) empty() bool { return r.whole && len(r.begin) == 0 }

// done gives the connection back. What was not read of the body costs it.
func (r *response) done() {
	if r.wire != nil {
		if r.whole && !r.once && !r.head.ConnectionClose() {
			r.client.put(r.wire)
		} else {
			r.wire.Close()
		}
	}
	r.recycle()
}

func (r *response) recycle() {
	r.head.Reset()
	r.wire, r.client, r.body, r.begin, r.fixed = nil, nil, nil, nil, io.LimitedReader{}
	responses.Put(r)
}

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, fasthttp.ErrTimeout)
}

// hasToken reports whether a comma-separated header value holds a token.
func hasToken(value []byte, token string) bool {
	for part := range bytes.SplitSeq(value, []byte(",")) {
		if bytes.EqualFold(bytes.TrimSpace(part), []byte(token)) {
			return true
		}
	}
	return false
}
