package evm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"flotilla/gateway/evm/jsonrpc"
	"flotilla/gateway/evm/upstream"

	"github.com/gorilla/websocket"
	"github.com/valyala/fasthttp"
)

// mover is a client's WebSocket that outlives its node (on_rotate = "move").
// Calls take the way of those over HTTP, each to the node that fits. Only
// subscriptions have a connection to a node; when that goes, they move to
// another node, and what was missed meanwhile is fetched and sent once.
type mover struct {
	listener *Listener
	client   *wsConn
	upgrade  *upgrade
	ctx      context.Context
	cancel   context.CancelFunc

	// out guards the client's write side.
	out sync.Mutex
	// tasks are the calls under way; slots bounds them.
	tasks sync.WaitGroup
	slots chan struct{}

	mu   sync.Mutex
	subs []*subscription
	// node and up serve the subscriptions; up is nil while none does. Ready is
	// true when new subscriptions may be asked for at once.
	node  *Node
	up    *wsConn
	ready bool
	// waiting are the subscriptions whose request is with the node, by call id.
	waiting map[uint64]*subscription
	calls   uint64
	// keeping is true once something looks after the subscriptions.
	keeping bool
	// sampled and sample are a moment and the node's head at it.
	sampled time.Time
	sample  uint64

	// These belong to the listener's ticker.
	nextPing, nextLook time.Time
}

// Bounds of a mover.
const (
	// callSlots is how many calls of one client are under way at once.
	callSlots = 16
	// slowClient is how long a client may take to read a message.
	slowClient = 30 * time.Second
	// homeless is how long subscriptions wait for a node.
	homeless = 30 * time.Second
	// logsDelay is when a node has certainly sent the logs of a block it has.
	logsDelay = 5 * time.Second
	// maxBackfill is how many blocks are fetched after a move.
	maxBackfill = 1024
)

// runMover serves a client until it goes.
func (l *Listener) runMover(u *upgrade) {
	client, err := accept(u, firstOffer(u))
	if err != nil {
		l.log.Debug("a WebSocket handshake failed", "client", u.request.RemoteAddr, "error", err)
		return
	}
	defer client.Close()
	ws := l.Config().WebSocket
	client.SetReadLimit(ws.MaxMessage)
	m := &mover{listener: l, client: client, upgrade: u, slots: make(chan struct{}, callSlots),
		waiting: map[uint64]*subscription{}}
	m.nextPing, m.nextLook = time.Now().Add(ws.Heartbeat), time.Now().Add(ws.HealthPoll)
	m.ctx, m.cancel = context.WithCancel(l.ctx)
	stop := context.AfterFunc(l.ctx, m.rotate)
	l.hold(m)
	m.read()
	stop()
	m.cancel()
	m.unlink()
	m.tasks.Wait()
	l.letGo(m)
}

// read takes the client's messages until it is gone.
func (m *mover) read() {
	for {
		kind, text, err := m.client.ReadMessage()
		if err != nil {
			m.client.say(closeOf(err))
			m.client.hearOut(err)
			return
		}
		call, single := m.single(text)
		subscribe := single && string(call.Method) == "eth_subscribe"
		unsubscribe := single && string(call.Method) == "eth_unsubscribe"
		switch {
		case (subscribe || unsubscribe) && !m.listener.allows(m.upgrade.conn.RemoteAddr(), 1):
			m.tell(jsonrpc.AppendFault(nil, call.ID, tooMany))
		case subscribe:
			m.subscribe(&call)
		case unsubscribe:
			m.unsubscribe(&call)
		default:
			m.slots <- struct{}{}
			m.tasks.Go(func() {
				defer func() { <-m.slots }()
				m.call(kind, text)
			})
		}
	}
}

func (m *mover) single(text []byte) (jsonrpc.Call, bool) {
	var room [1]jsonrpc.Call
	calls, batch, err := jsonrpc.Read(text, room[:0])
	if err != nil || batch || len(calls) != 1 {
		return jsonrpc.Call{}, false
	}
	return calls[0], true
}

// call answers a call or a batch.
func (m *mover) call(kind int, text []byte) {
	j := jobs.Get().(*job)
	defer j.release()
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	j.request = upstream.Request{Method: post, URI: []byte("/"), Body: text}
	j.handshake = m.upgrade.request.Header
	m.listener.Stats.Requests.Add(1)
	m.listener.handle(j, m.upgrade.conn.RemoteAddr(), resp)
	body, err := whole(resp, m.listener.Config().WebSocket.MaxMessage)
	if err != nil {
		// A client gets whole messages, so what has come of it is of no use.
		body = []byte(err.Error())
	}
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] != '{' && body[0] != '[' {
		// A text for people, of ours or of a node.
		var id []byte
		if len(j.calls) == 1 {
			id = j.calls[0].ID
		}
		body = jsonrpc.AppendFault(nil, id, jsonrpc.Fault{Code: jsonrpc.CodeUnavailable, Message: string(body)})
	}
	if len(body) > 0 {
		m.send(kind, body)
	}
}

// send writes to the client; one that does not read is closed.
func (m *mover) send(kind int, text []byte) {
	m.out.Lock()
	defer m.out.Unlock()
	m.client.SetWriteDeadline(time.Now().Add(slowClient))
	if m.client.WriteMessage(kind, text) != nil {
		m.client.Close()
	}
}

func (m *mover) tell(text []byte) { m.send(websocket.TextMessage, text) }

// subscribe asks for a subscription, at once or when there is a node.
func (m *mover) subscribe(call *jsonrpc.Call) {
	s := newSubscription(call)
	m.mu.Lock()
	first := !m.keeping
	m.keeping = true
	m.subs = append(m.subs, s)
	if m.ready {
		m.request(m.up, s)
	}
	m.mu.Unlock()
	if first {
		m.tasks.Go(m.keep)
	}
}

// request writes eth_subscribe to a node. m.mu is held.
func (m *mover) request(up *wsConn, s *subscription) {
	m.calls++
	m.waiting[m.calls] = s
	m.write(up, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"eth_subscribe","params":%s}`, m.calls, orEmpty(s.params)))
}

func orEmpty(params []byte) []byte {
	if params == nil {
		return []byte("[]")
	}
	return params
}

// write sends to a node. One that cannot be written to shows when it is read
// from. m.mu is held.
func (m *mover) write(up *wsConn, text []byte) {
	up.SetWriteDeadline(time.Now().Add(dialTimeout))
	if up.WriteMessage(websocket.TextMessage, text) != nil {
		up.Close()
	}
}

// unsubscribe ends a subscription and answers the client.
func (m *mover) unsubscribe(call *jsonrpc.Call) {
	id, _ := jsonrpc.Text(jsonrpc.Element(call.Params, 0))
	m.mu.Lock()
	i := slices.IndexFunc(m.subs, func(s *subscription) bool { return s.id == string(id) })
	if i >= 0 {
		s := m.subs[i]
		m.subs = slices.Delete(m.subs, i, i+1)
		if m.ready && s.up != "" {
			m.calls++
			m.write(m.up, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"eth_unsubscribe","params":[%q]}`, m.calls, s.up))
		}
	}
	m.mu.Unlock()
	if call.ID == nil {
		return
	}
	if i < 0 {
		m.tell(jsonrpc.AppendFault(nil, call.ID, jsonrpc.Fault{Code: jsonrpc.CodeUnavailable, Message: "subscription not found"}))
		return
	}
	m.tell(bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","id":`), call.ID, []byte(`,"result":true}`)}, nil))
}

// keep has the subscriptions served by one node after the other.
func (m *mover) keep() {
	var avoid *Node
	since := time.Now()
	for moved := false; m.ctx.Err() == nil; {
		changed := m.listener.fleet.changes()
		node, up := m.connect(avoid)
		if up == nil {
			avoid = nil
			if time.Since(since) > homeless {
				m.listener.background.Go(m.rotate)
				return
			}
			waitFor(m.ctx, changed, time.Second)
			continue
		}
		if err := m.serve(node, up, moved); m.ctx.Err() == nil {
			m.listener.log.Debug("a client's subscriptions move", "from", node.name(), "reason", err)
		}
		m.unlink()
		m.listener.Stats.Moved.Add(1)
		moved, avoid, since = true, node, time.Now()
	}
}

// waitFor waits for a change, at most for a time.
func waitFor(ctx context.Context, changed <-chan struct{}, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
	}
}

// connect connects to the freshest node that takes us, but one.
func (m *mover) connect(avoid *Node) (*Node, *wsConn) {
	for _, n := range m.listener.View().Pool {
		if n.Node == avoid {
			continue
		}
		up, _, err := m.listener.dialNode(n.Node, m.upgrade)
		if err == nil {
			return n.Node, up
		}
		m.listener.log.Debug("a node did not take a WebSocket", "server", n.Server.Name, "error", err)
	}
	return nil, nil
}

// unlink closes the connection to the node.
func (m *mover) unlink() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.up != nil {
		m.up.Close()
	}
	m.up, m.node, m.ready = nil, nil, false
	clear(m.waiting)
	for _, s := range m.subs {
		s.up = ""
	}
}

// serve subscribes to everything at a node, fetches what was missed, and passes
// on what comes until the connection ends.
func (m *mover) serve(node *Node, up *wsConn, moved bool) error {
	up.SetReadLimit(m.listener.Config().WebSocket.MaxMessage)
	node.counters.Sessions.Add(1)
	m.mu.Lock()
	m.node, m.up, m.sampled = node, up, time.Time{}
	for _, s := range m.subs {
		m.request(up, s)
	}
	m.ready = true
	m.mu.Unlock()
	// Until all are in place nothing is passed on, so that what was missed comes
	// first.
	var early [][]byte
	for m.unsettled() {
		_, text, err := up.ReadMessage()
		if err != nil {
			return err
		}
		if done, err := m.settled(node, text); err != nil {
			return err
		} else if !done {
			early = append(early, text)
		}
	}
	if moved {
		if err := m.catchUp(node); err != nil {
			return err
		}
	}
	for _, text := range early {
		if err := m.notify(node, text); err != nil {
			return err
		}
	}
	for {
		_, text, err := up.ReadMessage()
		if err != nil {
			return err
		}
		if done, err := m.settled(node, text); err != nil {
			return err
		} else if done {
			continue
		}
		if err := m.notify(node, text); err != nil {
			return err
		}
	}
}

// unsettled reports whether a subscription waits for its answer.
func (m *mover) unsettled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting) > 0
}

// settled takes in the answer to a subscription, and reports whether text was
// one. Its error means that the node does not take what another one has taken.
func (m *mover) settled(node *Node, text []byte) (bool, error) {
	a, ok := jsonrpc.ReadAnswer(text)
	if !ok || a.ID == nil || a.Method != nil {
		return false, nil
	}
	var id uint64
	if _, err := fmt.Sscan(string(a.ID), &id); err != nil {
		return false, nil
	}
	m.mu.Lock()
	s := m.waiting[id]
	delete(m.waiting, id)
	m.mu.Unlock()
	if s == nil {
		return true, nil
	}
	up, _ := jsonrpc.Text(a.Result)
	if len(up) == 0 {
		if s.request == nil {
			return true, errors.New("it refuses a subscription")
		}
		m.drop(s)
		fault := jsonrpc.Fault{Code: jsonrpc.CodeUnavailable, Message: "the node does not subscribe"}
		if a.Error != nil {
			fault = jsonrpc.ReadFault(a.Error)
		}
		m.tell(jsonrpc.AppendFault(nil, s.request, fault))
		return true, nil
	}
	m.mu.Lock()
	s.up = string(up)
	if s.request != nil {
		s.begin(node.head.Load())
	}
	m.mu.Unlock()
	if s.request != nil {
		m.tell(s.answered())
		s.request = nil
	}
	return true, nil
}

func (m *mover) drop(s *subscription) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subs = slices.DeleteFunc(m.subs, func(x *subscription) bool { return x == s })
}

// notify passes a notification on.
func (m *mover) notify(node *Node, text []byte) error {
	id, ok := jsonrpc.Text(jsonrpc.Inside(text, "params", "subscription"))
	if !ok {
		return nil
	}
	m.mu.Lock()
	i := slices.IndexFunc(m.subs, func(s *subscription) bool { return s.up == string(id) })
	var s *subscription
	if i >= 0 {
		s = m.subs[i]
	}
	m.mu.Unlock()
	if s == nil {
		return nil
	}
	return m.deliver(node, s, jsonrpc.Inside(text, "params", "result"))
}

// deliver sends a result to the client, unless it has it already.
func (m *mover) deliver(node *Node, s *subscription, result []byte) error {
	if number, err := jsonrpc.Number(jsonrpc.Member(result, "number")); s.kind == "newHeads" && err == nil && !m.confirmed(number) {
		return fmt.Errorf("it announces block %d, which nobody else comes near", number)
	}
	if !s.admit(result) {
		return nil
	}
	switch s.kind {
	case "newHeads":
		node.sawHead(s.last)
		raise(&m.listener.heads.latest, s.last)
	case "logs":
		if number, err := jsonrpc.Number(jsonrpc.Member(result, "blockNumber")); err == nil {
			m.listener.told(node, number)
		}
	}
	m.tell(s.notification(result))
	return nil
}

// confirmed reports whether a height may be told to the client; it waits for
// the checks of the nodes that say so.
func (m *mover) confirmed(number uint64) bool {
	h := &m.listener.Config().Health
	limit := time.Now().Add(h.Interval + h.Timeout)
	for {
		changed := m.listener.fleet.changes()
		if m.listener.credible(number) {
			return true
		}
		left := time.Until(limit)
		if left <= 0 || m.ctx.Err() != nil {
			return false
		}
		waitFor(m.ctx, changed, left)
	}
}

// catchUp fetches what was missed between two nodes.
func (m *mover) catchUp(node *Node) error {
	timeout := m.listener.Config().Health.Timeout
	block, err := node.call(latestBlock, timeout)
	if err != nil {
		return err
	}
	head, err := jsonrpc.Number(jsonrpc.Inside(block, "number"))
	if err != nil {
		return err
	}
	node.sawHead(head)
	m.mu.Lock()
	subs := slices.Clone(m.subs)
	m.mu.Unlock()
	for _, s := range subs {
		switch s.kind {
		case "newHeads":
			err = m.fetchHeads(node, s, head, timeout)
		case "logs":
			err = m.fetchLogs(node, s, head, timeout)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchHeads sends the heads behind the last one that the client has. When that
// is not the node's, the branch has changed meanwhile, and the new one is sent
// from where it leaves the old.
func (m *mover) fetchHeads(node *Node, s *subscription, head uint64, timeout time.Duration) error {
	var blocks [][]byte
	for n := head; n > 0 && len(blocks) < maxBackfill; n-- {
		block, err := node.call(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x%x",false]}`, n), timeout)
		if err != nil {
			return err
		}
		if n <= s.last && (len(s.sent) == 0 || s.sentHead(jsonrpc.Member(block, "hash")) || !s.remembers(n)) {
			break
		}
		blocks = append(blocks, block)
	}
	for _, block := range slices.Backward(blocks) {
		result, err := headOfBlock(block)
		if err != nil {
			return err
		}
		if err := m.deliver(node, s, result); err != nil {
			return err
		}
	}
	return nil
}

// remembers reports whether the client was sent a head of that number, and it
// is not forgotten.
func (s *subscription) remembers(number uint64) bool {
	for _, n := range s.sent {
		if n == number {
			return true
		}
	}
	return false
}

// fetchLogs sends the logs that the client does not have.
func (m *mover) fetchLogs(node *Node, s *subscription, head uint64, timeout time.Duration) error {
	m.mu.Lock()
	from := s.logsFrom()
	m.mu.Unlock()
	if from > head {
		return nil
	}
	filter, err := s.logFilter(from, head)
	if err != nil {
		return err
	}
	limits := m.listener.limits.Load()
	if err := limits.logs.Acquire(m.ctx, 1); err != nil {
		return err
	}
	defer limits.logs.Release(1)
	list, err := node.call(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[%s]}`, filter), timeout)
	if err != nil {
		return err
	}
	jsonrpc.Each(list, func(result []byte) {
		if err == nil {
			err = m.deliver(node, s, result)
		}
	})
	return err
}

// rotate tells the client to reconnect: when the listener ends, drains, or has
// no node for its subscriptions.
func (m *mover) rotate() {
	m.listener.Stats.Rotated.Add(1)
	m.client.say(websocket.CloseGoingAway, closeRotated)
	m.client.SetReadDeadline(time.Now().Add(farewell))
}

func (m *mover) kill() {
	m.client.Close()
	m.cancel()
}

// tick looks whether the node is still in the pool, and whether both sides are
// still there.
func (m *mover) tick(now time.Time, v *View) {
	l := m.listener
	ws := l.Config().WebSocket
	m.mu.Lock()
	node, up := m.node, m.up
	m.mu.Unlock()
	if !now.Before(m.nextLook) {
		m.nextLook = now.Add(ws.HealthPoll)
		if l.draining.Load() {
			m.nextLook = now.Add(time.Hour)
			l.background.Go(m.rotate)
			return
		}
		if node != nil {
			if x := v.find(node); x == nil || !x.State.Healthy {
				up.Close()
			}
			m.note(node, now)
		}
	}
	if now.Before(m.nextPing) {
		return
	}
	m.nextPing = now.Add(ws.Heartbeat)
	gone := ws.Heartbeat + ws.Heartbeat/2
	// While all slots are taken nobody reads what the client sends.
	if m.client.silence(now) > gone && len(m.slots) < cap(m.slots) {
		m.kill()
		return
	}
	if up != nil && up.silence(now) > gone {
		up.Close()
		up = nil
	}
	l.background.Go(func() {
		deadline := time.Now().Add(controlTimeout)
		m.client.WriteControl(websocket.PingMessage, nil, deadline)
		if up != nil {
			up.WriteControl(websocket.PingMessage, nil, deadline)
		}
	})
}

// note raises the block up to which the client has all logs.
func (m *mover) note(node *Node, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.node != node || now.Sub(m.sampled) < logsDelay {
		return
	}
	if !m.sampled.IsZero() {
		for _, s := range m.subs {
			if s.up != "" {
				s.floor = max(s.floor, m.sample)
			}
		}
	}
	m.sampled, m.sample = now, node.head.Load()
}
