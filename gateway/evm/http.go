package evm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/evm/upstream"

	"github.com/valyala/fasthttp"
)

// headerBuffer bounds the head of a request, in bytes.
const headerBuffer = 16 << 10

// newServer makes what parses requests. It hands each connection over as it
// is: headers that the client and the node do not set are not made up.
func (l *Listener) newServer(cfg *config.EVM, handler fasthttp.RequestHandler) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                      handler,
		ErrorHandler:                 l.badRequest,
		HeaderReceived:               l.requestLimits,
		ReadBufferSize:               headerBuffer,
		Concurrency:                  1 << 30, // Listener.take counts.
		IdleTimeout:                  cfg.Limits.IdleTimeout,
		ReadTimeout:                  cfg.Limits.HeaderTimeout,
		MaxRequestBodySize:           int(cfg.Limits.MaxBody),
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		KeepHijackedConns:            true,
		Logger:                       silent{},
	}
}

// silent drops the server's own log: what matters is logged where it is known.
type silent struct{}

func (silent) Printf(string, ...any) {}

// requestLimits gives each request the limit that is in force.
func (l *Listener) requestLimits(*fasthttp.RequestHeader) fasthttp.RequestConfig {
	limits := &l.Config().Limits
	return fasthttp.RequestConfig{MaxRequestBodySize: int(limits.MaxBody)}
}

// badRequest answers what could not be read.
func (l *Listener) badRequest(ctx *fasthttp.RequestCtx, err error) {
	var small *fasthttp.ErrSmallBuffer
	var slow net.Error
	code := fasthttp.StatusBadRequest
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		code = fasthttp.StatusRequestEntityTooLarge
	case errors.As(err, &small):
		code = fasthttp.StatusRequestHeaderFieldsTooLarge
	case errors.As(err, &slow) && slow.Timeout():
		code = fasthttp.StatusRequestTimeout
	}
	refuse(ctx.Conn(), code)
	upstream.Wipe(&ctx.Response)
}

// plain answers with a text of our own.
func plain(resp *fasthttp.Response, code int, text string) {
	upstream.Wipe(resp)
	resp.SetStatusCode(code)
	resp.Header.SetContentType("text/plain; charset=utf-8")
	resp.SetBodyString(text)
}

// The texts that clients and probes match.
const (
	textNoBackend = "Service Unavailable: No healthy backend servers"
	textAllFailed = "Bad Gateway: All backend servers failed. Last error: "
	textDraining  = "Draining"
)

var probePath = []byte("/_health")

// serveHTTP answers one request of the client port.
func (l *Listener) serveHTTP(ctx *fasthttp.RequestCtx) {
	h := &ctx.Request.Header
	if h.IsGet() || h.IsHead() {
		if path, _, _ := bytes.Cut(h.RequestURI(), []byte("?")); bytes.Equal(path, probePath) {
			l.probe(ctx)
			return
		}
		if wantsWebSocket(h) {
			l.upgrade(ctx)
			return
		}
	}
	l.Stats.Requests.Add(1)
	l.forward(ctx)
	if l.ctx.Err() != nil {
		ctx.Response.SetConnectionClose()
	}
}

// probe is what a load balancer asks.
func (l *Listener) probe(ctx *fasthttp.RequestCtx) {
	v := l.View()
	code, status, healthy := fasthttp.StatusOK, "healthy", len(v.Pool)
	switch {
	case l.draining.Load():
		code, status, healthy = fasthttp.StatusServiceUnavailable, "draining", 0
	case healthy == 0:
		code, status = fasthttp.StatusServiceUnavailable, "unhealthy"
	}
	body := append([]byte(`{"status": "`), status...)
	body = append(body, `", "healthy_backends": `...)
	body = strconv.AppendInt(body, int64(healthy), 10)
	body = append(body, `, "total_backends": `...)
	body = strconv.AppendInt(body, int64(len(v.Nodes)), 10)
	ctx.Response.SetStatusCode(code)
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.Response.SetBody(append(body, '}'))
}

// Bounds of a lingering close.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 64 << 20
)

// refuse answers a request whose body has not been read, and reads on for a
// moment: a client that is still sending would lose the answer if the
// connection were closed on it. What the server writes after that goes nowhere.
func refuse(conn net.Conn, code int) {
	text := fasthttp.StatusMessage(code)
	answer := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", code, text, len(text), text)
	conn.SetDeadline(time.Now().Add(lingerTime))
	if _, err := io.WriteString(conn, answer); err != nil {
		return
	}
	linger(conn)
}

// linger reads on for a moment after the last word to a client. A connection that
// is closed on a client that is still sending takes that word with it.
func linger(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(lingerTime))
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	io.Copy(io.Discard, io.LimitReader(conn, lingerBytes))
}
