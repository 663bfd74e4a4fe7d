package evm

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"flotilla/gateway/evm/health"
	"flotilla/gateway/evm/jsonrpc"

	"github.com/gorilla/websocket"
)

// Pauses of a follower.
const (
	followRetry   = 5 * time.Second
	followSilence = 2 * time.Minute
)

// follow hears of a node's heads as they come, until ctx ends. A node that has
// no WebSocket, or loses it, is polled all the same.
func (f *fleet) follow(ctx context.Context, n *Node) {
	told := false
	for {
		err := f.followOnce(ctx, n)
		if ctx.Err() != nil {
			return
		}
		if !told {
			told = true
			level := slog.LevelDebug
			if n.server.Load().WSEndpoint != "" {
				// Somebody has said that there is a WebSocket.
				level = slog.LevelWarn
			}
			f.log.Log(ctx, level, "a node's heads cannot be followed over its WebSocket, it is polled", "server", n.name(), "error", err)
		}
		if !pause(ctx, followRetry) {
			return
		}
	}
}

// subscribeHeads asks a node to announce its heads.
const subscribeHeads = `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}`

func (f *fleet) followOnce(ctx context.Context, n *Node) error {
	target, err := url.Parse(n.server.Load().WebSocketURL())
	if err != nil {
		return err
	}
	header := http.Header{}
	for key, value := range n.server.Load().Headers {
		header.Set(key, value)
	}
	conn, _, err := dialWS(ctx, f.network, f.trust, target, header, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	conn.SetWriteDeadline(time.Now().Add(dialTimeout))
	if err := conn.WriteMessage(websocket.TextMessage, []byte(subscribeHeads)); err != nil {
		return err
	}
	for {
		conn.SetReadDeadline(time.Now().Add(followSilence))
		_, text, err := conn.ReadMessage()
		if err != nil {
			return err
		}
		a, ok := jsonrpc.ReadAnswer(text)
		if ok && a.Error != nil {
			return errors.New(jsonrpc.ReadFault(a.Error).Message)
		}
		number, err := jsonrpc.Number(jsonrpc.Inside(text, "params", "result", "number"))
		if err != nil {
			continue
		}
		hash, _ := jsonrpc.Text(jsonrpc.Inside(text, "params", "result", "hash"))
		f.heard(n, number, string(hash), time.Now())
	}
}

// heard takes in a head that a node has announced. It brings a node forward,
// and never takes one out: a node that catches up announces old blocks.
func (f *fleet) heard(n *Node, height uint64, hash string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone(n) || !n.state.Known || n.aside != "" {
		return
	}
	if hash != "" {
		n.history.Add(height, hash)
	}
	if height <= n.state.Height {
		return
	}
	if f.cfg.Health.Agree && (!n.doubtful.IsZero() || height > f.view.Load().Tip+max(f.cfg.Health.HardLag, 1)) {
		// Checks decide about that.
		return
	}
	n.sawHead(height)
	change := health.None
	if tip := max(f.view.Load().Tip, height); tip-height <= f.rules.SoftLag {
		change = f.rules.Reported(&n.state, height, tip, len(f.view.Load().Pool), f.settled, now)
	} else {
		n.state.Height = height
	}
	f.publish(n, change, now)
}
