package upstream

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// Request is what to send. Its slices are only read, and only until Do
// returns.
type Request struct {
	// Method and URI are those of the request line; the path of the endpoint
	// comes before that of the URI.
	Method, URI []byte
	// Header is a client's; nil for a request of our own. What concerns only
	// its own connection is left out.
	Header *fasthttp.RequestHeader
	// Body may be empty.
	Body []byte
	// Deadline bounds the exchange, until the answer is there or, when it is
	// streamed, until its head is.
	Deadline time.Time
	// Once sends the request on a new connection: on one that has been idle it
	// cannot be told whether the node has taken it in.
	Once bool
	// Plain asks for an answer that is not compressed, so that it can be read.
	Plain bool
	// Whole waits for the end of the answer even when it comes in pieces,
	// unless it is larger than Most.
	Whole bool
	// Most is the largest answer, in bytes, that is read to its end before
	// anything of it is handed over; larger ones are streams. 0 is MaxWhole.
	Most int
}

// MaxWhole is what Most is as a rule.
const MaxWhole = 4 << 20

func (r *Request) most() int {
	if r.Most > 0 {
		return r.Most
	}
	return MaxWhole
}

// Wipe empties a response that is to be filled anew. Unlike Reset it leaves the
// server's choice alone to make up no headers, for which reading an empty head
// is the only way.
func Wipe(resp *fasthttp.Response) {
	resp.ResetBody()
	resp.SkipBody = false
	_ = resp.Header.Read(bufio.NewReaderSize(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), 64))
}

// Do sends a request and reads the answer into resp, which is empty: the
// head, and a body or a body stream. The connection of a stream belongs to it
// until it is closed. An error is an *Error; resp is wiped then.
func (c *Client) Do(r *Request, resp *fasthttp.Response) error {
	out := outPool.Get().(*[]byte)
	defer outPool.Put(out)
	*out = c.head((*out)[:0], r)
	for fresh := r.Once; ; fresh = true {
		k, err := c.take(fresh, r.Deadline)
		if err != nil {
			return err
		}
		began, err := c.exchange(k, r, *out, resp)
		if err == nil {
			return nil
		}
		k.Close()
		Wipe(resp)
		if k.used && !began && !fresh && !timedOut(err) {
			// The node had closed it while it was idle.
			continue
		}
		return &Error{Exchanging, c.Label, err}
	}
}

var outPool = sync.Pool{New: func() any { b := make([]byte, 0, 2048); return &b }}

func timedOut(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout() || errors.Is(err, fasthttp.ErrTimeout)
}

// head appends the request line, the headers and a small body.
func (c *Client) head(out []byte, r *Request) []byte {
	out = append(out, r.Method...)
	out = append(out, ' ')
	out = c.target(out, r.URI)
	out = append(out, " HTTP/1.1\r\nHost: "...)
	out = append(out, c.host...)
	out = append(out, "\r\n"...)
	if r.Header != nil {
		out = c.copyHeaders(out, r)
	} else {
		out = append(out, "Content-Type: application/json\r\n"...)
	}
	for _, h := range c.headers {
		out = appendHeader(out, []byte(h.key), []byte(h.value))
	}
	if len(r.Body) > 0 || expectsBody(r.Method) {
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, int64(len(r.Body)), 10)
		out = append(out, "\r\n"...)
	}
	out = append(out, "\r\n"...)
	if len(r.Body) <= smallBody {
		out = append(out, r.Body...)
	}
	return out
}

// smallBody is what is sent with the head in one piece.
const smallBody = 16 << 10

func expectsBody(method []byte) bool {
	switch string(method) {
	case "POST", "PUT", "PATCH":
		return true
	}
	return false
}

func appendHeader(out, key, value []byte) []byte {
	out = append(out, key...)
	out = append(out, ": "...)
	out = append(out, value...)
	return append(out, "\r\n"...)
}

// target joins the endpoint's path and query with those of a request.
func (c *Client) target(out, uri []byte) []byte {
	if len(uri) == 0 || uri[0] != '/' {
		if i := bytes.Index(uri, []byte("://")); i > 0 {
			// The form for proxies; what counts is behind the authority.
			uri = uri[i+3:]
			if j := bytes.IndexAny(uri, "/?"); j >= 0 {
				uri = uri[j:]
			} else {
				uri = nil
			}
		}
	}
	path, query, hasQuery := bytes.Cut(uri, []byte("?"))
	switch {
	case c.base == "":
		if len(path) == 0 {
			path = []byte("/")
		}
		out = append(out, path...)
	case len(path) <= 1:
		out = append(out, c.base...)
	default:
		out = append(append(out, c.base...), path...)
	}
	if hasQuery {
		out = append(append(out, '?'), query...)
	}
	if c.query != "" {
		mark := byte('?')
		if hasQuery {
			mark = '&'
		}
		out = append(append(out, mark), c.query...)
	}
	return out
}

func (c *Client) copyHeaders(out []byte, r *Request) []byte {
	h := r.Header
	named := h.Peek("Connection")
	for key, value := range h.All() {
		if hopByHop(key) || c.own(key) || len(named) > 0 && lists(named, key) {
			continue
		}
		switch string(key) {
		case "Host", "Content-Length", "Expect":
			continue
		case "Accept-Encoding":
			if r.Plain {
				continue
			}
		}
		out = appendHeader(out, key, value)
	}
	return out
}

// own reports whether the configuration gives the header.
func (c *Client) own(key []byte) bool {
	for _, h := range c.headers {
		if len(h.key) == len(key) && bytes.EqualFold(key, []byte(h.key)) {
			return true
		}
	}
	return false
}

// hopByHop are the headers that concern one connection only.
func hopByHop(key []byte) bool {
	switch string(key) {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
		"Te", "Trailer", "Trailers", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// lists reports whether a comma-separated header names key.
func lists(list, key []byte) bool {
	for item := range bytes.SplitSeq(list, []byte(",")) {
		if bytes.EqualFold(bytes.TrimSpace(item), key) {
			return true
		}
	}
	return false
}

// lateAnswer is how long a node that stopped reading has for an answer that
// says why.
const lateAnswer = time.Second

// exchange sends and reads on one connection. Began is true once a part of the
// answer is there.
func (c *Client) exchange(k *conn, r *Request, head []byte, resp *fasthttp.Response) (began bool, err error) {
	if err := k.SetDeadline(r.Deadline); err != nil {
		return false, err
	}
	var sent error
	if len(r.Body) <= smallBody {
		_, sent = k.Write(head)
	} else {
		pieces := net.Buffers{head, r.Body}
		_, sent = pieces.WriteTo(k.Conn)
	}
	if sent != nil {
		if timedOut(sent) || k.used {
			return false, sent
		}
		// A node that refuses a body for its size does not read it to its end.
		k.SetReadDeadline(time.Now().Add(lateAnswer))
	}
	for {
		if err := resp.Header.Read(k.br); err != nil {
			if sent != nil {
				err = sent
			}
			return k.br.Buffered() > 0, err
		}
		if code := resp.StatusCode(); code < 100 || code >= 200 {
			break
		}
	}
	return true, c.body(k, r, resp, sent != nil || resp.Header.ConnectionClose())
}

// body reads the body, or makes it a stream, and cleans the head.
func (c *Client) body(k *conn, r *Request, resp *fasthttp.Response, last bool) error {
	h := &resp.Header
	length := h.ContentLength()
	if named := h.Peek("Connection"); len(named) > 0 {
		dropNamed(h, named)
	}
	h.ResetConnectionClose()
	for _, key := range []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Trailers", "Upgrade"} {
		h.Del(key)
	}
	done := func() {
		if last {
			k.Close()
		} else {
			c.give(k)
		}
	}
	code := resp.StatusCode()
	switch {
	case string(r.Method) == "HEAD":
		resp.SkipBody = true
		done()
		return nil
	case code == fasthttp.StatusNoContent || code == fasthttp.StatusNotModified || length == 0:
		done()
		return nil
	case length > 0 && length <= r.most():
		body := resized(resp.SwapBody(nil), length)
		if _, err := io.ReadFull(k.br, body); err != nil {
			return err
		}
		resp.SwapBody(body)
		done()
		return nil
	}
	s := &stream{client: c, conn: k, last: last}
	switch {
	case length > 0:
		s.r, s.left = k.br, int64(length)
	case length == -1:
		s.r, s.chunked, s.left = httputil.NewChunkedReader(k.br), true, -1
	default:
		// The end of the connection is that of the answer.
		s.r, s.last, s.left = k.br, true, -1
	}
	if length > 0 {
		k.SetReadDeadline(time.Time{})
		resp.SetBodyStream(s, length)
		return nil
	}
	return s.collect(r, resp)
}

func dropNamed(h *fasthttp.ResponseHeader, named []byte) {
	for item := range bytes.SplitSeq(bytes.Clone(named), []byte(",")) {
		switch name := string(bytes.TrimSpace(item)); name {
		case "", "close", "keep-alive", "Content-Type", "Content-Length":
		default:
			h.Del(name)
		}
	}
}

func resized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// stream is the rest of a body that is handed over as it comes.
type stream struct {
	client *Client
	conn   *conn
	r      io.Reader
	// begun is what has been read already.
	begun []byte
	// left is how much is to come, -1 when that is not known.
	left    int64
	chunked bool
	// last closes the connection at the end; ended is true once it was given
	// back or closed.
	last, ended bool
	err         error
}

// collect reads a body of unknown length. What is there at once, or all of it
// when Whole is set, becomes the body; if that was not all, the rest is a
// stream.
func (s *stream) collect(r *Request, resp *fasthttp.Response) error {
	body := resp.SwapBody(nil)[:0]
	for len(body) < r.most() {
		if cap(body)-len(body) < 4096 {
			body = append(body, make([]byte, max(4096, len(body)))...)[:len(body)]
		}
		n, err := s.r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			if err := s.finish(); err != nil {
				return err
			}
			resp.SwapBody(body)
			resp.Header.SetContentLength(len(body))
			return nil
		}
		if err != nil {
			return err
		}
		if !r.Whole && s.conn.br.Buffered() == 0 {
			break
		}
	}
	s.begun = body
	s.conn.SetReadDeadline(time.Time{})
	resp.SetBodyStream(s, -1)
	return nil
}

// finish ends the exchange after the last byte of the body.
func (s *stream) finish() error {
	if s.ended {
		return nil
	}
	s.ended = true
	if s.chunked {
		// Trailers, and the empty line that ends them.
		for {
			line, err := s.conn.br.ReadSlice('\n')
			if err != nil {
				s.conn.Close()
				return err
			}
			if len(bytes.TrimRight(line, "\r\n")) == 0 {
				break
			}
		}
	}
	if s.last {
		s.conn.Close()
	} else {
		s.client.give(s.conn)
	}
	return nil
}

// streamPause is how long a node may be silent in the middle of an answer.
const streamPause = 5 * time.Minute

// Read gives what there is of the body.
func (s *stream) Read(p []byte) (n int, err error) {
	if len(s.begun) > 0 {
		n = copy(p, s.begun)
		s.begun = s.begun[n:]
		return n, nil
	}
	if s.err != nil {
		return 0, s.err
	}
	if s.left == 0 {
		s.err = io.EOF
		if err := s.finish(); err != nil {
			s.err = err
		}
		return 0, s.err
	}
	s.conn.SetReadDeadline(time.Now().Add(streamPause))
	if s.left > 0 && int64(len(p)) > s.left {
		p = p[:s.left]
	}
	n, err = s.r.Read(p)
	if s.left > 0 {
		s.left -= int64(n)
		if err == io.EOF && s.left > 0 {
			err = io.ErrUnexpectedEOF
		} else if err == io.EOF {
			err = nil
		}
	} else if err == io.EOF {
		if broken := s.finish(); broken != nil {
			err = broken
		}
	}
	s.err = err
	return n, err
}

// Close gives the connection back, or closes it when the body was not read to
// its end.
func (s *stream) Close() error {
	if s.left == 0 && s.err == nil {
		s.finish()
	}
	if !s.ended {
		s.ended = true
		s.conn.Close()
	}
	return nil
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
