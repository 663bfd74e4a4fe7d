package main

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"
)

// clients are those of one run.
type clients struct {
	conns   []*client
	reading sync.WaitGroup
}

// client is one WebSocket.
type client struct {
	conn *websocket.Conn
	// messages counts what came after the answer to eth_subscribe; lost is true
	// once the connection has ended.
	messages atomic.Int64
	lost     atomic.Bool
}

// dialWidth is how many clients connect at once.
const dialWidth = 64

// connect opens that many WebSockets. What there is when it fails has to be
// closed, too.
func connect(address string, count int, subscribe bool) (*clients, error) {
	all := &clients{conns: make([]*client, count)}
	var group errgroup.Group
	group.SetLimit(dialWidth)
	for i := range count {
		group.Go(func() error {
			c, err := open("ws://"+address+"/", subscribe)
			if err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
			all.conns[i] = c
			return nil
		})
	}
	err := group.Wait()
	for _, c := range all.conns {
		if c != nil {
			all.reading.Go(c.read)
		}
	}
	return all, err
}

func open(url string, subscribe bool) (*client, error) {
	d := websocket.Dialer{ReadBufferSize: 512, WriteBufferSize: 512, HandshakeTimeout: time.Minute}
	conn, _, err := d.Dial(url, nil)
	if err != nil || !subscribe {
		return &client{conn: conn}, err
	}
	ask := []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}`)
	if err := conn.WriteMessage(websocket.TextMessage, ask); err != nil {
		conn.Close()
		return nil, err
	}
	var answer struct{ Result string }
	if err := conn.ReadJSON(&answer); err != nil || answer.Result == "" {
		conn.Close()
		return nil, errors.Join(errors.New("it was not subscribed"), err)
	}
	return &client{conn: conn}, nil
}

// read also answers the gateway's pings.
func (c *client) read() {
	for {
		if _, _, err := c.conn.ReadMessage(); err != nil {
			c.lost.Store(true)
			return
		}
		c.messages.Add(1)
	}
}

// check wants every client to be there still, and to have had what it is due.
func (a *clients) check(subscribed bool) error {
	lost, silent := 0, 0
	for _, c := range a.conns {
		if c.lost.Load() {
			lost++
		}
		if subscribed && c.messages.Load() == 0 {
			silent++
		}
	}
	if lost+silent > 0 {
		return fmt.Errorf("%d clients were closed, %d were told of no head", lost, silent)
	}
	return nil
}

func (a *clients) close() {
	for _, c := range a.conns {
		if c != nil {
			c.conn.Close()
		}
	}
	a.reading.Wait()
}

// healthy asks the gateway's probe.
func healthy(address string) bool {
	resp, err := http.Get("http://" + address + "/_health")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
