//go:build geth

package geth

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Client is a run of client.mjs.
type Client struct {
	Library string

	in     io.Closer
	cancel context.CancelFunc
	ended  chan error
	stderr bytes.Buffer

	mu     sync.Mutex
	events []event
}

// event is one line of client.mjs.
type event struct {
	Kind         string
	Number, Logs uint64
	Hash, TX     string
	Text         string
}

// StartClient lets a library use the gateway. It is ended with the test.
func StartClient(t testing.TB, library string, g *Gateway) *Client {
	t.Helper()
	if _, err := os.Stat("node_modules"); err != nil {
		t.Fatalf("the client libraries are not installed (%v); run this in the repository, then the test again:\n\tbash tests/geth/install.sh", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", "client.mjs", library, "http://"+g.Addr, "ws://"+g.Addr, Accounts[library].Key, Contract)
	c := &Client{Library: library, cancel: cancel, ended: make(chan error, 1)}
	cmd.Stderr = &c.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.in = in
	go func() {
		c.read(t, out)
		c.ended <- cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() {
		cancel()
		for range c.ended {
		}
	})
	return c
}

func (c *Client) read(t testing.TB, out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Errorf("%s printed %q", c.Library, lines.Text())
			continue
		}
		if e.Kind == "error" {
			t.Errorf("%s: %s", c.Library, e.Text)
		}
		c.mu.Lock()
		c.events = append(c.events, e)
		c.mu.Unlock()
	}
}

// Stop has the client come to its end, and returns when it has.
func (c *Client) Stop(t testing.TB) {
	t.Helper()
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-c.ended:
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.Library, err, c.stderr.String())
		}
	case <-time.After(startTimeout):
		t.Fatalf("%s has not been told of all that it has sent: %d transactions, %d logs, %d by the filter", c.Library,
			len(c.Events("sent")), len(c.Events("log")), len(c.Events("filter")))
	}
}

// Events are those of one kind until now.
func (c *Client) Events(kind string) (list []event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.Kind == kind {
			list = append(list, e)
		}
	}
	return list
}

// WaitMore returns when the client has had more events of a kind.
func (c *Client) WaitMore(t testing.TB, kind string, more int) {
	t.Helper()
	want := len(c.Events(kind)) + more
	Eventually(t, startTimeout, c.Library+" gets no further with "+kind, func() bool { return len(c.Events(kind)) >= want })
}
