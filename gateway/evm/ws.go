package evm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/evm/upstream"

	"github.com/gorilla/websocket"
	"github.com/valyala/fasthttp"
)

// The closes that clients match.
const (
	closeRotated     = "backend rotated out; reconnect"
	closeUnavailable = "backend unavailable"
	closeLost        = "backend connection lost; reconnect"
)

// Times of WebSockets.
const (
	// dialTimeout bounds the way to a node.
	dialTimeout = 5 * time.Second
	// farewell is how long a client has to answer a Close frame.
	farewell = time.Second
	// controlTimeout bounds a ping.
	controlTimeout = 5 * time.Second
)

// wsBuffer is small, as most connections are idle; large messages do not pass
// through it.
const wsBuffer = 512

var wsWriteBuffers sync.Pool

// upgrade is a client that asks for a WebSocket.
type upgrade struct {
	conn net.Conn
	// early is what the client has sent behind its request.
	early   []byte
	request *http.Request
	// uri is the request target as it was written.
	uri string
}

func wantsWebSocket(h *fasthttp.RequestHeader) bool {
	return h.IsGet() && h.ConnectionUpgrade() && bytes.EqualFold(h.Peek("Upgrade"), []byte("websocket"))
}

// upgrade answers a request for a WebSocket, or hands the connection over.
func (l *Listener) upgrade(ctx *fasthttp.RequestCtx) {
	h := &ctx.Request.Header
	c := l.find(ctx.Conn())
	switch {
	case string(h.Peek("Sec-Websocket-Version")) != "13" || len(h.Peek("Sec-Websocket-Key")) == 0 || c == nil:
		ctx.Response.Header.Set("Sec-WebSocket-Version", "13")
		plain(&ctx.Response, fasthttp.StatusBadRequest, "Bad Request: this is no WebSocket handshake of version 13")
		return
	case l.draining.Load():
		plain(&ctx.Response, fasthttp.StatusServiceUnavailable, textDraining)
		return
	case len(l.View().Pool) == 0:
		plain(&ctx.Response, fasthttp.StatusServiceUnavailable, textNoBackend)
		return
	}
	u := &upgrade{conn: ctx.Conn(), uri: string(h.RequestURI())}
	u.request = &http.Request{Method: http.MethodGet, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Host: string(h.Host()), RemoteAddr: ctx.RemoteAddr().String()}
	for key, value := range h.All() {
		u.request.Header.Add(string(key), string(value))
	}
	c.hijacked.Store(true)
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(conn net.Conn) {
		u.early = buffered(u.conn, conn)
		c.upgraded <- u
	})
}

// buffered takes what the HTTP server has read beyond the request: with a
// deadline that is over nothing more is read from the connection itself.
func buffered(raw, conn net.Conn) []byte {
	raw.SetReadDeadline(time.Unix(1, 0))
	early, _ := io.ReadAll(conn)
	raw.SetReadDeadline(time.Time{})
	if len(early) == 0 {
		// As it is with most clients. The room that ReadAll made would be kept as
		// long as the connection.
		return nil
	}
	return early
}

// session is one client's WebSocket, pinned to a node.
type session struct {
	listener *Listener
	client   *wsConn
	node     *Node
	up       *wsConn

	// rotating is true once the client has been told to reconnect.
	rotating atomic.Bool
	// nextPing and nextLook belong to the listener's ticker.
	nextPing, nextLook time.Time
	ended              chan struct{}
}

// wsSession is a client's WebSocket of either kind.
type wsSession interface {
	// tick is called now and then, and must not block.
	tick(now time.Time, v *View)
	// kill cuts the client off.
	kill()
}

// hold keeps a session among those that are looked after, until letGo.
func (l *Listener) hold(s wsSession) {
	l.Stats.Sessions.Add(1)
	l.mu.Lock()
	l.sessions[s] = struct{}{}
	l.mu.Unlock()
}

func (l *Listener) letGo(s wsSession) {
	l.mu.Lock()
	delete(l.sessions, s)
	l.mu.Unlock()
	l.Stats.Sessions.Add(-1)
}

// firstOffer is the subprotocol to confirm to a client.
func firstOffer(u *upgrade) string {
	if offered := websocket.Subprotocols(u.request); len(offered) > 0 {
		return offered[0]
	}
	return ""
}

// wsConn is a WebSocket that knows when something came last.
type wsConn struct {
	*websocket.Conn
	heard *hearing
}

// hearing is a connection that notes when something came.
type hearing struct {
	net.Conn
	at atomic.Int64
}

func (h *hearing) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if n > 0 {
		h.at.Store(time.Now().UnixNano())
	}
	return n, err
}

func hear(conn net.Conn) *hearing {
	h := &hearing{Conn: conn}
	h.at.Store(time.Now().UnixNano())
	return h
}

// silence is how long nothing has come.
func (c *wsConn) silence(now time.Time) time.Duration {
	return now.Sub(time.Unix(0, c.heard.at.Load()))
}

// say sends a Close frame.
func (c *wsConn) say(code int, text string) {
	c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(farewell))
}

// hearOut lets a client whose message was too large get our Close frame: it is
// still sending.
func (c *wsConn) hearOut(err error) {
	if errors.Is(err, websocket.ErrReadLimit) {
		linger(c.heard.Conn)
	}
}

// runSession connects a client to a node and relays until one of them goes.
func (l *Listener) runSession(u *upgrade) {
	l.Stats.Upgrades.Add(1)
	if l.Config().WebSocket.OnRotate == config.RotateMove {
		l.runMover(u)
		return
	}
	node, up, protocol := l.dialPool(u)
	if up != nil {
		defer up.Close()
	}
	client, err := accept(u, protocol)
	if err != nil {
		l.log.Debug("a WebSocket handshake failed", "client", u.request.RemoteAddr, "error", err)
		return
	}
	defer client.Close()
	s := &session{listener: l, client: client, node: node, up: up, ended: make(chan struct{})}
	if up == nil {
		s.client.say(websocket.CloseTryAgainLater, closeUnavailable)
		s.awaitClose()
		return
	}
	if limit := l.Config().WebSocket.MaxMessage; limit > 0 {
		client.SetReadLimit(limit)
		up.SetReadLimit(limit)
	}
	s.nextPing = time.Now().Add(l.Config().WebSocket.Heartbeat)
	s.nextLook = time.Now().Add(l.Config().WebSocket.HealthPoll)
	node.counters.Sessions.Add(1)
	l.hold(s)
	stop := context.AfterFunc(l.ctx, s.rotate)
	s.relay()
	stop()
	l.letGo(s)
}

// awaitClose reads until the client has closed, for a moment.
func (s *session) awaitClose() {
	s.client.SetReadDeadline(time.Now().Add(farewell))
	for {
		if _, _, err := s.client.NextReader(); err != nil {
			return
		}
	}
}

// relay passes messages both ways until one side is gone, and closes the other
// one with the same code.
func (s *session) relay() {
	var down sync.WaitGroup
	down.Go(func() {
		err := pump(s.client, s.up)
		if !s.rotating.Load() {
			s.client.say(closeOf(err))
		}
		// The client has a moment to answer before its connection is cut.
		s.client.SetReadDeadline(time.Now().Add(farewell))
	})
	err := pump(s.up, s.client)
	s.up.say(closeOf(err))
	s.up.Close()
	s.client.hearOut(err)
	down.Wait()
	close(s.ended)
}

// pump copies messages from one side to the other until either fails.
func pump(to, from *wsConn) error {
	for {
		kind, r, err := from.NextReader()
		if err != nil {
			return err
		}
		w, err := to.NextWriter(kind)
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, r); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
}

// closeOf is what to tell the other side of a connection that ended with err.
func closeOf(err error) (code int, text string) {
	var closed *websocket.CloseError
	switch {
	case errors.As(err, &closed) && closed.Code == websocket.CloseNoStatusReceived:
		return websocket.CloseNormalClosure, ""
	case errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure:
		return closed.Code, closed.Text
	case errors.Is(err, websocket.ErrReadLimit):
		return websocket.CloseMessageTooBig, "the message is too large"
	}
	return websocket.CloseGoingAway, closeLost
}

// rotate tells the client to reconnect, and ends the session.
func (s *session) rotate() {
	if s.rotating.Swap(true) {
		return
	}
	s.listener.Stats.Rotated.Add(1)
	s.client.say(websocket.CloseGoingAway, closeRotated)
	s.up.say(websocket.CloseGoingAway, "")
	s.up.Close()
}

// kill cuts both sides off.
func (s *session) kill() {
	s.client.Close()
	s.up.Close()
}

// tick looks after the session: whether its node is still in the pool, and
// whether both sides are still there.
func (s *session) tick(now time.Time, v *View) {
	l := s.listener
	ws := l.Config().WebSocket
	if !now.Before(s.nextLook) {
		s.nextLook = now.Add(ws.HealthPoll)
		if x := v.find(s.node); l.draining.Load() || x == nil || !x.State.Healthy {
			l.background.Go(s.rotate)
			return
		}
	}
	if now.Before(s.nextPing) {
		return
	}
	s.nextPing = now.Add(ws.Heartbeat)
	if gone := ws.Heartbeat + ws.Heartbeat/2; s.client.silence(now) > gone || s.up.silence(now) > gone {
		s.kill()
		return
	}
	l.background.Go(func() {
		deadline := time.Now().Add(controlTimeout)
		s.client.WriteControl(websocket.PingMessage, nil, deadline)
		s.up.WriteControl(websocket.PingMessage, nil, deadline)
	})
}

// accept does the handshake with the client.
func accept(u *upgrade, protocol string) (*wsConn, error) {
	var from io.Reader
	h := hear(u.conn)
	from = h
	if len(u.early) > 0 {
		from = io.MultiReader(bytes.NewReader(u.early), h)
	}
	up := websocket.Upgrader{WriteBufferPool: &wsWriteBuffers, WriteBufferSize: 8 << 10, CheckOrigin: func(*http.Request) bool { return true }}
	header := http.Header{}
	if protocol != "" {
		header.Set("Sec-WebSocket-Protocol", protocol)
	}
	conn, err := up.Upgrade(&takenOver{conn: h, from: bufio.NewReaderSize(from, wsBuffer)}, u.request, header)
	if err != nil {
		return nil, err
	}
	return &wsConn{conn, h}, nil
}

// takenOver lets the WebSocket library take a connection over.
type takenOver struct {
	conn net.Conn
	from *bufio.Reader
}

func (t *takenOver) Header() http.Header         { return http.Header{} }
func (t *takenOver) Write(p []byte) (int, error) { return len(p), nil }
func (t *takenOver) WriteHeader(int)             {}
func (t *takenOver) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return t.conn, bufio.NewReadWriter(t.from, bufio.NewWriterSize(t.conn, 16)), nil
}

// dialPool connects to the freshest node that takes the client, and returns
// the subprotocol to confirm. All are nil when no node does.
func (l *Listener) dialPool(u *upgrade) (*Node, *wsConn, string) {
	for _, n := range l.View().Pool {
		conn, protocol, err := l.dialNode(n.Node, u)
		if err == nil {
			return n.Node, conn, protocol
		}
		l.log.Debug("a node did not take a WebSocket", "server", n.Server.Name, "error", err)
	}
	return nil, nil, ""
}

// dialNode connects to one node as the client did to us.
func (l *Listener) dialNode(n *Node, u *upgrade) (*wsConn, string, error) {
	server := n.server.Load()
	if server.WebSocketURL() == "" {
		return nil, "", errors.New("it has no WebSocket")
	}
	target, err := url.Parse(server.WebSocketURL())
	if err != nil {
		return nil, "", err
	}
	path, query, _ := strings.Cut(u.uri, "?")
	if path != "/" || target.Path == "" {
		target.RawPath = strings.TrimSuffix(target.EscapedPath(), "/") + path
		if target.Path, err = url.PathUnescape(target.RawPath); err != nil {
			return nil, "", err
		}
	}
	if query != "" {
		target.RawQuery = strings.TrimPrefix(target.RawQuery+"&"+query, "&")
	}
	header := http.Header{}
	for key, values := range u.request.Header {
		if !connectionOnly(key) {
			header[key] = values
		}
	}
	for key, value := range server.Headers {
		header.Set(key, value)
	}
	offered := websocket.Subprotocols(u.request)
	conn, protocol, err := dialWS(l.ctx, l.opts.Network, l.opts.Trust, target, header, offered)
	if protocol == "" && len(offered) > 0 {
		// Nodes such as geth name none; clients insist on one.
		protocol = firstOffer(u)
	}
	return conn, protocol, err
}

// dialWS connects to a URL.
func dialWS(ctx context.Context, network upstream.Network, trust upstream.Trust, target *url.URL, header http.Header, offered []string) (*wsConn, string, error) {
	var h *hearing
	d := websocket.Dialer{
		HandshakeTimeout: dialTimeout,
		Subprotocols:     offered,
		ReadBufferSize:   wsBuffer,
		WriteBufferSize:  8 << 10,
		WriteBufferPool:  &wsWriteBuffers,
		NetDialContext: func(ctx context.Context, kind, address string) (net.Conn, error) {
			raw, err := network.DialContext(ctx, kind, address)
			if err != nil {
				return nil, err
			}
			h = hear(raw)
			return h, nil
		},
	}
	if target.Scheme == "wss" {
		cfg, err := trust.Config(target.Hostname())
		if err != nil {
			return nil, "", err
		}
		d.TLSClientConfig = cfg
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, resp, err := d.DialContext(ctx, target.String(), header)
	switch {
	case err != nil && resp != nil:
		return nil, "", fmt.Errorf("the WebSocket handshake is answered with HTTP status %d", resp.StatusCode)
	case err != nil:
		return nil, "", err
	}
	return &wsConn{conn, h}, resp.Header.Get("Sec-WebSocket-Protocol"), nil
}

// connectionOnly are the headers of an upgrade that are not passed on. Nodes
// refuse the Origin of a browser, which is for us to judge.
func connectionOnly(key string) bool {
	switch key {
	case "Connection", "Upgrade", "Host", "Origin", "Content-Length", "Keep-Alive", "Te", "Trailer", "Trailers",
		"Transfer-Encoding", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection":
		return true
	}
	return strings.HasPrefix(key, "Sec-Websocket-")
}
