package chainapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
)

// faulty is a node whose probes are answered, and whose answers to clients are a
// test's.
type faulty struct {
	w        *world
	listener net.Listener
	// refuses: connections are closed as soon as they stand.
	refuses atomic.Bool
	// fault gets a connection and the head of a client's request.
	fault func(net.Conn, *http.Request)
	// arrived counts the requests of clients.
	arrived atomic.Int64
	conns   sync.WaitGroup
}

// faulty starts such a node.
func (w *world) faulty(name string, priority uint32, fault func(net.Conn, *http.Request)) *faulty {
	w.T.Helper()
	l, err := w.Net.Listen(name + ":8888")
	if err != nil {
		w.T.Fatal(err)
	}
	f := &faulty{w: w, listener: l, fault: fault}
	f.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.conns.Go(func() { f.serve(conn) })
		}
	})
	w.T.Cleanup(func() { l.Close(); f.conns.Wait() })
	w.Config.Servers = append(w.Config.Servers, &config.Server{
		Name: name, APIEndpoint: name + ":8888", Enabled: true, Role: config.Live, Priority: priority, Weight: 1,
	})
	return f
}

func (f *faulty) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); !f.refuses.Load(); {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body := fmt.Sprintf(`{"chain_id":"%s","head_block_num":1001,"last_irreversible_block_num":900,"earliest_available_block_num":1}`, f.w.Chain.ID())
		switch {
		case r.UserAgent() != "":
			f.arrived.Add(1)
			f.fault(conn, r)
			return
		case r.RequestURI != getInfo:
			body = "{}" // not a list of endpoints: all of them
		}
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			return
		}
	}
}

// says is a fault that writes something, and then leaves.
func says(text string) func(net.Conn, *http.Request) {
	return func(c net.Conn, _ *http.Request) { _, _ = io.WriteString(c, text) }
}

// saysAndHangs is a fault that writes something, and nothing more.
func saysAndHangs(text string) func(net.Conn, *http.Request) {
	return func(c net.Conn, _ *http.Request) {
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, c) // until the other side leaves
	}
}

// Wherever an exchange with a node breaks off before the head of its answer is
// whole, a read goes to another node; and an exec call or a push goes nowhere
// else, and says so. From the head on the answer is that node's.
func TestBrokenExchanges(t *testing.T) {
	const lost = "Upstream connection lost after the request was sent"
	// What came of a request: another node answered, nobody may, the client got
	// what there was and saw that it is not all, or the answer is whole.
	const (
		elsewhere = "elsewhere"
		ambiguous = "ambiguous"
		cut       = "cut"
		whole     = "whole"
	)
	for what, c := range map[string]struct {
		refuses bool
		fault   func(net.Conn, *http.Request)
		// reads is what comes of a read, once of what is sent once.
		reads, once string
	}{
		"it leaves before it reads":               {true, nil, elsewhere, ambiguous},
		"it leaves without an answer":             {false, says(""), elsewhere, ambiguous},
		"it never answers":                        {false, saysAndHangs(""), elsewhere, ambiguous},
		"half a status line":                      {false, says("HTTP/1.1 20"), elsewhere, ambiguous},
		"half a head":                             {false, says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"), elsewhere, ambiguous},
		"half a head, and then nothing":           {false, saysAndHangs("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"), elsewhere, ambiguous},
		"another protocol":                        {false, says("SSH-2.0-x\r\n\r\n"), elsewhere, ambiguous},
		"a status that is none":                   {false, says("HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n"), elsewhere, ambiguous},
		"only that it will go on":                 {false, says("HTTP/1.1 100 Continue\r\n\r\n"), elsewhere, ambiguous},
		"half a body":                             {false, says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), cut, cut},
		"half a body, and then nothing":           {false, saysAndHangs("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), cut, cut},
		"half a chunk":                            {false, says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), cut, cut},
		"no last chunk":                           {false, says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"), cut, cut},
		"an answer behind the news":               {false, says("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole"), whole, whole},
		"an answer that ends with the connection": {false, says("HTTP/1.1 200 OK\r\n\r\nwhole"), whole, whole},
	} {
		t.Run(what, func(t *testing.T) {
			for path, body := range map[string]string{
				getAccount: "{}", getInfo: "", rawBlock: byNum(100), getBlock: byNum(950), compute: "{}", sendTx: "{}",
			} {
				inBubble(t, func(t *testing.T, w *world) {
					w.Config.ChainAPI.UpstreamTimeout = 2 * time.Second
					other := w.node(simulator.APIOptions{}, priority(1))
					f := w.faulty("faulty", 0, c.fault)
					_, stop := w.start()
					defer stop()
					f.refuses.Store(c.refuses)
					want := c.reads
					if path == compute || path == sendTx {
						want = c.once
					}
					got, err := w.post(w.client(), path, body)
					moved := len(other.Requests())
					var right bool
					switch want {
					case elsewhere:
						right = err == nil && got.status == 200 && moved == 1
					case ambiguous:
						right = err == nil && got.status == 503 && got.reason() == lost && moved == 0
					case cut:
						right = err != nil && got.status == 200 && moved == 0
					case whole:
						right = err == nil && got.status == 200 && got.body == "whole" && moved == 0
					}
					if !right {
						t.Errorf("%s: %s was due, not %d %q, %v; the other node was asked %d times", path, want, got.status, got.body, err, moved)
					}
					if n := f.arrived.Load(); n > 1 || !c.refuses && n != 1 {
						t.Errorf("%s: it arrived %d times", path, n)
					}
				})
			}
		})
	}
}

// The end of the whole request ends the wait for a slot as well, whatever was
// tried before.
func TestDeadlineEndsTheQueue(t *testing.T) {
	for _, path := range []string{getAccount, rawBlock, compute, sendTx} {
		t.Run(path, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				api := w.Config.ChainAPI
				api.MaxInFlightPerUpstream, api.PushServers = 1, []string{"deaf", "full"}
				api.UpstreamTimeout, api.RequestDeadline, api.UpstreamQueue = 30*time.Second, 12*time.Second, 10*time.Second
				w.Config.HandshakeTimeout = 8 * time.Second
				deaf := w.faulty("deaf", 1, nil)
				full := w.faulty("full", 0, saysAndHangs("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"))
				_, stop := w.start()
				defer stop()
				c, in := w.raw()
				if _, err := c.Write([]byte("POST " + getAccount + " HTTP/1.1\r\nHost: x\r\nUser-Agent: u\r\nContent-Length: 0\r\n\r\n")); err != nil {
					t.Fatal(err)
				}
				if _, err := in.ReadString('\n'); err != nil { // it has the slot of the node
					t.Fatal(err)
				}
				// Connections to the other one are neither made nor refused.
				deaf.listener.Close()
				if _, err := w.Net.Listen("deaf:8888"); err != nil {
					t.Fatal(err)
				}
				got := w.ask(w.client(), path, byNum(100))
				if got.reason() != "No chain API upstream available" || got.took != 12*time.Second {
					t.Errorf("%d %s after %v", got.status, got.body, got.took)
				}
				if n := full.arrived.Load(); n != 1 {
					t.Errorf("%d requests arrived", n)
				}
			})
		})
	}
}
