package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/evm/jsonrpc"
	"flotilla/gateway/evm/upstream"

	"github.com/gorilla/websocket"
)

// Told is what a node tells that is asked once.
type Told struct {
	// Chain is what eth_chainId says, Head the number of the newest block.
	Chain, Head uint64
	// Version is what the node calls itself; empty when it does not tell.
	Version string
	// Latency is how long the question for the head took, on a connection that
	// was there.
	Latency time.Duration
	// WebSocket is why the node's heads cannot be followed over its WebSocket, nil
	// when they can. It means nothing for a server without WebSocket.
	WebSocket error
}

// Ask asks a server for its chain, its head and its version, and tries its
// WebSocket if it has one. timeout bounds each step. The error says which step
// failed, in words that hold no path of the endpoint, which may be a secret; what
// was learned until then is in Told.
func Ask(ctx context.Context, s *config.EVMServer, timeout time.Duration, network upstream.Network, trust upstream.Trust) (t Told, err error) {
	c, err := upstream.New(s.Endpoint, s.Headers, network, trust)
	if err != nil {
		return t, errors.Unwrap(err)
	}
	c.Label = s.Name
	defer c.Close()
	if t.Chain, err = heightOf(c, "eth_chainId", timeout); err != nil {
		return t, fmt.Errorf("eth_chainId: %s", explained(err))
	}
	if ctx.Err() != nil {
		return t, ctx.Err()
	}
	began := time.Now()
	if t.Head, err = heightOf(c, "eth_blockNumber", timeout); err != nil {
		return t, fmt.Errorf("eth_blockNumber: %s", explained(err))
	}
	t.Latency = time.Since(began)
	if result, err := ask(c, method("web3_clientVersion"), timeout); err == nil {
		text, _ := jsonrpc.Text(result)
		t.Version = string(text)
	}
	if s.WebSocketURL() != "" {
		t.WebSocket = tryWebSocket(ctx, s, timeout, network, trust)
	}
	return t, ctx.Err()
}

// AskReference asks a reference for its height.
func AskReference(r *config.EVMReference, timeout time.Duration, network upstream.Network, trust upstream.Trust) (uint64, error) {
	c, err := upstream.New(r.URL, r.Headers, network, trust)
	if err != nil {
		return 0, errors.Unwrap(err)
	}
	c.Label = "the reference"
	defer c.Close()
	height, err := heightOf(c, r.Method, timeout)
	if err != nil {
		return 0, errors.New(explained(err))
	}
	return height, nil
}

// tryWebSocket subscribes to newHeads.
func tryWebSocket(ctx context.Context, s *config.EVMServer, timeout time.Duration, network upstream.Network, trust upstream.Trust) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	target, err := url.Parse(s.WebSocketURL())
	if err != nil {
		return errors.Unwrap(err)
	}
	header := http.Header{}
	for key, value := range s.Headers {
		header.Set(key, value)
	}
	conn, _, err := dialWS(ctx, network, trust, target, header, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline := time.Now().Add(timeout)
	conn.SetReadDeadline(deadline)
	conn.SetWriteDeadline(deadline)
	if err := conn.WriteMessage(websocket.TextMessage, []byte(subscribeHeads)); err != nil {
		return err
	}
	_, text, err := conn.ReadMessage()
	if err != nil {
		return fmt.Errorf("eth_subscribe is not answered: %w", err)
	}
	a, ok := jsonrpc.ReadAnswer(text)
	switch {
	case !ok || a.Error == nil && !json.Valid(a.Result):
		return errors.New("eth_subscribe: the answer is no JSON-RPC answer")
	case a.Error != nil:
		return fmt.Errorf("eth_subscribe: %s", jsonrpc.ReadFault(a.Error).Message)
	}
	return nil
}
