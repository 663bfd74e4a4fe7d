package statehistory

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// port is a served archive, in a network of its own.
type port struct {
	t    *testing.T
	net  *simulator.Network
	s    *Server
	told bytes.Buffer // what the server has logged
}

const address = "archive:8080"

// inBubble serves the archive in a bubble of its own, for at most maxSessions.
func inBubble(t *testing.T, o Options, maxSessions int, test func(p *port)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &port{t: t, net: simulator.NewNetwork()}
		l, err := p.net.Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		p.s = Serve(l, mustOpen(t, o), maxSessions, slog.New(slog.NewTextHandler(&p.told, nil)))
		defer p.s.Close()
		test(p)
	})
}

func (p *port) dial() *simulator.Client {
	p.t.Helper()
	c, err := simulator.Dial(p.t.Context(), "ws://"+address+"/any/path", simulator.ClientOptions{Dial: p.net.DialContext, Keep: true})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

// ask sends a request and returns what has come when nothing moves any more.
func (p *port) ask(c *simulator.Client, q ship.BlocksRequest) []ship.Block {
	p.t.Helper()
	before := len(c.Results())
	if err := c.Ask(q); err != nil {
		p.t.Fatal(err)
	}
	synctest.Wait()
	return c.Results()[before:]
}

// numbers are the blocks of results, 0 for one without.
func numbers(results []ship.Block) (n []uint32) {
	for _, r := range results {
		n = append(n, r.This.Num)
	}
	return n
}

func equal(t *testing.T, got []ship.Block, want ...uint32) {
	t.Helper()
	g := numbers(got)
	if len(g) != len(want) {
		t.Fatalf("blocks %v, want %v", g, want)
	}
	for i := range g {
		if g[i] != want[i] {
			t.Fatalf("blocks %v, want %v", g, want)
		}
	}
}

func request(start, end, credit uint32) ship.BlocksRequest {
	return ship.BlocksRequest{Start: start, End: end, MaxInFlight: credit, FetchBlock: true, FetchTraces: true, FetchDeltas: true}
}

func TestServerSendsWhatTheNodeSent(t *testing.T) {
	inBubble(t, realHistory(t), 0, func(p *port) {
		c := p.dial()
		if got := string(c.ABI().Text); got != `{"version": "eosio::abi/1.1"}` {
			p.t.Errorf("ABI %q", got)
		}
		want := realResults(t)
		got := p.ask(c, request(1, 1<<32-1, 1000))
		if len(got) != len(want) {
			p.t.Fatalf("%d results, want %d", len(got), len(want))
		}
		for i := range got {
			same(p.t, got[i], want[i])
		}
		// At the end it is open and silent.
		if err := c.Report().Err(); err != nil {
			p.t.Error(err)
		}
		if end, ended := c.End(); ended {
			p.t.Errorf("it ended: %v", end)
		}
		for _, v1 := range []bool{false, true} {
			s, err := c.Status(p.t.Context(), v1)
			if err != nil {
				p.t.Fatal(err)
			}
			last := want[18].This
			if s.V1 != v1 || s.Head != last || s.LIB != last || s.ChainID.String() != realChain ||
				s.Trace != (ship.Range{Begin: 2, End: 20}) || s.ChainState != (ship.Range{Begin: 1, End: 20}) || s.Finality != (ship.Range{}) {
				p.t.Errorf("status %+v", s)
			}
		}
	})
}

func TestServerKeepsTheProtocol(t *testing.T) {
	o := realHistory(t)
	o.Range = ship.Range{Begin: 9, End: 18}
	pos := func(n uint32) ship.Pos { return realResults(t)[n-1].This }
	tests := []struct {
		name string
		play func(p *port, c *simulator.Client)
	}{
		{"credit", func(p *port, c *simulator.Client) {
			equal(p.t, p.ask(c, request(9, 30, 0)))
			_ = c.Ack(2)
			synctest.Wait()
			equal(p.t, c.Results(), 9, 10)
			_ = c.Ack(0)
			_ = c.Ack(1)
			synctest.Wait()
			equal(p.t, c.Results(), 9, 10, 11)
		}},
		{"acks before a request do not count", func(p *port, c *simulator.Client) {
			_ = c.Ack(5)
			synctest.Wait()
			equal(p.t, p.ask(c, request(9, 30, 1)), 9)
		}},
		{"a request replaces the one before, its credit too", func(p *port, c *simulator.Client) {
			equal(p.t, p.ask(c, request(9, 30, 3)), 9, 10, 11)
			equal(p.t, p.ask(c, request(16, 17, 5)), 16)
			equal(p.t, p.ask(c, request(9, 30, 1)), 9)
		}},
		{"the end of the request", func(p *port, c *simulator.Client) {
			equal(p.t, p.ask(c, request(10, 12, 100)), 10, 11)
			equal(p.t, p.ask(c, request(12, 12, 100)))
			equal(p.t, p.ask(c, request(12, 0, 100)))
		}},
		{"the end of the range", func(p *port, c *simulator.Client) {
			equal(p.t, p.ask(c, request(16, 1<<32-1, 100)), 16, 17)
			equal(p.t, p.ask(c, request(18, 1<<32-1, 100)))
		}},
		{"below the range are results without ids", func(p *port, c *simulator.Client) {
			got := p.ask(c, request(7, 10, 100))
			equal(p.t, got, 0, 0, 9)
			if got[0].HasThis || got[0].HasPrev || got[0].Block != nil || got[0].Head != pos(17) {
				p.t.Errorf("%+v", got[0])
			}
		}},
		{"irreversible only is no limit", func(p *port, c *simulator.Client) {
			q := request(16, 30, 100)
			q.Irreversible = true
			equal(p.t, p.ask(c, q), 16, 17)
		}},
		{"version 1", func(p *port, c *simulator.Client) {
			q := request(12, 13, 100)
			q.V1, q.FetchFinality = true, true
			got := p.ask(c, q)
			want := realResults(t)[11]
			want.V1 = true
			equal(p.t, got, 12)
			same(p.t, got[0], want)
		}},
		{"only what was asked for", func(p *port, c *simulator.Client) {
			want := realResults(t)[11]
			want.Block, want.Deltas = nil, nil
			got := p.ask(c, ship.BlocksRequest{Start: 12, End: 13, MaxInFlight: 1, FetchTraces: true})
			equal(p.t, got, 12)
			same(p.t, got[0], want)
		}},
		{"right positions change nothing", func(p *port, c *simulator.Client) {
			q := request(12, 13, 100)
			q.Have = []ship.Pos{pos(10), pos(11), {Num: 12}}
			equal(p.t, p.ask(c, q), 12)
		}},
		{"the lowest wrong position is the start", func(p *port, c *simulator.Client) {
			q := request(14, 15, 100)
			q.Have = []ship.Pos{pos(10), {Num: 12}, {Num: 11}}
			equal(p.t, p.ask(c, q), 11, 12, 13, 14)
		}},
		{"statuses cost no credit", func(p *port, c *simulator.Client) {
			if _, err := c.Status(p.t.Context(), true); err != nil {
				p.t.Error(err)
			}
			equal(p.t, p.ask(c, request(9, 30, 1)), 9)
			if _, err := c.Status(p.t.Context(), false); err != nil {
				p.t.Error(err)
			}
		}},
		{"pings", func(p *port, c *simulator.Client) {
			_ = c.Ping("one")
			_ = c.Ping("two")
			synctest.Wait()
			if n := c.Report().Pongs; n != 2 {
				p.t.Errorf("%d pongs", n)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, o, 0, func(p *port) {
				tt.play(p, p.dial())
				if p.told.Len() > 0 {
					t.Errorf("the server logged: %s", &p.told)
				}
			})
		})
	}
}

// ends waits for the end of the connection, which must come without a Close
// frame.
func ends(t *testing.T, c *simulator.Client) {
	t.Helper()
	synctest.Wait()
	if end, ended := c.End(); !ended || end.Code != 0 {
		t.Errorf("ended: %v, with %v; want the end of TCP", ended, end)
	}
}

func TestServerDropsWhatItCannotRead(t *testing.T) {
	for name, msg := range map[string]string{"unknown": "\x05", "empty": "", "cut off": "\x01\x00\x00"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, realHistory(t), 0, func(p *port) {
				c := p.dial()
				_ = c.Send([]byte(msg))
				ends(p.t, c)
				if p.told.Len() > 0 {
					p.t.Errorf("what a client sends is logged: %s", &p.told)
				}
			})
		})
	}
}

// Damage ends the connection without a Close frame, behind the last good block.
func TestServerDropsAtDamage(t *testing.T) {
	dir := t.TempDir()
	f := makeLog(2, texts("t2", "t3", "t4")...)
	f.log[f.index[offsetSize]+headerSize+prefixSize] = 0 // in the data of block 3
	f.write(t, dir, "trace_history.log")
	o := Options{Dirs: []string{dir}, Range: ship.Range{Begin: 2, End: 5}, ABI: []byte(`{"version": "eosio::abi/1.1"}`)}
	inBubble(t, o, 0, func(p *port) {
		c := p.dial()
		equal(p.t, p.ask(c, request(2, 5, 10)), 2)
		ends(p.t, c)
		p.s.Close() // so that nobody writes to the log
		if !strings.Contains(p.told.String(), "the entry of block 3 is damaged") {
			p.t.Errorf("the server logged: %q", &p.told)
		}
	})
}

func TestServerIsBusyAtItsLimit(t *testing.T) {
	inBubble(t, realHistory(t), 2, func(p *port) {
		one, _ := p.dial(), p.dial()
		if n := p.s.Sessions(); n != 2 {
			p.t.Errorf("%d sessions", n)
		}
		client := http.Client{Transport: &http.Transport{DialContext: p.net.DialContext, DisableKeepAlives: true}}
		resp, err := client.Get("http://" + address)
		if err != nil {
			p.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			p.t.Errorf("a third client got %s", resp.Status)
		}
		one.Close()
		synctest.Wait()
		equal(p.t, p.ask(p.dial(), request(2, 3, 1)), 2)
	})
}

func TestServerAnswersClose(t *testing.T) {
	inBubble(t, realHistory(t), 0, func(p *port) {
		d := websocket.Dialer{NetDialContext: p.net.DialContext}
		ws, resp, err := d.Dial("ws://"+address, nil)
		if err != nil {
			p.t.Fatal(err)
		}
		defer ws.Close()
		_ = resp.Body.Close()
		if err := ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(4001, "a reason")); err != nil {
			p.t.Fatal(err)
		}
		_, _, err = ws.ReadMessage() // the ABI
		if err == nil {
			_, _, err = ws.ReadMessage()
		}
		var bye *websocket.CloseError
		if !errors.As(err, &bye) || bye.Code != 4001 || bye.Text != "" {
			p.t.Errorf("the answer to a Close frame: %v", err)
		}
	})
}

// The end of the server is the end of every connection, and of the port.
func TestServerCloses(t *testing.T) {
	inBubble(t, realHistory(t), 0, func(p *port) {
		c := p.dial()
		equal(p.t, p.ask(c, request(2, 3, 1)), 2)
		p.s.Close()
		ends(p.t, c)
		if conn, err := p.net.DialContext(p.t.Context(), "tcp", address); err == nil {
			_ = conn.Close()
			p.t.Error("the port is still there")
		}
		p.s.Close()
	})
}
