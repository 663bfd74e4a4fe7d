package wire

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/frame"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

const adminAddress = "gateway:9090"

// clientFault is how a client goes that has sent the first n bytes.
type clientFault struct {
	// leave ends the connection; conn is the client's end of link.
	leave func(conn net.Conn, link *Link)
	// silent is that the gateway has to find out by itself.
	silent bool
}

// TestClientSideFaults breaks the client's connection at every byte of what it
// sends: its session ends, and gives back all that it has taken.
func TestClientSideFaults(t *testing.T) {
	for name, fault := range map[string]clientFault{
		"reset":       {leave: func(_ net.Conn, l *Link) { l.Reset() }},
		"closed":      {leave: func(c net.Conn, _ *Link) { c.Close() }},
		"half-closed": {leave: func(_ net.Conn, l *Link) { l.Up.Finish() }},
		"half-open":   {leave: func(_ net.Conn, l *Link) { l.Lose() }, silent: true},
	} {
		t.Run(name, func(t *testing.T) { breakTheClient(t, fault) })
	}
}

// leaving is what a client says that goes away: it is owed blocks in the end.
func leaving() []byte {
	return slices.Concat(
		[]byte(upgradeRequest),
		masked(ship.AppendStatusRequest(nil, true)),
		frame.AppendMasked(nil, frame.Ping, []byte("one")),
		blocksRequest(scene.Everything(2, 1000, 5)),
		masked(ship.AppendAck(nil, 2)),
	)
}

func breakTheClient(t *testing.T, fault clientFault) {
	chain := simulator.ChainOptions{Head: 50, Sizes: simulator.Sizes{Traces: 500}}
	inBubble(t, 1, chain, func(t *testing.T, w *world) {
		node, server := w.node(simulator.Options{})
		// A slot that is not given back keeps the next client out.
		server.MaxSessions = 1
		w.Config.IdleTimeout, w.Config.HandshakeTimeout = 10*time.Second, 10*time.Second
		w.Admin = &config.Admin{Address: adminAddress}
		defer w.Start()()
		stream := leaving()
		for n := range len(stream) + 1 {
			conn, link := w.dialRaw(Shape{}, Shape{})
			send(t, conn, stream[:n])
			synctest.Wait()
			upgraded := n >= len(upgradeRequest)
			if open, _ := node.Links(); upgraded != (open == 2) {
				t.Fatalf("%d links after %d bytes", open, n)
			}
			if n == len(stream) {
				if busy := w.busy(); len(busy) != len(gauges) {
					t.Errorf("while the client is there, these are not at 0: %v", busy)
				}
			}
			fault.leave(conn, link)
			synctest.Wait()
			if fault.silent {
				// A second and a tick are for the Close frame that nobody gets.
				time.Sleep(w.Config.IdleTimeout - 100*time.Millisecond)
				if open, _ := node.Links(); upgraded != (open == 2) {
					t.Fatalf("%d links before the client can be taken for gone, after %d bytes", open, n)
				}
				time.Sleep(1300 * time.Millisecond)
			}
			if open, _ := node.Links(); open != 1 {
				t.Fatalf("%d links when the client has gone after %d of %d bytes, the monitor's alone was due", open, n, len(stream))
			}
			if busy := w.busy(); len(busy) != 0 {
				t.Fatalf("when the client has gone after %d of %d bytes, these are not back at 0: %v", n, len(stream), busy)
			}
			conn.Close()
		}
		if got := w.view(Shape{}, Shape{}, stream, len(upgradeAnswer)); len(got) < 5*500 {
			t.Errorf("a client that comes later gets %d bytes only", len(got))
		}
	})
}

// gauges are the metrics of what clients take up.
var gauges = []string{"flotilla_connections_open", "fleet_router_sessions", "fleet_router_active_connections"}

// busy are the lines of those gauges that are not at 0.
func (w *world) busy() (lines []string) {
	w.T.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: w.net.DialContext, DisableKeepAlives: true}}
	resp, err := client.Get("http://" + adminAddress + "/metrics")
	if err != nil {
		w.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, "{")
		if !slices.Contains(gauges, name) {
			continue
		}
		seen[name] = true
		if line = strings.TrimSpace(line); !strings.HasSuffix(line, " 0") {
			lines = append(lines, line)
		}
	}
	if len(seen) != len(gauges) {
		w.T.Fatalf("of the metrics %v only %v are there", gauges, seen)
	}
	return lines
}

// TestClientLeavesWhileItsLinkIsDialed has the client go at every moment of the
// dial to its node, and of the second dial beside it.
func TestClientLeavesWhileItsLinkIsDialed(t *testing.T) {
	inBubble(t, 1, simulator.ChainOptions{Head: 50}, func(t *testing.T, w *world) {
		const latency = 100 * time.Millisecond
		var nodes []*simulator.Node
		for range 2 {
			n, server := w.node(simulator.Options{})
			server.MaxSessions = 1
			nodes = append(nodes, n)
			w.net.OnDial(server.Endpoint, func(l *Link) {
				// The answer takes long enough for the second node to be dialed too.
				l.Up.Shape(Shape{Latency: latency})
				l.Down.Shape(Shape{Latency: 3 * latency})
			})
		}
		w.Admin = &config.Admin{Address: adminAddress}
		defer w.Start()()
		time.Sleep(10 * latency)
		busyOnes := 0
		for wait := time.Duration(0); wait < 10*latency; wait += latency / 4 {
			conn, _ := w.dialRaw(Shape{}, Shape{})
			send(t, conn, leaving())
			time.Sleep(wait)
			busyOnes += len(w.busy())
			conn.Close()
			// The nodes learn of it a little later.
			time.Sleep(5 * latency)
			if busy := w.busy(); len(busy) != 0 {
				t.Fatalf("when the client has gone after %v, these are not back at 0: %v", wait, busy)
			}
			for _, n := range nodes {
				if open, _ := n.Links(); open != 1 {
					t.Fatalf("%d links when the client has gone after %v, the monitor's alone was due", open, wait)
				}
			}
		}
		if busyOnes < 30*len(gauges) {
			t.Errorf("only %d gauges were not at 0 in between", busyOnes)
		}
	})
}

// TestHalfOpenClientInMidStream has a client vanish that is owed more than the
// sockets hold: its node is rid of it as soon as what is kept for it is full,
// and the client is closed when slow_client_timeout is over.
func TestHalfOpenClientInMidStream(t *testing.T) {
	chain := simulator.ChainOptions{Head: 3000, Sizes: simulator.Sizes{Traces: 2000}}
	inBubble(t, 1, chain, func(t *testing.T, w *world) {
		node, _ := w.node(simulator.Options{})
		w.Config.ClientBuffer, w.Config.SlowClientTimeout = 1<<20, 30*time.Second
		w.Admin = &config.Admin{Address: adminAddress}
		defer w.Start()()
		conn, link := w.dialRaw(Shape{}, Shape{Bandwidth: 1 << 20})
		send(t, conn, slices.Concat([]byte(upgradeRequest), blocksRequest(scene.Everything(2, 3000, 3000))))
		if _, err := io.ReadFull(conn, make([]byte, 500_000)); err != nil {
			t.Fatal(err)
		}
		link.Lose()
		time.Sleep(time.Second)
		if open, _ := node.Links(); open != 1 {
			t.Errorf("%d links while the client takes nothing, the monitor's alone was due", open)
		}
		time.Sleep(w.Config.SlowClientTimeout - 2*time.Second)
		if busy := w.busy(); len(busy) != 2 {
			t.Errorf("before the client can be taken for gone, these are not at 0: %v", busy)
		}
		// It has a second to take the Close frame, and one to answer it.
		time.Sleep(4 * time.Second)
		if busy := w.busy(); len(busy) != 0 {
			t.Errorf("when it is, these are not at 0: %v", busy)
		}
	})
}

// TestClientThatIsCutOffComesBack resets a client at random bytes of its
// stream, again and again. It asks anew from where it was, and gets every block
// once.
func TestClientThatIsCutOffComesBack(t *testing.T) {
	chain := simulator.ChainOptions{Head: 300, Sizes: simulator.Sizes{Traces: 300, Deltas: 100}}
	inBubble(t, 1, chain, func(t *testing.T, w *world) {
		node, server := w.node(simulator.Options{})
		server.MaxSessions = 1
		defer w.Start()()
		random := rand.New(rand.NewPCG(1, 1))
		w.net.OnDial(scene.Address, func(l *Link) { l.Down.ResetAfter(5000 + random.Int64N(10_000)) })
		cuts := 0
		for next := uint32(2); next <= 300; cuts++ {
			c := w.Dial(simulator.ClientOptions{AckEvery: 1, CheckPayload: true, Keep: true})
			w.Ask(c, scene.Everything(next, 301, 10))
			err := c.Wait(w.Ctx, func(r simulator.Report) bool { return r.Last.Num == 300 })
			c.Close()
			// The only slot is free again.
			synctest.Wait()
			if err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatalf("the client ends with: %v", err)
			}
			for _, b := range c.Results() {
				if b.This != w.Chain.Pos(next) {
					t.Fatalf("got block %v, %d was due", b.This, next)
				}
				next++
			}
			if err := c.Report().Err(); err != nil {
				t.Fatal(err)
			}
		}
		if open, _ := node.Links(); open != 1 || cuts < 10 {
			t.Errorf("%d links are open after %d cuts", open, cuts)
		}
	})
}
