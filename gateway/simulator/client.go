package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"flotilla/gateway/ship"
)

// ClientOptions tune a Client. The zero value is a client on TCP that acks
// nothing by itself.
type ClientOptions struct {
	// Dial connects; nil is TCP. See Network.DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Header goes along with the handshake; nil is none.
	Header http.Header
	// AckEvery acks each time that many block results have come; 0 is never.
	AckEvery uint32
	// Keep remembers every block result for Results.
	Keep bool
	// KeepTimes remembers when each block came for Arrivals.
	KeepTimes bool
	// First is the first block that the server has: below it results have no
	// ids, and from there on all have. 0 checks neither.
	First uint32
	// MayLack are the parts that a block may lack although they were asked for.
	MayLack ship.Parts
	// CheckPayload compares payload fields with those that a Node makes.
	CheckPayload bool
}

// Client is a strict SHiP client for one connection: it judges everything that
// it gets (Report). All methods may be called from any goroutine. Close it to
// end its goroutine.
type Client struct {
	opt  ClientOptions
	ws   *websocket.Conn
	abi  *ship.ABI
	done chan struct{}
	// turn is held while a message is written.
	turn chan struct{}

	mu   sync.Mutex
	cond *sync.Cond
	// Those below are guarded by mu.
	judge    judge
	results  []ship.Block
	statuses []ship.Status
	arrivals arrivals

	// end is set before done is closed.
	end End
}

// End is how a connection ended.
type End struct {
	// Code and Reason are those of the Close frame; Code is 0 when none came.
	Code   int
	Reason string
	// Err is the error of the last read.
	Err error
}

func (e End) Error() string {
	if e.Code != 0 {
		return fmt.Sprintf("closed with code %d, reason %q", e.Code, e.Reason)
	}
	return fmt.Sprintf("ended without a Close frame: %v", e.Err)
}

// Unwrap returns the error of the last read.
func (e End) Unwrap() error { return e.Err }

// Dial connects to url ("ws://host:port/") and takes the ABI. ctx limits both,
// not what follows.
func Dial(ctx context.Context, url string, o ClientOptions) (*Client, error) {
	d := websocket.Dialer{NetDialContext: o.Dial}
	ws, resp, err := d.DialContext(ctx, url, o.Header)
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", url, err)
	}
	c := &Client{opt: o, ws: ws, done: make(chan struct{}), turn: make(chan struct{}, 1)}
	c.cond = sync.NewCond(&c.mu)
	c.judge.first, c.judge.mayLack = o.First, o.MayLack
	stop := context.AfterFunc(ctx, func() { _ = ws.NetConn().Close() })
	c.abi, err = readABI(ws)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = ws.Close()
		return nil, fmt.Errorf("read the ABI of %s: %w", url, err)
	}
	go c.read()
	return c, nil
}

func readABI(ws *websocket.Conn) (*ship.ABI, error) {
	kind, text, err := ws.ReadMessage()
	if err != nil {
		return nil, endOf(err)
	}
	if kind != websocket.TextMessage {
		return nil, errors.New("the first message is not text")
	}
	return ship.ParseABI(text)
}

// ABI is the first message of the connection.
func (c *Client) ABI() *ship.ABI { return c.abi }

// Status asks for a status and waits for the answer. Call it from one goroutine
// at a time.
func (c *Client) Status(ctx context.Context, v1 bool) (ship.Status, error) {
	if err := c.Send(ship.AppendStatusRequest(nil, v1)); err != nil {
		return ship.Status{}, err
	}
	var s ship.Status
	err := c.until(ctx, func() bool {
		if len(c.statuses) == 0 {
			return false
		}
		s, c.statuses = c.statuses[0], c.statuses[1:]
		return true
	})
	return s, err
}

// Ask sends a get_blocks request. What comes is judged by the newest request,
// so ask again only when nothing of an older one can still be under way.
func (c *Client) Ask(q ship.BlocksRequest) error {
	c.mu.Lock()
	c.judge.ask(&q)
	c.arrivals = arrivals{first: q.Start, since: time.Now()}
	c.mu.Unlock()
	return c.Send(ship.AppendRequest(nil, &q))
}

// Ack gives the server n more credit.
func (c *Client) Ack(n uint32) error {
	c.mu.Lock()
	c.judge.ack(n)
	c.mu.Unlock()
	return c.Send(ship.AppendAck(nil, n))
}

// Send sends raw bytes as one binary message.
func (c *Client) Send(msg []byte) error {
	select {
	case c.turn <- struct{}{}:
	case <-c.done:
		return c.end
	}
	defer func() { <-c.turn }()
	if len(msg) > 0 && (msg[0] == ship.StatusRequestV0 || msg[0] == ship.StatusRequestV1) {
		c.mu.Lock()
		c.judge.statuses = append(c.judge.statuses, msg[0] == ship.StatusRequestV1)
		c.mu.Unlock()
	}
	if err := c.ws.WriteMessage(websocket.BinaryMessage, msg); err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	return nil
}

// Ping sends a WebSocket ping; answers are counted in Report.Pongs.
func (c *Client) Ping(data string) error {
	return c.ws.WriteControl(websocket.PingMessage, []byte(data), time.Now().Add(5*time.Second))
}

// Report returns what was seen so far.
func (c *Client) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report()
}

func (c *Client) report() Report {
	now := time.Now()
	if c.isDone() {
		now = c.judge.last
	}
	return c.judge.reportAt(now)
}

// Results returns the block results so far, with ClientOptions.Keep.
func (c *Client) Results() []ship.Block {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]ship.Block(nil), c.results...)
}

// Arrivals are the times from the last Ask to each block from its start on, in
// order, with ClientOptions.KeepTimes; the time of a block that did not come is
// negative. A number that came again, as in a fork, has its first time.
func (c *Client) Arrivals() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.arrivals.at)
}

// Between is the time from the block before block n to block n, such as that of
// a handoff when n begins a leg; ok is false unless both came since the last
// Ask, with ClientOptions.KeepTimes.
func (c *Client) Between(n uint32) (d time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.arrivals.between(n)
}

// Wait returns nil as soon as cond holds for the report. Otherwise it returns
// the End when the connection ends, or the error of ctx. cond runs under a lock
// and must not call the client.
func (c *Client) Wait(ctx context.Context, cond func(Report) bool) error {
	return c.until(ctx, func() bool { return cond(c.report()) })
}

func (c *Client) until(ctx context.Context, cond func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cond.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !cond() {
		if c.isDone() {
			return c.end
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		c.cond.Wait()
	}
	return nil
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// End is how the connection ended; ok is false while it has not.
func (c *Client) End() (e End, ok bool) {
	if !c.isDone() {
		return End{}, false
	}
	return c.end, true
}

func (c *Client) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Close drops the connection and waits for the client's goroutine.
func (c *Client) Close() {
	_ = c.ws.Close()
	<-c.done
}

func (c *Client) read() {
	c.ws.SetPongHandler(func(string) error {
		c.update(func() { c.judge.Pongs++ })
		return nil
	})
	answer := c.ws.PingHandler()
	c.ws.SetPingHandler(func(data string) error {
		c.update(func() { c.judge.Pings++ })
		return answer(data)
	})
	var err error
	for err == nil {
		var kind int
		var msg []byte
		if kind, msg, err = c.ws.ReadMessage(); err == nil {
			err = c.take(kind, msg)
		}
	}
	_ = c.ws.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = endOf(err)
	close(c.done)
	c.cond.Broadcast()
}

func endOf(err error) End {
	var bye *websocket.CloseError
	if errors.As(err, &bye) && bye.Code != websocket.CloseAbnormalClosure {
		return End{Code: bye.Code, Reason: bye.Text, Err: err}
	}
	return End{Err: err}
}

func (c *Client) update(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.cond.Broadcast()
}

func (c *Client) take(kind int, msg []byte) error {
	if kind != websocket.BinaryMessage {
		c.update(func() { c.judge.Unknown++ })
		return nil
	}
	var s ship.Status
	if len(msg) > 0 && ship.IsStatus(msg[0], len(msg)) && ship.DecodeStatus(msg, &s) == nil {
		c.update(func() {
			c.judge.status(&s)
			c.statuses = append(c.statuses, s)
		})
		return nil
	}
	var r ship.Block
	if ship.DecodeBlock(msg, &r) != nil {
		c.update(func() { c.judge.Unknown++ })
		return nil
	}
	corrupt := c.opt.CheckPayload && !payloadRight(&r)
	ack := false
	c.update(func() {
		if corrupt {
			c.judge.Corrupt++
		}
		c.judge.shape(&r)
		c.judge.block(&r.BlockHeader, time.Now())
		if c.opt.KeepTimes && r.HasThis {
			c.arrivals.note(r.This.Num, time.Now())
		}
		if c.opt.Keep {
			c.results = append(c.results, r)
		}
		ack = c.opt.AckEvery > 0 && c.judge.received%uint64(c.opt.AckEvery) == 0
	})
	if ack {
		return c.Ack(c.opt.AckEvery)
	}
	return nil
}

func payloadRight(r *ship.Block) bool {
	return isPayload(r.Block, FieldBlock, r.This.ID) && isPayload(r.Traces, FieldTraces, r.This.ID) &&
		isPayload(r.Deltas, FieldDeltas, r.This.ID) && isPayload(r.Finality, FieldFinality, r.This.ID)
}
